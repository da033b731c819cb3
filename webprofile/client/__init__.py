"""The `webprofile` command: a site's devices, tasks and results from afar, over its API.

`pip install .` installs this package and `webprofile.terminal`, and nothing of the server. Of this
package the server imports `webprofile.client.batchfile` alone.
"""

__version__ = "0.5.0"
