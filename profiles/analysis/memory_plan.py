"""Memory use over the order of execution, according to the graph's memory plan; nothing is
measured.

A chunk of the plan is allocated from the first operator that writes a variable in it to the last
that reads one; this is how MegEngine's static allocator lets chunks share addresses
(`src/core/impl/graph/var_node_mem_mgr`). A variable without a chunk is allocated while the graph
runs; its size and lifetime are estimated in the same way.
"""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.tensor_sizes import variable_bytes
from profiles.formats.columns import MISSING, ProfileColumns
from profiles.formats.load_and_run.graph import PERSISTENT, ExecutedGraph, Index

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Kind = Literal["persistent", "planned", "estimated"]

#: operators whose output is a view of their first input
VIEW_TYPES = frozenset({"Reshape", "Broadcast", "Dimshuffle", "AxisAddRemove", "Subtensor"})
MOST_OWNERS = 10
_LOCATION = re.compile(r'"([^":]*)')


@dataclass(frozen=True)
class Owner:
    """A block that is allocated at the peak: a chunk, or a variable without a chunk.

    row: the operator that writes it, row of `ProfileColumns`, MISSING without one
    first, last: steps between which it is allocated, inclusive
    """

    variable: str
    row: int
    size_bytes: float
    kind: Kind
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class MemoryPlan:
    """Bytes allocated on one device during each of s steps (operators).

    device: `cpu0`
    devices: all devices with blocks, the one with the highest peak first
    rows: (s,) int32, rows of `ProfileColumns` in order of execution, MISSING for an operator
        without one
    persistent_bytes: parameters, constants and fed inputs, allocated all the time
    planned, estimated: (s,) float64, bytes of chunks and of variables without a chunk
    peak_step: the first step with the most bytes
    owners: the largest blocks allocated at the peak
    unknown: number of variables that were left out because their size is unknown
    """

    device: str
    devices: tuple[str, ...]
    rows: Index
    persistent_bytes: float
    planned: Floats
    estimated: Floats
    peak_step: int
    peak_bytes: float
    owners: tuple[Owner, ...]
    unknown: int


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Blocks of memory as (k,) columns; `variable` is the variable that names the block."""

    variable: Whole
    size: Floats
    first: Whole
    last: Whole
    is_planned: Bools
    is_persistent: Bools


def memory_plan(graph: ExecutedGraph, columns: ProfileColumns, device: str = "") -> MemoryPlan:
    """Return the plan of one device, by default of the device with the highest peak."""
    blocks, unknown = _blocks(graph, variable_bytes(graph, columns))
    order = graph.execution_order()
    names = [_device(node) for node in graph.variables.comp_nodes.values] + [""]
    where = np.array(names)[graph.variables.comp_nodes.codes[blocks.variable]]
    peaks = {
        name: float(np.sum(_curves(blocks, where == name, len(order)), axis=0).max(initial=0.0))
        for name in np.unique(where).tolist()
    }
    devices = tuple(sorted(peaks, key=lambda name: -peaks[name]))
    chosen = device if device in peaks else (devices or ("",))[0]
    on_device = where == chosen
    persistent, planned, estimated = _curves(blocks, on_device, len(order))
    total = persistent + planned + estimated
    peak = int(np.argmax(total)) if len(total) else 0
    return MemoryPlan(
        device=chosen,
        devices=devices,
        rows=graph.operators.row[order],
        persistent_bytes=float(persistent[0]) if len(total) else 0.0,
        planned=planned,
        estimated=estimated,
        peak_step=peak,
        peak_bytes=float(total[peak]) if len(total) else 0.0,
        owners=_owners(blocks, on_device & (blocks.first <= peak) & (blocks.last >= peak), graph),
        unknown=unknown,
    )


def _device(comp_node: str) -> str:
    """Return `cpu0` for `CompNode("cpu0:0" from "xpux:0")`: streams of a device share memory."""
    match = _LOCATION.search(comp_node)
    return match[1] if match else comp_node


def _curves(blocks: _Blocks, on_device: Bools, steps: int) -> tuple[Floats, Floats, Floats]:
    """Return the bytes at each step: persistent, planned, estimated."""

    def curve(chosen: Bools) -> Floats:
        change = np.zeros(steps + 1)
        np.add.at(change, blocks.first[chosen], blocks.size[chosen])
        np.subtract.at(change, blocks.last[chosen] + 1, blocks.size[chosen])
        return np.cumsum(change)[:steps]

    passing = on_device & ~blocks.is_persistent
    return (
        curve(on_device & blocks.is_persistent),
        curve(passing & blocks.is_planned),
        curve(passing & ~blocks.is_planned),
    )


def _blocks(graph: ExecutedGraph, sizes: Floats) -> tuple[_Blocks, int]:
    """Return all blocks of operators that run, and the number of variables of unknown size."""
    variables, chunks = graph.variables, graph.chunks
    count, steps = len(variables), len(graph.execution_order())
    first, last = _lives(graph)
    # each variable belongs to a block: its chunk, itself, or the block that it is a view of
    block = np.where(variables.chunk != MISSING, variables.chunk, len(chunks) + np.arange(count))
    _follow_views(block, graph)
    amount = len(chunks) + count
    used = last >= 0
    block_first, block_last = np.full(amount, steps), np.full(amount, -1)
    np.minimum.at(block_first, block[used], first[used])
    np.maximum.at(block_last, block[used], last[used])
    _end_where_overwritten(graph, block_first, block_last)
    persistent = np.zeros(amount, dtype=bool)
    np.logical_or.at(persistent, block, variables.with_flag(PERSISTENT))
    block_first[persistent], block_last[persistent] = 0, steps - 1
    size = np.concatenate([chunks.size_bytes.astype(float), sizes])
    owner = np.concatenate([_chunk_owners(graph), np.arange(count)])
    taken = (block_last >= 0) & (owner != MISSING)
    taken[len(chunks) :] &= block[len(chunks) - amount :] == np.arange(len(chunks), amount)
    unknown = taken & np.isnan(size)
    # an output without shape that no operator reads expresses a dependency, not data
    unknown[len(chunks) :] &= _is_read(graph)
    places = np.flatnonzero(taken & (size > 0) & (steps > 0))
    return _Blocks(
        variable=owner[places],
        size=size[places],
        first=block_first[places],
        last=block_last[places],
        is_planned=places < len(chunks),
        is_persistent=persistent[places],
    ), int(unknown.sum())


def _end_where_overwritten(graph: ExecutedGraph, first: Whole, last: Whole) -> None:
    """End a chunk before the operator that writes its result in place.

    Such a result has its own chunk, which starts at the same address when this one ends.
    """
    chunks = graph.chunks
    real = np.flatnonzero((chunks.address > 0) & (chunks.size_bytes > 0))
    begun = {
        (address, step): chunk
        for address, step, chunk in zip(
            chunks.address[real].tolist(), first[real].tolist(), real.tolist(), strict=True
        )
    }
    for chunk, address, step in zip(
        real.tolist(), chunks.address[real].tolist(), last[real].tolist(), strict=True
    ):
        if begun.get((address, step), chunk) != chunk and first[chunk] < step:
            last[chunk] -= 1


def _chunk_owners(graph: ExecutedGraph) -> Whole:
    """Return the variable that names each chunk: its owner, or else its first variable."""
    owners = graph.chunks.owner.astype(np.int64)
    placed = np.flatnonzero(graph.variables.chunk != MISSING)[::-1]
    firsts = np.full(len(owners), MISSING, dtype=np.int64)
    firsts[graph.variables.chunk[placed]] = placed
    return np.where(owners != MISSING, owners, firsts)


def _is_read(graph: ExecutedGraph) -> Bools:
    read = np.zeros(len(graph.variables), dtype=bool)
    read[graph.operators.inputs.targets] = True
    return read


def _lives(graph: ExecutedGraph) -> tuple[Whole, Whole]:
    """Return the first and last step of each variable; last is -1 if nothing that runs uses it."""
    operators, variables = graph.operators, graph.variables
    order = graph.execution_order()
    step = np.full(len(operators) + 1, MISSING, dtype=np.int64)
    step[order] = np.arange(len(order))
    # index MISSING (-1) selects the last element: a variable without a producer exists from the
    # start
    first = np.maximum(step[variables.producer], 0)
    last = step[variables.producer].copy()
    lengths = np.diff(operators.inputs.ends, prepend=0)
    np.maximum.at(last, operators.inputs.targets, np.repeat(step[:-1], lengths))
    return first, last


def _follow_views(block: Whole, graph: ExecutedGraph) -> None:
    """Assign a view without its own chunk to the block of the variable that it shows."""
    operators = graph.operators
    views = operators.types.where(VIEW_TYPES.__contains__)
    order = graph.execution_order()
    for place in order[views[order]].tolist():
        inputs, outputs = operators.inputs[place], operators.outputs[place]
        if len(inputs) and len(outputs) and block[outputs[0]] >= len(graph.chunks):
            block[outputs[0]] = block[inputs[0]]


def _owners(blocks: _Blocks, at_peak: Bools, graph: ExecutedGraph) -> tuple[Owner, ...]:
    places = np.flatnonzero(at_peak)
    largest = places[np.argsort(-blocks.size[places], kind="stable")][:MOST_OWNERS]
    variables = graph.variables
    owners = []
    for place in largest.tolist():
        variable = int(blocks.variable[place])
        producer = int(variables.producer[variable])
        kind: Kind = "planned" if blocks.is_planned[place] else "estimated"
        owners.append(
            Owner(
                variable=variables.names[variable] or variables.ids[variable],
                row=MISSING if producer == MISSING else int(graph.operators.row[producer]),
                size_bytes=float(blocks.size[place]),
                kind="persistent" if blocks.is_persistent[place] else kind,
                first=int(blocks.first[place]),
                last=int(blocks.last[place]),
            )
        )
    return tuple(owners)
