"""Where the recorded profiles and the original tool's outputs lie."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the recorded profiles are not here")


def commands(file: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the recorded runs of profile_analyze, none if the data are not here."""
    if not DATA.is_dir():
        return []
    listed = json.loads((DATA / "truth" / file).read_text())
    return [command for command in listed if not arguments or command["arguments"] in arguments]


def truth(command: dict[str, Any]) -> bytes:
    """Return what the tool printed."""
    path = DATA / "truth" / command["file"]
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def good_profile(name: str = "two_inputs") -> bytes:
    """Return a real profile."""
    return (DATA / "profiles" / f"{name}.json").read_bytes()


def bad_profile(name: str) -> bytes:
    """Return a damaged profile."""
    return (DATA / "bad" / "profiles" / f"{name}.json").read_bytes()
