"""The `webprofile` command: a site's devices, tasks and results from afar, over its API.

`pip install .` installs this package, `webprofile.batchfile` and `webprofile.terminal`, and nothing
of the server. Both others are shared with `manage.py`; nobody imports this one.
"""

__version__ = "0.5.0"
