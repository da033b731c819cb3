"""Figures of a memory plan: bytes alive at each operator, the peak, sharing and overlaps.

Peak, weights, size at each operator and the operators with the maximum are defined as in
`megengine.tools.graph_info_analyze`, which writes them for TensorBoard. A chunk that overwrites
another one counts from the operator after its writer, since until then the other chunk counts.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.formats.static_memory.plan_file import NOWHERE, Bools, PlanFile, Whole

#: maximum number of pairs that are listed
OVERLAPS_LIMIT = 20


@dataclass(frozen=True, eq=False)
class PlanFigures:
    """Figures of a plan with n operators and k chunks; bytes are int64.

    counted: (k,) int64, the first step at which a chunk counts; counts: (k,) bool, whether it ever
        counts
    alive: (n,) bytes of the chunks that count at each operator, without weights
    peak: the highest address; peak_step: the first operator at which a chunk that reaches it
        counts, NOWHERE if none does
    most_alive: the maximum of `alive`; reached: steps with that maximum, empty if it is 0
    changes: (n + 1,) bool, whether the set of counting chunks differs from that of the step before
    """

    counted: Whole
    counts: Bools
    alive: Whole
    peak: int
    peak_step: int
    weights: int
    most_alive: int
    reached: NDArray[np.intp]
    changes: Bools


def figures(plan: PlanFile) -> PlanFigures:
    """Compute the figures of a plan, in near-linear time."""
    steps, moving = len(plan.names), ~plan.is_weight
    counted = plan.begin + (plan.overwrites != NOWHERE)
    counts = moving & (counted < plan.end)
    change = np.zeros(steps + 1, dtype=np.int64)
    np.add.at(change, counted[counts], plan.size[counts])
    np.subtract.at(change, plan.end[counts], plan.size[counts])
    changes = np.zeros(steps + 1, dtype=bool)
    changes[counted[counts]] = changes[plan.end[counts]] = True
    alive = np.cumsum(change)[:steps]
    most = int(alive.max(initial=0))
    peak = int(plan.high[moving].max(initial=0))
    highest = counted[counts & (plan.high == peak)]
    return PlanFigures(
        counted=counted,
        counts=counts,
        alive=alive,
        peak=peak,
        peak_step=int(highest.min()) if len(highest) else NOWHERE,
        weights=int(plan.size[plan.is_weight].sum()),
        most_alive=most,
        reached=np.flatnonzero(alive == most) if most else np.zeros(0, np.intp),
        changes=changes,
    )


def alive_at(plan: PlanFile, values: PlanFigures, step: int) -> NDArray[np.intp]:
    """Return the indices of the chunks that count at a step, the largest first, then by id."""
    chunks = np.flatnonzero(values.counts & (values.counted <= step) & (step < plan.end))
    return chunks[np.argsort(-plan.size[chunks], kind="stable")]


def moments(values: PlanFigures) -> list[tuple[int, int]]:
    """(first, last) step of each run of operators that reach the maximum with the same chunks."""
    runs: list[tuple[int, int]] = []
    for step in values.reached.tolist():
        if runs and runs[-1][1] == step - 1 and not values.changes[step]:
            runs[-1] = (runs[-1][0], step)
        else:
            runs.append((step, step))
    return runs


def sharing(plan: PlanFile) -> Whole:
    """(k,) number of other chunks that use some of a chunk's bytes at any time; 0 for weights."""
    chunks = np.flatnonzero(~plan.is_weight & (plan.size > 0))
    lows, highs = np.sort(plan.low[chunks]), np.sort(plan.high[chunks])
    before = np.searchsorted(highs, plan.low[chunks], side="right")
    after = len(chunks) - np.searchsorted(lows, plan.high[chunks], side="left")
    shared = np.zeros(len(plan.ids), dtype=np.int64)
    shared[chunks] = len(chunks) - before - after - 1
    return shared


def overlaps(plan: PlanFile, values: PlanFigures) -> tuple[list[tuple[int, int]], int]:
    """Pairs of chunks (indices) that count at the same time on the same bytes, and their number.

    The result is empty if and only if no chunks overlap. Otherwise the number is a lower bound: a
    chunk is compared with its neighbours only, as if the preceding chunks did not overlap.
    """
    chunks = np.flatnonzero(values.counts & (plan.size > 0))
    # at the same step, ends precede begins
    at = np.concatenate([plan.end[chunks], values.counted[chunks]])
    begins = np.repeat([False, True], len(chunks))
    order = np.lexsort((begins, at))
    events = zip(np.tile(chunks, 2)[order].tolist(), begins[order].tolist(), strict=True)
    low, high = plan.low.tolist(), plan.high.tolist()
    taken: list[tuple[int, int]] = []  # (address, chunk) of the chunks that count now
    pairs: list[tuple[int, int]] = []
    number = 0
    for chunk, begin in events:
        entry = (low[chunk], chunk)
        if not begin:
            del taken[bisect_left(taken, entry)]
            continue
        position = bisect_left(taken, entry)
        for neighbour in taken[max(position - 1, 0) : position + 1]:
            other = neighbour[1]
            if low[other] < high[chunk] and low[chunk] < high[other]:
                number += 1
                if len(pairs) < OVERLAPS_LIMIT:
                    pairs.append((other, chunk))
        insort(taken, entry)
    return pairs, number
