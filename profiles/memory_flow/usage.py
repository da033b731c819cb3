"""How much memory tensors hold at each moment, and where in the address space.

Tensors share memory (a view has that of what it looks at), so sizes do not add up to bytes: each
address counts once here, however many tensors have it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.memory_flow.reader import Flow, Ints

#: moments that are computed at once, in a table of these by the addresses that they change
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Usage:
    """The m moments at which anything changes, ascending; what holds at one holds to the next.

    at_ns: (m,); held: (m,) bytes, each address once; added: (m,) sizes of all tensors added up
    """

    at_ns: Ints
    held: Ints
    added: Ints

    @property
    def peak(self) -> int | None:
        """The first moment with most bytes held; None if nothing ever is."""
        return int(np.argmax(self.held)) if len(self.held) and self.held.max() > 0 else None

    def lasting_ns(self, least: int) -> int:
        """How long at least so many bytes are held, in all."""
        return int(np.diff(self.at_ns)[self.held[:-1] >= least].sum())


@dataclass(frozen=True, eq=False)
class Space:
    """Addresses that any tensor ever has: s stretches without a gap, ascending.

    start, end: (s,) addresses; place: (s,) bytes of all stretches before this one
    """

    start: Ints
    end: Ints
    place: Ints

    @property
    def size(self) -> int:
        """Bytes of all stretches."""
        return int((self.end - self.start).sum())

    def below(self, address: Ints) -> Ints:
        """Bytes of the stretches that lie below each address."""
        if not len(self.start):
            return np.zeros(len(address), np.int64)
        last = np.searchsorted(self.start, address, "right") - 1
        inside = np.minimum(address, self.end[last]) - self.start[last]
        return np.where(last >= 0, self.place[last] + inside, 0)


def space_of(low: Ints, high: Ints) -> Space:
    """Return the union of [low, high), which are sorted by `low`."""
    top = np.maximum.accumulate(high) if len(high) else high
    is_first = np.ones(len(low), np.bool_)
    is_first[1:] = low[1:] > top[:-1]
    first = np.flatnonzero(is_first)
    start = low[first]
    end = top[np.append(first[1:] - 1, len(low) - 1)] if len(low) else start
    length = end - start
    return Space(start, end, np.cumsum(length) - length)


def usage_of(flow: Flow) -> Usage:
    """Return what tensors hold over time. One that ends as it begins never holds anything."""
    rows = np.flatnonzero(flow.end_ns > flow.begin_ns)
    rows = rows[np.argsort(flow.low[rows], kind="stable")]
    low, high = flow.low[rows], flow.high[rows]
    number = len(rows)
    at_ns = np.concatenate([flow.begin_ns[rows], flow.end_ns[rows]])
    order = np.argsort(at_ns, kind="stable")
    at_ns = at_ns[order]
    row, change = order % max(number, 1), np.where(order < number, 1, -1)
    held = np.concatenate([np.zeros(0, np.int64), *_held(low, high, row, change)])
    added = np.cumsum((high - low)[row] * change)
    last = np.flatnonzero(np.append(at_ns[1:] != at_ns[:-1], True)[: len(at_ns)])
    return Usage(at_ns[last], held[last], added[last])


def _held(low: Ints, high: Ints, row: Ints, change: Ints) -> Iterator[Ints]:
    """Bytes held after each change (1: a tensor begins, -1: it ends), block by block.

    low, high: (n,) ascending by `low`; row: (m,) whose turn it is
    """
    alive = np.zeros(len(low), np.bool_)
    for start in range(0, len(row), _BLOCK):
        turn, step = row[start : start + _BLOCK], change[start : start + _BLOCK]
        moving = np.unique(turn)
        before = alive[moving].copy()
        alive[moving] = False
        still = np.flatnonzero(alive)
        rest = space_of(low[still], high[still])
        points = np.unique(np.concatenate([low[moving], high[moving]]))
        # of each stretch between two points, what no tensor that stays has
        free = np.diff(points) - np.diff(rest.below(points))
        count = _counts(points, low, high, moving[before], turn, step)
        yield rest.size + (count[:, :-1] > 0) @ free
        # the last turn of a tensor says whether it is alive now
        alive[moving] = before
        alive[turn] = step > 0


def _counts(
    points: Ints, low: Ints, high: Ints, before: Ints, turn: Ints, step: Ints
) -> NDArray[np.int32]:
    """(turns, points) how many of the moving tensors have the stretch behind a point."""
    table = np.zeros((len(turn), len(points)), np.int32)
    places, first = np.arange(len(turn)), np.zeros(len(before), np.intp)
    for edge, sign in ((low, 1), (high, -1)):
        np.add.at(table, (first, np.searchsorted(points, edge[before])), sign)
        np.add.at(table, (places, np.searchsorted(points, edge[turn])), sign * step)
    return np.cumsum(np.cumsum(table, axis=0), axis=1)
