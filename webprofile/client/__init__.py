"""The `webprofile` command: a command line client of the site's API.

`pip install .` installs this package and `webprofile.terminal` without the server. The server
imports only `webprofile.client.batchfile` from this package.
"""

__version__ = "0.5.0"
