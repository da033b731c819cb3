"""The order in which a profile's operators ran, and which variables each of them made."""

from dataclasses import dataclass

import msgspec
from msgspec import Struct

from profiles.parsers.errors import ProfileFormatError
from profiles.parsers.profile_schema import OrderedGraph


class _File(Struct, gc=False):
    graph_exec: OrderedGraph


@dataclass(frozen=True)
class Maker:
    """The operator that made a variable; `step` counts from 0 in order of execution."""

    step: int
    name: str
    type: str


def makers(data: bytes) -> dict[int, Maker]:
    """Return variable id -> operator for the profile `data`. Raises ProfileFormatError."""
    try:
        graph = msgspec.json.decode(data, type=_File).graph_exec
        steps = {key: step for step, key in enumerate(graph.comp_seq)}
        return {
            int(variable): Maker(steps[key], operator.name, operator.type)
            for key, operator in graph.operator.items()
            if key in steps
            for variable in operator.output
        }
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ProfileFormatError(
            "bad_value", f"The order of operators cannot be read: {error}."
        ) from None
