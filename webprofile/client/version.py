"""The version of the client."""

from importlib import metadata
from pathlib import Path

try:
    __version__ = metadata.version("megengine-web-profile")
except metadata.PackageNotFoundError:  # run from a clone
    __version__ = Path(__file__).parents[2].joinpath("agent/VERSION").read_text("ascii").strip()
