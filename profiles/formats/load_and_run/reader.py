"""Parse profiles of `load_and_run --profile`, whose format `trace.get_profile()` shares."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from mmap import mmap
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from profiles.formats.columns import NumberColumn, ProfileColumns, Side, SideTimes, TextColumn
from profiles.formats.detection import without_mark
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.fast_reader import quick
from profiles.formats.load_and_run.graph import ExecutedGraph
from profiles.formats.load_and_run.graph_json import graph_of, parse_graph
from profiles.formats.load_and_run.profile_json import (
    TableFile,
    check_bytes,
    check_utf8,
    decode,
    decode_unchecked,
    quoted,
)
from profiles.formats.load_and_run.profile_schema import (
    Footprint,
    ProfileFile,
    TableGraph,
    TableOperator,
    Times,
    Var,
    WholeGraph,
)
from profiles.formats.load_and_run.sections import (
    Sections,
    largest,
    shape_column,
    to_float64,
)

MAX_BYTES = 256 * 1024 * 1024

# Wrapping a name costs time quadratic in its length. Real names stay below a few hundred.
MAX_NAME_CHARS = 8_192

WholeFile = ProfileFile[WholeGraph]
_WHOLE = msgspec.json.Decoder(WholeFile)
_NO_FOOTPRINT = Footprint()


def parse(
    data: bytes | mmap, *, max_bytes: int = MAX_BYTES, checked: bool = True, dtypes: bool = True
) -> ProfileColumns:
    """Return the columns of a profile.

    data: may be a memory-mapped file, which saves a copy; no reference to it is kept
    checked: whether to reject values that pages cannot show: excessively long texts, names that are
        numbers, invalid shapes. If not, errors appear only when such a value is printed.
    dtypes: whether `in_dtypes` is needed; if not, it may be missing and variables are not
        validated, which saves a quarter of the time

    Raises ProfileFormatError if `data` is not a profile, is damaged, or exceeds `max_bytes`.
    """
    check_bytes(data, max_bytes)
    data = without_mark(data)
    with _collector_off():
        # check UTF-8 in a second thread: numpy releases the GIL
        with ThreadPoolExecutor(max_workers=1) as executor:
            utf8 = executor.submit(check_utf8, data)
            sections = quick(data, dtypes=dtypes)
            utf8.result()
        sections = sections or _careful(data)
    return _columns(sections, data, checked=checked)


def parse_whole(
    data: bytes, *, max_bytes: int = MAX_BYTES
) -> tuple[ProfileColumns, Callable[[], ExecutedGraph]]:
    """Return the results of `parse` and `parse_graph`, decoding the file only once.

    The graph is built when the returned function is called, which raises the errors of
    `parse_graph`. Raises ProfileFormatError as `parse`.
    """
    check_bytes(data, max_bytes)
    data = without_mark(data)
    check_utf8(data)
    with _collector_off():
        try:
            file = _WHOLE.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # damage in the graph alone does not affect the table
            columns = parse(data, max_bytes=max_bytes)
            return columns, lambda: parse_graph(data, columns)
        columns = _columns(_sections(file), data, checked=True)
    return columns, lambda: graph_of(file, columns)


def _columns(read: Sections, data: bytes | mmap, *, checked: bool) -> ProfileColumns:
    if checked:
        for field, texts in (("name", read.names), ("id", read.ids), ("type", read.types)):
            _check_lengths(texts, field)

    def shapes(raws: Sequence[bytes], field: str) -> TextColumn:
        return shape_column(raws, field, read.ids, read.costs, checked=checked)

    return ProfileColumns(
        names=tuple(read.names),
        ids=tuple(read.ids),
        id_numbers=_id_numbers(read.ids, checked=checked),
        types=TextColumn.from_texts(read.types),
        device=read.device,
        host=read.host,
        computation=read.computation,
        memory=read.memory,
        in_shapes=shapes(read.in_shapes, "in_shapes"),
        out_shapes=shapes(read.out_shapes, "out_shapes"),
        in_layouts=shapes(read.in_layouts, "in_layouts"),
        in_dtypes=read.in_dtypes,
        # searches the whole file, so only if the total is 0
        mentions_opencl=read.device.total_s() == 0 and data.find(b"opencl") >= 0,
    )


@contextmanager
def _collector_off() -> Iterator[None]:
    """Disable the cyclic garbage collector, which would traverse all decoded objects repeatedly."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _careful(data: bytes | mmap) -> Sections:
    """Read unusual or damaged files leniently, with precise errors.

    What does not match the schema may still be a file that `profile_analyze` reads, such as one of
    MegEngine 1.1, whose ids are numbers.
    """
    try:
        return _sections(decode(data[:]))
    except ProfileFormatError:
        file = decode_unchecked(data)
        if file is None:
            raise
        return _sections(file)


def _sections(file: TableFile | WholeFile) -> Sections:
    _check_variables(file.graph_exec)
    keys = file.table_keys()
    operators = [file.graph_exec.operator[key] for key in keys]
    footprints = [file.profiler.opr_footprint.get(key, _NO_FOOTPRINT) for key in keys]
    return Sections(
        names=[operator.name for operator in operators],
        ids=[str(operator.id) for operator in operators],
        types=[operator.type for operator in operators],
        device=_side_times("device", file.profiler.device, keys),
        host=_side_times("host", file.profiler.host, keys),
        computation=_computation(footprints, keys),
        memory=_memory(footprints, keys),
        costs=np.arange(len(keys)),
        in_shapes=[bytes(f.in_shapes) for f in footprints],
        out_shapes=[bytes(f.out_shapes) for f in footprints],
        in_layouts=[bytes(f.in_layouts) for f in footprints],
        in_dtypes=_in_dtypes(operators, file.graph_exec.var),
    )


def _check_variables(graph: TableGraph | WholeGraph) -> None:
    """Reject operators with unknown variables, as `profile_analyze` does (KeyError)."""
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
                    f"`graph_exec.operator` entry {quoted(key)} uses the variable "
                    f"{quoted(variable)}, which `graph_exec.var` lacks.",
                )


def _check_lengths(texts: Sequence[str], field: str) -> None:
    longest = max(map(len, texts), default=0)
    if longest > MAX_NAME_CHARS:
        raise ProfileFormatError(
            "too_large",
            f"An operator's {field} has {longest} characters; the limit is {MAX_NAME_CHARS}.",
        )


def _id_numbers(ids: Sequence[str], *, checked: bool) -> NDArray[np.int64]:
    """Return (n,) the numbers of ids, for sorting; if one exceeds 64 bits, their ranks instead.

    checked: whether to raise ProfileFormatError for other texts, which count as 0 otherwise
    """
    numbers = [_integer(text) for text in ids]
    if checked and None in numbers:
        raise ProfileFormatError(
            "bad_value", f"An operator id is not a number: {quoted(ids[numbers.index(None)])}."
        )
    known = [number or 0 for number in numbers]
    try:
        return np.array(known, dtype=np.int64)
    except OverflowError:
        rank = {number: rank for rank, number in enumerate(sorted(set(known)))}
        return np.array([rank[number] for number in known], dtype=np.int64)


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _side_times(
    side: Side, entries: Mapping[str, Mapping[str, Times]], keys: Sequence[str]
) -> SideTimes:
    """Compute the maximum time over the nodes of each operator."""
    nodes = [entries.get(key, {}) for key in keys]
    times = list(chain.from_iterable(node.values() for node in nodes))

    def read(field: str, values: list[Any]) -> NDArray[np.float64]:
        def place(index: int) -> str:
            flat = [(key, name) for key, node in zip(keys, nodes, strict=True) for name in node]
            key, name = flat[index]
            return f"`{field}` of `profiler.{side}` entry {quoted(key)}, {quoted(name)}"

        return to_float64(values, place)

    start = read("start", [t.start for t in times])
    end = read("end", [t.end for t in times])
    # only --top-end-key kern uses it, so a missing value is no error
    kern = read("kern", [np.nan if t.kern is UNSET or t.kern is None else t.kern for t in times])
    counts = np.array([len(node) for node in nodes], dtype=np.intp)
    with np.errstate(invalid="ignore"):  # inf - inf
        return SideTimes(
            present=counts > 0,
            end_s=largest(end - start, counts),
            kern_s=largest(kern - start, counts),
        )


def _computation(footprints: Sequence[Footprint], keys: Sequence[str]) -> NumberColumn:
    """Operations per execution; null, 0 and a missing key all mean unknown."""
    present = np.array([bool(f.computation) for f in footprints], dtype=np.bool_)
    return _number_column("computation", [f.computation for f in footprints], present, keys)


def _memory(footprints: Sequence[Footprint], keys: Sequence[str]) -> NumberColumn:
    """Bytes per execution; 0 is a valid value, and null is an error as in `profile_analyze`."""
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
        return f"`{field}` of `profiler.opr_footprint` entry {quoted(keys[rows[index]])}"

    column = np.full(len(values), np.nan)
    column[rows] = to_float64([values[row] for row in rows], place)
    return NumberColumn(column, present)


def _in_dtypes(operators: Sequence[TableOperator], variables: Mapping[str, Var]) -> TextColumn:
    dtypes = {key: var.dtype for key, var in variables.items()}
    known: dict[tuple[str | None, ...], str] = {}
    texts = []
    for operator in operators:
        inputs = tuple(map(dtypes.__getitem__, operator.input))
        text = known.get(inputs)
        if text is None:
            text = known[inputs] = msgspec.json.encode(inputs).decode()
        texts.append(text)
    return TextColumn.from_texts(texts)
