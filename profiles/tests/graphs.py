"""Columns and graphs of real profiles and of small profiles made by hand."""

from typing import Any

from profiles.formats.columns import ProfileColumns
from profiles.formats.load_and_run.graph import ExecutedGraph
from profiles.formats.load_and_run.reader import parse_whole
from profiles.tests.make import make_profile, to_json
from testdata import compiled_profile, good_profile

NODE = 'CompNode("gpu0:0" from "gpu0:0")'


def read(data: bytes) -> tuple[ExecutedGraph, ProfileColumns]:
    """Return the graph and the columns of a profile."""
    columns, graph = parse_whole(data)
    return graph(), columns


def read_good(name: str) -> tuple[ExecutedGraph, ProfileColumns]:
    """Return the graph and the columns of a profile that the MegEngine wheel wrote."""
    return read(good_profile(name))


def read_compiled(name: str) -> tuple[ExecutedGraph, ProfileColumns]:
    """Return those of a profile that a compiled load_and_run wrote, with a memory plan."""
    return read(compiled_profile(name))


def read_times(
    device: dict[str, Any], host: dict[str, Any] | None = None, types: dict[str, str] | None = None
) -> tuple[ExecutedGraph, ProfileColumns]:
    """Return those of a profile whose operators have the times `{id: (start, kern, end)}`, s."""
    profile = make_profile(
        {key: _lane(NODE, times) for key, times in device.items()},
        host={key: _lane("main", times) for key, times in (host or {}).items()},
    )
    for key, name in (types or {}).items():
        profile["graph_exec"]["operator"][key]["type"] = name
    return read(to_json(profile))


def _lane(name: str, times: tuple[Any, Any, Any]) -> dict[str, Any]:
    return {name: dict(zip(("start", "kern", "end"), times, strict=True))}
