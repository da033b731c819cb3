"""The `webprofile` command: a command line client of the site's API.

`pip install .` installs this package and `webprofile.terminal` without the server. The server
imports only `webprofile.client.batchfile` from this package.
"""

from importlib import metadata
from pathlib import Path

try:
    __version__ = metadata.version("megengine-web-profile")
except metadata.PackageNotFoundError:  # run from a clone
    __version__ = Path(__file__).parents[2].joinpath("agent/VERSION").read_text("ascii").strip()
