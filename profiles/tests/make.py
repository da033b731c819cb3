"""Small profiles made by hand."""

import json
from typing import Any

NODE = 'CompNode("cpu0:0" from "xpux:0")'


def make_profile(
    device: dict[str, Any],
    *,
    host: dict[str, Any] | None = None,
    footprint: dict[str, Any] | None = None,
    names: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return a profile whose operators are the keys of `device`.

    device, host: by operator id either a self time in seconds, or times by node
    """
    names = names or {}
    return {
        "profiler": {
            "device": {key: _nodes(value) for key, value in device.items()},
            "host": {key: _nodes(value) for key, value in (host or {}).items()},
            "opr_footprint": footprint or {},
        },
        "graph_exec": {
            "operator": {
                key: {
                    "name": names.get(key, f"op{key}"),
                    "type": "Elemwise",
                    "id": key,
                    "input": ["v"],
                    "output": ["v"],
                }
                for key in device
            },
            "var": {"v": {"mem_plan": {"layout": {"dtype": "Float32"}}}},
        },
    }


def to_json(profile: dict[str, Any]) -> bytes:
    """Return the profile's bytes."""
    return json.dumps(profile).encode()


def _nodes(value: Any) -> Any:
    if isinstance(value, float):
        return {NODE: {"start": 0.0, "kern": value, "end": value}}
    return value
