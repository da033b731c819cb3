"""Parse what `load_and_run --profile` writes; `trace(profiling=True).get_profile()` is the same."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from profiles.parsers.columns import NumberColumn, ProfileColumns, Side, SideTimes, TextColumn
from profiles.parsers.errors import ProfileFormatError
from profiles.parsers.numbers import to_float64
from profiles.parsers.profile_json import (
    Footprint,
    Graph,
    Operator,
    ProfileFile,
    Times,
    Var,
    decode,
    shown,
)
from profiles.parsers.shapes import shape_column

MAX_BYTES = 256 * 1024 * 1024

# Wrapping a name costs time quadratic in its length. Real names stay below a few hundred.
MAX_NAME_CHARS = 8_192

_NO_FOOTPRINT = Footprint()

Texts = TypeVar("Texts", bound=Sequence[str])


def parse(data: bytes, *, max_bytes: int = MAX_BYTES) -> ProfileColumns:
    """Return the columns of a profile.

    Takes about a fifth of the time of `json.loads` (see `bench/bench_parse.py`).

    Raises ProfileFormatError if `data` is not a profile, is damaged, or has over `max_bytes`.
    """
    file = decode(data, max_bytes)
    _check_variables(file.graph_exec)
    keys = _keys_with_data(file)
    operators = [file.graph_exec.operator[key] for key in keys]
    footprints = [file.profiler.opr_footprint.get(key, _NO_FOOTPRINT) for key in keys]
    ids = tuple([str(operator.id) for operator in operators])
    device = _side_times("device", file.profiler.device, keys)
    return ProfileColumns(
        names=_limited(tuple([operator.name for operator in operators]), "name"),
        ids=_limited(ids, "id"),
        id_numbers=_id_numbers(ids),
        types=TextColumn.from_texts(_limited([operator.type for operator in operators], "type")),
        device=device,
        host=_side_times("host", file.profiler.host, keys),
        computation=_computation(footprints, keys),
        memory=_memory(footprints, keys),
        in_shapes=shape_column([bytes(f.in_shapes) for f in footprints], keys, "in_shapes"),
        out_shapes=shape_column([bytes(f.out_shapes) for f in footprints], keys, "out_shapes"),
        in_layouts=shape_column([bytes(f.in_layouts) for f in footprints], keys, "in_layouts"),
        in_dtypes=_in_dtypes(operators, file.graph_exec.var),
        # a search through the whole file, so only where the answer is read
        mentions_opencl=device.total_s() == 0 and b"opencl" in data,
    )


def _check_variables(graph: Graph) -> None:
    """Refuse an operator with unknown variables, as `profile_analyze` does (KeyError)."""
    operators = graph.operator.values()
    used = chain(
        chain.from_iterable([o.input for o in operators]),
        chain.from_iterable([o.output for o in operators]),
    )
    known = graph.var.__contains__
    if all(map(known, used)):
        return
    for key, operator in graph.operator.items():
        for variable in (*operator.input, *operator.output):
            if not known(variable):
                raise ProfileFormatError(
                    "missing_key",
                    f"`graph_exec.operator` entry {shown(key)} uses the variable "
                    f"{shown(variable)}, which `graph_exec.var` lacks.",
                )


def _keys_with_data(file: ProfileFile) -> list[str]:
    profiler = file.profiler
    data = profiler.device.keys() | profiler.host.keys() | profiler.opr_footprint.keys()
    return [key for key in file.graph_exec.operator if key in data]


def _limited(texts: Texts, field: str) -> Texts:
    longest = max(map(len, texts), default=0)
    if longest > MAX_NAME_CHARS:
        raise ProfileFormatError(
            "too_large",
            f"An operator's {field} has {longest} characters; the limit is {MAX_NAME_CHARS}.",
        )
    return texts


def _id_numbers(ids: Sequence[str]) -> NDArray[np.int64]:
    try:
        return np.array(list(map(int, ids)), dtype=np.int64)
    except OverflowError:
        raise ProfileFormatError("bad_value", "An operator id does not fit 64 bits.") from None
    except ValueError as error:
        raise ProfileFormatError(
            "bad_value", f"An operator id is not a number: {shown(str(error))}."
        ) from None


def _side_times(
    side: Side, entries: Mapping[str, Mapping[str, Times]], keys: Sequence[str]
) -> SideTimes:
    """Take the largest time over the nodes of each operator."""
    nodes = [entries.get(key, {}) for key in keys]
    times = list(chain.from_iterable(node.values() for node in nodes))

    def read(field: str, values: list[Any]) -> NDArray[np.float64]:
        def place(index: int) -> str:
            flat = [(key, name) for key, node in zip(keys, nodes, strict=True) for name in node]
            key, name = flat[index]
            return f"`{field}` of `profiler.{side}` entry {shown(key)}, {shown(name)}"

        return to_float64(values, place)

    start = read("start", [t.start for t in times])
    end = read("end", [t.end for t in times])
    # only --top-end-key kern reads it: a profile without it is good for all else
    kern = read("kern", [np.nan if t.kern is UNSET or t.kern is None else t.kern for t in times])
    counts = np.array([len(node) for node in nodes], dtype=np.intp)
    with np.errstate(invalid="ignore"):  # inf - inf
        return SideTimes(
            present=counts > 0,
            end_s=_largest(end - start, counts),
            kern_s=_largest(kern - start, counts),
        )


def _largest(values: NDArray[np.float64], counts: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return (n,) the maximum of each run of `counts` values, nan for an empty run.

    values: (counts.sum(),) float64; a nan in a run makes its maximum nan, as numpy.max does
    counts: (n,) intp
    """
    largest = np.full(len(counts), np.nan)
    if values.size:
        firsts = np.cumsum(counts) - counts
        present = counts > 0
        largest[present] = np.maximum.reduceat(values, firsts[present])
    return largest


def _computation(footprints: Sequence[Footprint], keys: Sequence[str]) -> NumberColumn:
    """Read operations per execution; null, 0 and a missing key all mean unknown."""
    present = np.array([bool(f.computation) for f in footprints], dtype=np.bool_)
    return _number_column("computation", [f.computation for f in footprints], present, keys)


def _memory(footprints: Sequence[Footprint], keys: Sequence[str]) -> NumberColumn:
    """Read bytes per execution; 0 is a value, and null is an error as in `profile_analyze`."""
    present = np.array([f.memory is not UNSET for f in footprints], dtype=np.bool_)
    return _number_column("memory", [f.memory for f in footprints], present, keys)


def _number_column(
    field: str,
    values: Sequence[Any],
    present: NDArray[np.bool_],
    keys: Sequence[str],
) -> NumberColumn:
    rows = np.flatnonzero(present).tolist()

    def place(index: int) -> str:
        return f"`{field}` of `profiler.opr_footprint` entry {shown(keys[rows[index]])}"

    column = np.full(len(values), np.nan)
    column[rows] = to_float64([values[row] for row in rows], place)
    return NumberColumn(column, present)


def _in_dtypes(operators: Sequence[Operator], variables: Mapping[str, Var]) -> TextColumn:
    dtypes = {
        key: None
        if var.mem_plan is None or var.mem_plan.layout is None
        else var.mem_plan.layout.dtype
        for key, var in variables.items()
    }
    known: dict[tuple[str | None, ...], str] = {}
    texts = []
    for operator in operators:
        found = tuple(map(dtypes.__getitem__, operator.input))
        text = known.get(found)
        if text is None:
            text = known[found] = msgspec.json.encode(found).decode()
        texts.append(text)
    return TextColumn.from_texts(texts)
