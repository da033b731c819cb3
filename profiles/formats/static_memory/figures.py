"""What a memory plan comes to: bytes alive at each operator, the peak, reuse, what shares bytes.

Peak, weights, size at each operator and the operators that reach the most are those that
`megengine.tools.graph_info_analyze` writes for TensorBoard. A chunk that overwrites another one
counts from the operator after the one that writes it, since until then the other one counts.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.formats.static_memory.plan_file import NOWHERE, Bools, PlanFile, Whole

#: pairs that are named
OVERLAPS_LIMIT = 20


@dataclass(frozen=True, eq=False)
class Figures:
    """Of n operators and k chunks; bytes are int64.

    counted: (k,) int64, the first step at which a chunk counts; counts: (k,) bool, it ever does
    alive: (n,) bytes of chunks at each operator, without weights
    peak: the highest address; peak_step: the first operator at which a chunk that reaches it
        counts, NOWHERE if none does
    most_alive: the most bytes at one operator; reached: steps with so many, empty if that is 0
    changes: (n + 1,) bool, whether other chunks count at a step than at the one before
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


def figures(plan: PlanFile) -> Figures:
    """Compute them; near-linear."""
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
    return Figures(
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


def alive_at(plan: PlanFile, found: Figures, step: int) -> NDArray[np.intp]:
    """Return the places of the chunks that count at a step, the largest first, then by id."""
    places = np.flatnonzero(found.counts & (found.counted <= step) & (step < plan.end))
    return places[np.argsort(-plan.size[places], kind="stable")]


def moments(found: Figures) -> list[tuple[int, int]]:
    """(first, last) step of each run of operators that reach the most with the same chunks."""
    runs: list[tuple[int, int]] = []
    for step in found.reached.tolist():
        if runs and runs[-1][1] == step - 1 and not found.changes[step]:
            runs[-1] = (runs[-1][0], step)
        else:
            runs.append((step, step))
    return runs


def sharing(plan: PlanFile) -> Whole:
    """(k,) how many other chunks lie on some of a chunk's bytes at any time; weights share none."""
    places = np.flatnonzero(~plan.is_weight & (plan.size > 0))
    lows, highs = np.sort(plan.low[places]), np.sort(plan.high[places])
    before = np.searchsorted(highs, plan.low[places], side="right")
    behind = len(places) - np.searchsorted(lows, plan.high[places], side="left")
    shared = np.zeros(len(plan.ids), dtype=np.int64)
    shared[places] = len(places) - before - behind - 1
    return shared


def overlaps(plan: PlanFile, found: Figures) -> tuple[list[tuple[int, int]], int]:
    """Pairs of chunks (places) that count at the same time on the same bytes, and how many.

    None are found if and only if there are none. Once there is one, the number is a lower bound:
    a chunk is compared with its neighbours, as if those before it overlapped nothing.
    """
    places = np.flatnonzero(found.counts & (plan.size > 0))
    # at one step what ends comes before what begins
    at = np.concatenate([plan.end[places], found.counted[places]])
    begins = np.repeat([False, True], len(places))
    order = np.lexsort((begins, at))
    events = zip(np.tile(places, 2)[order].tolist(), begins[order].tolist(), strict=True)
    low, high = plan.low.tolist(), plan.high.tolist()
    taken: list[tuple[int, int]] = []  # (address, place) of what counts now
    pairs: list[tuple[int, int]] = []
    number = 0
    for place, begin in events:
        mine = (low[place], place)
        if not begin:
            del taken[bisect_left(taken, mine)]
            continue
        where = bisect_left(taken, mine)
        for neighbour in taken[max(where - 1, 0) : where + 1]:
            other = neighbour[1]
            if low[other] < high[place] and low[place] < high[other]:
                number += 1
                if len(pairs) < OVERLAPS_LIMIT:
                    pairs.append((other, place))
        insort(taken, mine)
    return pairs, number
