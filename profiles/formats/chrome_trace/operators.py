"""Convert the operators of a trace to profile columns and an executed graph.

A row is one execution of one operator, or several if its outputs were freed and computed again. Its
device time is that of its kernels (`device_times`), its host time the time in which the worker
prepared and launched them. Traces have neither the computation nor the memory of operators.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from profiles.formats.chrome_trace.device_times import DeviceTimes, device_times, summed_s
from profiles.formats.chrome_trace.lanes import Codes, Lane
from profiles.formats.chrome_trace.reader import LONGEST_TEXT, NONE, TraceTexts
from profiles.formats.chrome_trace.spans import Index
from profiles.formats.columns import (
    MISSING,
    NumberColumn,
    ProfileColumns,
    SideTimes,
    TextColumn,
)
from profiles.formats.load_and_run.graph import (
    Chunks,
    ExecutedGraph,
    Intervals,
    Links,
    Operators,
    Variables,
)

#: the output number in a tensor's name, `fc1.linear.MatrixMul:0`
_OUTPUT = re.compile(r":\d+$")
_SHAPE = re.compile(r"\{([\d,]*)\}")
_S_PER_US = 1e-6


@dataclass(frozen=True, eq=False)
class TraceOperators:
    """The operators of a trace, with their device times.

    repeated: number of operators that were executed more than once
    again: number of their executions beyond the first ones
    """

    columns: ProfileColumns
    graph: ExecutedGraph
    times: DeviceTimes
    repeated: int
    again: int


@dataclass(frozen=True, eq=False)
class _Tensors:
    """The m inputs or outputs of operators.

    row: (m,) int32, row of the operator; ident: (m,) number of the tensor
    label, layout: (m,) as in `Lane`
    """

    row: NDArray[np.int32]
    ident: Codes
    label: Codes
    layout: Codes


def operators_of(lanes: list[Lane]) -> TraceOperators:
    """Return the n operators of a trace, in the order in which they were dispatched.

    There may be none: MegEngine 1.13 computes small tensors on the host, and records no operators
    of functions compiled by trace().
    """
    devices = [lane for lane in lanes if lane.kind == "device"]
    workers = [lane for lane in lanes if lane.kind == "worker"]
    texts = lanes[0].texts
    numbers = [lane.operator for lane in (*devices, *workers)]
    ids = np.unique(np.concatenate(numbers)) if numbers else np.array([], np.int64)
    ids = ids[ids != NONE].astype(np.int64)
    device, host = _intervals(devices, ids), _intervals(workers, ids)
    times = device_times(device, len(ids))
    firsts, repeated, again = _executions(workers, ids)
    reads = _tensors(workers, firsts, "Input")
    makes = _tensors(workers, firsts, "Output")
    types = _types(texts.names, [*workers, *devices], ids)
    names = _names(texts.labels, makes, types)
    shapes = _Shapes(texts)
    absent = NumberColumn(np.full(len(ids), np.nan), np.zeros(len(ids), np.bool_))
    columns = ProfileColumns(
        names=names,
        ids=tuple(str(number % lanes[0].stride) for number in ids.tolist()),
        id_numbers=ids,
        types=types,
        device=_times(device, times.took_s),
        host=_times(host, summed_s(host, len(ids))),
        computation=absent,
        memory=absent,
        in_shapes=shapes.of_operators(reads, len(ids)),
        out_shapes=shapes.of_operators(makes, len(ids)),
        in_layouts=TextColumn.missing(len(ids)),
        in_dtypes=shapes.dtypes_of(reads, len(ids)),
        mentions_opencl=False,
    )
    graph = _graph(lanes[0], columns, reads, makes, shapes)
    executed = ExecutedGraph(*graph, device=device, host=host)
    return TraceOperators(columns, executed, times, repeated, again)


# -- times ----------------------------------------------------------------------------------------


def _intervals(lanes: list[Lane], ids: NDArray[np.int64]) -> Intervals:
    rows, starts, ends, names = [], [], [], list[str]()
    uses = Counter(lane.name for lane in lanes)
    for lane in lanes:
        # the threads of several processes may have the same names
        name = lane.name if uses[lane.name] == 1 else f"{lane.name} ({lane.key[0]})"[:LONGEST_TEXT]
        numbers = lane.operator
        timed = np.flatnonzero(numbers != NONE)
        rows.append(np.searchsorted(ids, numbers[timed]).astype(np.int32))
        starts.append(lane.spans.begin_us[timed] * _S_PER_US)
        ends.append(lane.spans.end_us[timed] * _S_PER_US)
        names += [name] * len(timed)
    empty = np.array([], np.float64)
    start = np.concatenate(starts) if starts else empty
    return Intervals(
        row=np.concatenate(rows) if rows else np.array([], np.int32),
        lanes=TextColumn.from_texts(names),
        start_s=start,
        # a trace records when a kernel ran, but not how long it waited
        kern_s=start,
        end_s=np.concatenate(ends) if ends else empty,
    )


def _times(intervals: Intervals, took_s: NDArray[np.float64]) -> SideTimes:
    """Times of one side from (n,) `took_s`; operators without an interval are not present.

    A trace does not record how long an operator waited for its first kernel.
    """
    present = np.bincount(intervals.row, minlength=len(took_s)) > 0
    unknown = np.full(len(took_s), np.nan)
    return SideTimes(present, np.where(present, took_s, np.nan), unknown)


# -- what they are --------------------------------------------------------------------------------


def _types(names: Sequence[str], lanes: list[Lane], ids: NDArray[np.int64]) -> TextColumn:
    """The type of each operator: the name of its kernel, from the last lane that has it."""
    codes = np.full(len(ids), MISSING, np.int32)
    for lane in lanes:
        has_operator = lane.operator != NONE
        codes[np.searchsorted(ids, lane.operator[has_operator])] = lane.code[has_operator]
    return TextColumn.from_texts([None if code < 0 else names[code] for code in codes.tolist()])


def _executions(lanes: list[Lane], ids: NDArray[np.int64]) -> tuple[list[Index], int, int]:
    """(for each lane, (s,) the row of the operator whose first execution a span is, else NONE;
    `repeated` and `again` as in TraceOperators).

    With megengine.dtr, 1.13 frees tensors and computes them again: the operator with the same
    number is executed again within a span `ReGen`.
    """
    is_executed = np.zeros(len(ids), np.bool_)
    firsts, repeated, again = list[Index](), 0, 0
    for lane in lanes:
        numbers = lane.operator
        spans = np.flatnonzero(numbers != NONE)
        rows = np.searchsorted(ids, numbers[spans])
        counts = np.bincount(rows, minlength=len(ids))
        first_spans = np.full(len(ids), NONE)
        # numpy keeps the last of several values assigned to one index: reversed, the first span
        first_spans[rows[::-1]] = spans[::-1]
        new = np.flatnonzero((first_spans != NONE) & ~is_executed)
        first = np.full(len(numbers), NONE, np.int32)
        first[first_spans[new]] = new
        firsts.append(first)
        is_executed[rows] = True
        more = counts[counts > 1] - 1
        repeated += len(more)
        again += int(more.sum())
    return firsts, repeated, again


def _tensors(lanes: list[Lane], firsts: list[Index], event: str) -> _Tensors:
    """The tensors of the `event` spans inside the first execution of each operator.

    Further executions repeat the same inputs and outputs.
    """
    parts = []
    for lane, first in zip(lanes, firsts, strict=True):
        parent = lane.spans.parent
        spans = lane.called(event)
        spans = spans[parent[spans] >= 0]
        # if an end is missing, a span may be paired with the end of an operator, without a tensor
        spans = spans[(first[parent[spans]] != NONE) & (lane.tensor[spans] != NONE)]
        columns = (lane.tensor, lane.label, lane.layout)
        parts.append((first[parent[spans]], *(column[spans] for column in columns)))
    if not parts:
        none = np.array([], np.int32)
        return _Tensors(none, none, none, none)
    row, *columns_of_tensors = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(row, kind="stable")
    return _Tensors(row[order], *(column[order] for column in columns_of_tensors))


def _names(texts: Sequence[str], makes: _Tensors, types: TextColumn) -> tuple[str, ...]:
    """The name of each operator: that of its first output without the number, else its type."""
    names = [types[row] or "" for row in range(len(types))]
    labels = makes.label.tolist()
    rows, first = np.unique(makes.row, return_index=True)
    for row, index in zip(rows.tolist(), first.tolist(), strict=True):
        if labels[index] != NONE:
            names[row] = _OUTPUT.sub("", texts[labels[index]])
    return tuple(names)


class _Shapes:
    """Shapes and types of tensors as compact JSON."""

    def __init__(self, texts: TraceTexts) -> None:
        self.shapes = [_axes(shape) for _, shape in texts.layouts]
        self.dtypes = [dtype for dtype, _ in texts.layouts]

    def of_operators(self, tensors: _Tensors, rows: int) -> TextColumn:
        return self._lists(tensors, rows, self.shapes)

    def dtypes_of(self, tensors: _Tensors, rows: int) -> TextColumn:
        return self._lists(tensors, rows, self.dtypes)

    def _lists(self, tensors: _Tensors, rows: int, values: Sequence[object]) -> TextColumn:
        lists: list[list[object]] = [[] for _ in range(rows)]
        for row, code in zip(tensors.row.tolist(), tensors.layout.tolist(), strict=True):
            lists[row].append(None if code == NONE else values[code])
        encode = msgspec.json.encode
        return TextColumn.from_texts([encode(row).decode() if row else None for row in lists])


def _axes(text: str) -> list[int] | None:
    """Parse a shape such as `{32,64}`; None if it is invalid."""
    match = _SHAPE.fullmatch(text)
    return [int(axis) for axis in match[1].split(",") if axis] if match else None


# -- what reads what ------------------------------------------------------------------------------


def _graph(
    lane: Lane,
    columns: ProfileColumns,
    reads: _Tensors,
    makes: _Tensors,
    shapes: _Shapes,
) -> tuple[Operators, Variables, Chunks]:
    texts = lane.texts.labels
    idents = np.unique(np.concatenate([reads.ident, makes.ident]))
    rows = len(columns)
    step = np.arange(rows, dtype=np.int32)
    operators = Operators(
        names=columns.names,
        ids=columns.ids,
        types=columns.types,
        row=step,
        step=step,
        params=TextColumn.missing(rows),
        inputs=_links(reads, idents, rows),
        outputs=_links(makes, idents, rows),
    )
    label = np.full(len(idents), NONE, np.int32)
    layout = np.full(len(idents), NONE, np.int32)
    producer = np.full(len(idents), MISSING, np.int32)
    for tensors in (reads, makes):
        places = np.searchsorted(idents, tensors.ident)
        label[places], layout[places] = tensors.label, tensors.layout
    producer[np.searchsorted(idents, makes.ident)] = makes.row
    layouts = layout.tolist()
    encode = msgspec.json.encode
    missing = TextColumn.missing(len(idents))
    variables = Variables(
        ids=tuple(str(ident % lane.stride) for ident in idents.tolist()),
        names=tuple("" if code == NONE else texts[code] for code in label.tolist()),
        shapes=TextColumn.from_texts(
            None if code == NONE else encode(shapes.shapes[code]).decode() for code in layouts
        ),
        dtypes=TextColumn.from_texts(
            None if code == NONE else shapes.dtypes[code] for code in layouts
        ),
        comp_nodes=missing,
        flags=missing,
        producer=producer,
        chunk=np.full(len(idents), MISSING, np.int32),
    )
    chunks = Chunks(np.array([], np.int64), np.array([], np.int32), np.array([], np.uint64))
    return operators, variables, chunks


def _links(tensors: _Tensors, idents: Codes, rows: int) -> Links:
    counts = np.bincount(tensors.row, minlength=rows)
    targets = np.searchsorted(idents, tensors.ident).astype(np.int32)
    return Links(np.cumsum(counts).astype(np.int64), targets)
