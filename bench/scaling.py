"""Enlarge a recorded profile by repeating its operators."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Change = Callable[[Any, int], Any]


def write_scaled(source: Path, operators: int, target: Path) -> int:
    """Write a profile with at least `operators` operators and return how many it has.

    Every copy has ids and names of its own. The file is written entry by entry, so that 200 MB of
    output need little memory.
    """
    profile = json.loads(source.read_bytes())
    graph, profiler = profile["graph_exec"], profile["profiler"]
    stride = 1 + max(int(key) for section in ("operator", "var") for key in graph[section])
    copies = -(-operators // len(graph["operator"]))
    graph_changes = {"operator": _operator, "var": _variable, "mem_chunk": _same}
    with target.open("w", encoding="utf-8") as file:
        file.write('{ "profiler": ')
        file.writelines(_object(profiler, dict.fromkeys(profiler, _same), copies, stride))
        file.write(', "graph_exec": ')
        file.writelines(_object(graph, graph_changes, copies, stride))
        file.write("}")
    return copies * len(graph["operator"])


def _object(
    sections: dict[str, Any], changes: dict[str, Change], copies: int, stride: int
) -> Iterator[str]:
    """Yield the JSON of all sections. Those in `changes` and lists of ids are repeated."""
    opening = "{ "
    for name, section in sections.items():
        yield f"{opening}{json.dumps(name)}: "
        opening = ", "
        if name in changes:
            yield from _repeated(section, changes[name], copies, stride)
        elif isinstance(section, list):
            yield json.dumps(
                [_moved(key, copy * stride) for copy in range(copies) for key in section]
            )
        else:
            yield json.dumps(section)
    yield "}"


def _repeated(section: dict[str, Any], change: Change, copies: int, stride: int) -> Iterator[str]:
    opening = "{ "
    for copy in range(copies):
        shift = copy * stride
        for key, value in section.items():
            yield f'{opening}"{_moved(key, shift)}": {json.dumps(change(value, shift))}'
            opening = ", "
    yield "}" if section else "{ }"


def _moved(key: str, shift: int) -> str:
    """Return the id in a copy. Ids of memory chunks are `chk` and a number."""
    number = key.removeprefix("chk")
    return f"{key[: -len(number)]}{int(number) + shift}"


def _same(value: Any, shift: int) -> Any:
    return value


def _variable(variable: dict[str, Any], shift: int) -> dict[str, Any]:
    return {**variable, "id": _moved(variable["id"], shift)}


def _operator(operator: dict[str, Any], shift: int) -> dict[str, Any]:
    """Return the operator of a copy, with the ids of the variables of that copy."""
    return {
        **operator,
        "id": _moved(operator["id"], shift),
        "name": f"r{shift}.{operator['name']}" if shift else operator["name"],
        "input": [_moved(key, shift) for key in operator["input"]],
        "output": [_moved(key, shift) for key in operator["output"]],
    }
