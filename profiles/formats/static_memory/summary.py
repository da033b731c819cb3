"""Summary of a memory plan: figures, the peak, chunks with their tensors, bytes over time.

The summary has a bounded size for any file; whatever exceeds the limits is counted.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from profiles.analysis.data import ProfileData
from profiles.formats.columns import MISSING
from profiles.formats.errors import ProfileFormatError
from profiles.formats.static_memory.figures import (
    PlanFigures,
    alive_at,
    figures,
    moments,
    overlaps,
    sharing,
)
from profiles.formats.static_memory.graph_file import (
    PlanStep,
    Variable,
    element_bytes,
    read_graph,
    tensors_of,
)
from profiles.formats.static_memory.plan_file import NOWHERE, PlanFile, read_plan
from profiles.presenters.described import means

#: maximum number of rows: chunks without weights, weights, operators, moments, chunks per moment
CHUNKS_LIMIT, WEIGHTS_LIMIT, OPERATORS_LIMIT = 10_000, 5_000, 20_000
MOMENTS_LIMIT, MOMENT_CHUNKS_LIMIT = 50, 500
#: maximum number of points of the curve
POINTS_LIMIT = 5_000
LONGEST_NAME = 300

#: state of `graph.json`: used, missing, unreadable, or of another plan
GraphState = Literal["used", "none", "graph_unreadable", "not_a_profile"]


class OperatorRow(Struct, frozen=True):
    """An operator of the plan."""

    step: Annotated[int, means("Its place in the order of execution, from 0.")]
    name: Annotated[str, means("Name in the file.")]
    id: Annotated[str, means("Id in graph.json; empty without that file.")]
    type: Annotated[str, means("Type in graph.json; empty without that file.")]
    makes: Annotated[str, means("Name of its first output.")]


class ChunkRow(Struct, frozen=True):
    """A piece of memory, and the tensor in it."""

    id: Annotated[int, means("Id in the file.")]
    is_weight: Annotated[
        bool, means("Whether it is a parameter, constant or input, taken all the time.")
    ]
    begin: Annotated[int, means("Step of the operator that writes it.")]
    counted_from: Annotated[
        int,
        means(
            "Step from which it counts: the next one if it is written in place. Greater than "
            "`last` for one that never counts."
        ),
    ]
    last: Annotated[int, means("Step of the last operator that needs it.")]
    address: Annotated[int, means("Begin, counted from the start of all chunks, bytes.")]
    size_bytes: Annotated[int, means("Its size, bytes.")]
    overwrites: Annotated[int, means("Id of the chunk in whose place it is written, -1 for none.")]
    shares: Annotated[int, means("Number of chunks that use some of its bytes at another time.")]
    variable: Annotated[str, means("Name of the tensor; empty where it is not certain.")]
    shape: Annotated[tuple[int, ...] | None, means("Shape of the tensor.")]
    dtype: Annotated[str | None, means("Type of the tensor, if graph.json has it.")]
    element_bytes: Annotated[
        float | None, means("Bytes of one element, computed from size and shape.")
    ]


class MomentRow(Struct, frozen=True):
    """Operators one after the other at which most is in use, by the same chunks."""

    first: Annotated[int, means("Step of the first operator.")]
    last: Annotated[int, means("Step of the last operator.")]
    chunks: Annotated[tuple[int, ...], means("Ids of the chunks, the largest first, at most 500.")]
    percent: Annotated[
        tuple[float, ...], means("Share of each chunk in the bytes in use, percent.")
    ]
    chunks_left_out: Annotated[int, means("Number of chunks that are left out.")]


class Overlap(Struct, frozen=True):
    """Two chunks that are taken at the same time on the same bytes."""

    one: Annotated[int, means("Id of a chunk.")]
    other: Annotated[int, means("Id of the other one.")]
    size_bytes: Annotated[int, means("Number of bytes that both use.")]


class StaticMemory(Struct, frozen=True):
    """A memory plan. Steps are places in the order of execution, from 0."""

    operators_count: Annotated[int, means("Number of operators in the plan.")]
    chunks_count: Annotated[int, means("Number of chunks without weights.")]
    weights_count: Annotated[int, means("Number of weights.")]
    peak_bytes: Annotated[int, means("The highest address of a chunk, bytes.")]
    peak_step: Annotated[
        int, means("The first step at which a chunk reaches it, -1 without chunks.")
    ]
    peak_alive_bytes: Annotated[int, means("In use at that step, bytes.")]
    weight_bytes: Annotated[int, means("All weights, bytes.")]
    most_alive_bytes: Annotated[
        int, means("The most in use at one operator, without weights, bytes.")
    ]
    reached_count: Annotated[int, means("Number of operators at which that many bytes are in use.")]
    sum_bytes: Annotated[int, means("All chunks without weights, bytes.")]
    in_place_count: Annotated[
        int, means("Number of chunks that are written in the place of another one.")
    ]
    in_place_bytes: Annotated[int, means("Bytes of those chunks.")]
    moments: Annotated[tuple[MomentRow, ...], means("When most bytes are in use; the first 50.")]
    moments_left_out: Annotated[int, means("Number of moments that are left out.")]
    overlaps: Annotated[
        tuple[Overlap, ...],
        means("Overlaps, which a plan of one device must not have; the first 20."),
    ]
    overlaps_count: Annotated[
        int, means("Lower bound of the number of overlaps; 0 if there are none.")
    ]
    curve_steps: Annotated[tuple[int, ...], means("Steps, at most 5,000.")]
    curve_bytes: Annotated[
        tuple[int, ...],
        means("Most bytes in use from each of these steps to the step before the next one."),
    ]
    graph: Annotated[
        GraphState,
        means(
            "What graph.json was: `used`, `none`, `graph_unreadable`, or `not_a_profile` for that "
            "of another graph."
        ),
    ]
    unplanned: Annotated[
        int, means("Tensors whose size is not known before the graph runs; -1 without graph.json.")
    ]
    operators: Annotated[
        tuple[OperatorRow, ...],
        means("All operators; of more than 20,000 those that other fields name."),
    ]
    chunks: Annotated[
        tuple[ChunkRow, ...], means("Chunks by id; if there are too many, the largest.")
    ]
    chunks_left_out: Annotated[int, means("Number of chunks that are left out.")]


def summarize(plan: PlanFile, steps: Sequence[PlanStep] | None, state: GraphState) -> StaticMemory:
    """Return the summary of a plan; `steps` come from its graph.json, None without one."""
    values = figures(plan)
    pairs, overlapping = overlaps(plan, values)
    runs = moments(values)
    kept = _kept(plan, values, runs)
    moving = ~plan.is_weight
    in_place = moving & (plan.overwrites != NOWHERE)
    starts = np.unique(
        np.linspace(0, len(plan.names), POINTS_LIMIT, endpoint=False).astype(np.intp)
    )
    starts = starts[starts < len(plan.names)]
    chunks = _chunks(plan, values, kept, tensors_of(plan, steps) if steps is not None else {})
    rows = [_moment(plan, values, run) for run in runs[:MOMENTS_LIMIT]]
    return StaticMemory(
        operators_count=len(plan.names),
        chunks_count=int(moving.sum()),
        weights_count=int(plan.is_weight.sum()),
        peak_bytes=values.peak,
        peak_step=values.peak_step,
        peak_alive_bytes=int(values.alive[values.peak_step]) if values.peak_step >= 0 else 0,
        weight_bytes=values.weights,
        most_alive_bytes=values.most_alive,
        reached_count=len(values.reached),
        sum_bytes=int(plan.size[moving].sum()),
        in_place_count=int(in_place.sum()),
        in_place_bytes=int(plan.size[in_place].sum()),
        moments=tuple(rows),
        moments_left_out=len(runs) - len(rows),
        overlaps=tuple(_overlap(plan, one, other) for one, other in pairs),
        overlaps_count=overlapping,
        curve_steps=tuple(starts.tolist()),
        curve_bytes=tuple(
            np.maximum.reduceat(values.alive, starts).tolist() if len(starts) else ()
        ),
        graph=state,
        unplanned=NOWHERE if steps is None else _count_unplanned(steps),
        operators=_operators(plan, steps, chunks, rows),
        chunks=chunks,
        chunks_left_out=len(plan.ids) - len(chunks),
    )


def _kept(plan: PlanFile, values: PlanFigures, runs: Sequence[tuple[int, int]]) -> NDArray[np.intp]:
    """The indices of the chunks in the summary, ascending."""
    if len(plan.ids) <= min(CHUNKS_LIMIT, WEIGHTS_LIMIT):
        return np.arange(len(plan.ids))
    first = np.zeros(len(plan.ids), dtype=bool)
    if runs:
        first[alive_at(plan, values, runs[0][0])] = True
    order = np.lexsort((plan.ids, -plan.size, ~first))
    weights = order[plan.is_weight[order]][:WEIGHTS_LIMIT]
    return np.sort(np.concatenate([order[~plan.is_weight[order]][:CHUNKS_LIMIT], weights]))


def _chunks(
    plan: PlanFile, values: PlanFigures, kept: NDArray[np.intp], tensors: Mapping[int, Variable]
) -> tuple[ChunkRow, ...]:
    shares = sharing(plan)
    rows = []
    for index in kept.tolist():
        tensor, size = tensors.get(index), int(plan.size[index])
        rows.append(
            ChunkRow(
                id=int(plan.ids[index]),
                is_weight=bool(plan.is_weight[index]),
                begin=int(plan.begin[index]),
                counted_from=int(values.counted[index]),
                last=int(plan.end[index]) - 1,
                address=int(plan.low[index]),
                size_bytes=size,
                overwrites=int(plan.overwrites[index]),
                shares=int(shares[index]),
                variable=_short(tensor.name) if tensor else "",
                shape=tensor.shape if tensor and not tensor.is_workspace else None,
                dtype=_short(tensor.dtype) if tensor and tensor.dtype else None,
                element_bytes=element_bytes(size, tensor) if tensor else None,
            )
        )
    return tuple(rows)


def _moment(plan: PlanFile, values: PlanFigures, run: tuple[int, int]) -> MomentRow:
    chunk_indices = alive_at(plan, values, run[0])
    listed = chunk_indices[:MOMENT_CHUNKS_LIMIT]
    return MomentRow(
        first=run[0],
        last=run[1],
        chunks=tuple(plan.ids[listed].tolist()),
        percent=tuple(
            round(size / values.most_alive * 100, 3) for size in plan.size[listed].tolist()
        ),
        chunks_left_out=len(chunk_indices) - len(listed),
    )


def _overlap(plan: PlanFile, one: int, other: int) -> Overlap:
    size = min(plan.high[one], plan.high[other]) - max(plan.low[one], plan.low[other])
    return Overlap(int(plan.ids[one]), int(plan.ids[other]), int(size))


def _count_unplanned(steps: Sequence[PlanStep]) -> int:
    outputs = [output for step in steps for output in step.outputs if not output.is_workspace]
    return sum(output.shape is None and not output.is_persistent for output in outputs)


def _operators(
    plan: PlanFile,
    steps: Sequence[PlanStep] | None,
    chunks: Sequence[ChunkRow],
    runs: Sequence[MomentRow],
) -> tuple[OperatorRow, ...]:
    """All operators; beyond the limit only those that chunks and moments refer to."""
    selected: Sequence[int] = range(len(plan.names))
    if len(selected) > OPERATORS_LIMIT:
        named = {step for row in chunks if not row.is_weight for step in (row.begin, row.last)}
        named |= {step for run in runs for step in (run.first, run.last)}
        selected = sorted(named & set(selected))
    return tuple(
        OperatorRow(
            step=step,
            name=_short(plan.names[step]),
            id=_short(steps[step].id) if steps is not None else "",
            type=_short(steps[step].type) if steps is not None else "",
            makes=_first_name(steps[step]) if steps is not None else "",
        )
        for step in selected
    )


def _first_name(step: PlanStep) -> str:
    return _short(step.outputs[0].name) if step.outputs else ""


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def rows_by_step(plan: StaticMemory, data: ProfileData) -> dict[int, int]:
    """Return the row of `data.columns` by step, for the steps whose operator is certain.

    An operator matches by id and name, or else by type and name of its first output if this pair is
    unique in both the plan and the profile.
    """
    if not data.has_operators:
        return {}
    columns, graph = data.columns, data.graph
    by_id = {pair: row for row, pair in enumerate(zip(columns.ids, columns.names, strict=True))}
    by_output: dict[tuple[str, str | None], int] = {}
    in_profile: Counter[tuple[str, str | None]] = Counter()
    for index, row in enumerate(graph.operators.row.tolist()):
        outputs = graph.operators.outputs[index]
        if row != MISSING and len(outputs):
            key = (graph.variables.names[outputs[0]], columns.types[row])
            by_output[key] = row
            in_profile[key] += 1
    in_plan = Counter((operator.makes, operator.type) for operator in plan.operators)
    rows: dict[int, int] = {}
    for operator in plan.operators:
        key = (operator.makes, operator.type)
        if operator.id and (operator.id, operator.name) in by_id:
            rows[operator.step] = by_id[operator.id, operator.name]
        elif operator.makes and in_profile[key] == in_plan[key] == 1:
            rows[operator.step] = by_output[key]
    return rows


def read_static_memory(path: Path, graph_path: Path | None) -> bytes:
    """Return the summary of a StaticMemoryInfo.json as JSON.

    graph_path: the graph.json that was written with it, None without one. If it is damaged or of
        another graph, tensors have no names, and `StaticMemory.graph` records this.
    Raises ProfileFormatError as `read_plan`.
    """
    plan = read_plan(path.read_bytes())
    state: GraphState = "none"
    steps = None
    if graph_path is not None:
        try:
            steps = read_graph(graph_path.read_bytes(), plan.names)
            state = "used"
        except ProfileFormatError as error:
            state = "graph_unreadable" if error.code == "graph_unreadable" else "not_a_profile"
    return msgspec.json.encode(summarize(plan, steps, state))
