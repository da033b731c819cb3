"""Read a profile step by step as `profile_analyze` does, with Python's `json`: slow, and lenient.

Names may be numbers, and what is never looked at may be anything. So the command prints for odd
files what the tool prints; pages want sounder ones.
"""

import json
from collections.abc import Iterable
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.parsers.columns import NumberColumn, SideTimes, TextColumn
from profiles.parsers.sections import Sections

_MISSING = object()


def as_the_tool(data: bytes | mmap) -> Sections | None:
    """Return what is read, or None where the tool would stop with a traceback."""
    try:
        dump = json.loads(str(data, "utf-8"))
        return _sections(dump["graph_exec"], dump["profiler"])
    # whatever a step finds instead of what it wants
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None


def _sections(graph: Any, profiler: Any) -> Sections:
    variables = graph["var"]
    operators = {}
    for key, entry in graph["operator"].items():
        inputs = [variables[each] for each in entry["input"]]
        for each in entry["output"]:
            variables[each]
        operators[key] = (entry["name"], entry["type"], entry["id"], inputs)
    device = {key: _nodes(entry) for key, entry in profiler["device"].items() if key in operators}
    host = {key: _nodes(entry) for key, entry in profiler["host"].items() if key in operators}
    costs = {
        key: dict(entry)
        for key, entry in profiler.get("opr_footprint", {}).items()
        if key in operators
    }
    keys = [key for key in operators if device.get(key) or host.get(key)]
    entries = [operators[key] for key in keys]
    found = [costs.get(key, {}) for key in keys]
    return Sections(
        names=[str(name) for name, _, _, _ in entries],
        ids=[_id(each) for _, _, each, _ in entries],
        types=[str(kind) for _, kind, _, _ in entries],
        device=_times([device.get(key, []) for key in keys]),
        host=_times([host.get(key, []) for key in keys]),
        computation=_numbers([each.get("computation") or _MISSING for each in found]),
        memory=_numbers([each.get("memory", _MISSING) for each in found]),
        costs=np.arange(len(keys)),
        in_shapes=[_raw(each, "in_shapes") for each in found],
        out_shapes=[_raw(each, "out_shapes") for each in found],
        in_layouts=[_raw(each, "in_layouts") for each in found],
        in_dtypes=TextColumn.from_texts([_dtypes(inputs) for _, _, _, inputs in entries]),
    )


def _nodes(entry: Any) -> list[dict[str, Any]]:
    return [dict(times) for times in entry.values()]


def _times(nodes: list[list[dict[str, Any]]]) -> SideTimes:
    return SideTimes(
        present=np.array(list(map(bool, nodes)), dtype=np.bool_),
        end_s=_floats([_largest(t["end"] - t["start"] for t in each) for each in nodes]),
        # only --top-end-key kern reads it: a profile without it is good for all else
        kern_s=_floats([_largest(map(_kern, each)) for each in nodes]),
    )


def _kern(times: dict[str, Any]) -> float:
    kern = times.get("kern")
    return kern - times["start"] if isinstance(kern, int | float) else np.nan


def _largest(times: Iterable[float]) -> float:
    listed = np.array(list(times), dtype=np.float64)
    return float(listed.max()) if listed.size else np.nan


def _numbers(values: list[Any]) -> NumberColumn:
    present = np.array([value is not _MISSING for value in values], dtype=np.bool_)
    return NumberColumn(_floats([_number(value) for value in values]), present)


def _floats(values: list[float]) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


def _number(value: Any) -> float:
    if value is _MISSING:
        return np.nan
    if not isinstance(value, int | float):
        raise TypeError(value)
    return float(value)


def _id(value: Any) -> str:
    if isinstance(value, str) and value != "N/A":
        int(value)
    return str(value)


def _raw(cost: dict[str, Any], field: str) -> bytes:
    if field not in cost:
        return b""
    text = json.dumps(cost[field])
    # what JSON cannot write is written as the tool prints it
    return json.dumps(json.loads(text, parse_constant=lambda name: str(float(name)))).encode()


def _dtypes(inputs: list[Any]) -> str:
    return json.dumps([_dtype(each) for each in inputs], ensure_ascii=False, separators=(",", ":"))


def _dtype(variable: Any) -> str | None:
    """The dtype, None for what has none: the tool stops there, and only if it is asked for one."""
    try:
        dtype = variable["mem_plan"]["layout"]["dtype"]
    except (LookupError, TypeError):
        return None
    return dtype if isinstance(dtype, str) else None
