"""How much memory tensors hold at each moment, and where in the address space.

Tensors share memory (a view has that of what it looks at), so sizes do not add up to bytes. What is
held are blocks: tensors whose memory begins at one address, each beginning before those before it
have all ended. MegEngine 1.13 frees memory when the last tensor that looks into it is gone, and all
of it at once, so a block is held from its first begin to its last end, and is as large as its
largest tensor: a row of a matrix that is gone holds the whole matrix. (One that nobody saw, because
it was gone before the Profiler began, is as large as what is left of it.) What begins at the moment
at which the others end is another block, that of memory which was freed and is used again. Where
blocks lie on each other, each address counts once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.formats.memory_flow.reader import Flow, Ints

#: changes that are computed at once, in a table of these by the addresses that they change
_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Blocks:
    """b pieces of memory, ascending by `low`.

    low, high: (b,) address of the first byte, and that behind the last
    begin_ns, end_ns: (b,) of the first tensor in it, and of the last
    """

    low: Ints
    high: Ints
    begin_ns: Ints
    end_ns: Ints


@dataclass(frozen=True, eq=False)
class Usage:
    """The m moments at which anything changes, ascending; what holds at one holds to the next.

    at_ns: (m,); held: (m,) bytes, each address once
    """

    at_ns: Ints
    held: Ints

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


def blocks_of(flow: Flow) -> Blocks:
    """Return what tensors hold. One that ends as it begins never holds anything."""
    rows = np.flatnonzero(flow.end_ns > flow.begin_ns)
    rows = rows[np.lexsort((flow.begin_ns[rows], flow.low[rows]))]
    low, high, begin_ns, end_ns = (
        each[rows] for each in (flow.low, flow.high, flow.begin_ns, flow.end_ns)
    )
    # ranks instead of times: with the address's before them they still are whole numbers of 64 bits
    times, rank = np.unique(np.concatenate([begin_ns, end_ns]), return_inverse=True)
    above = np.cumsum(np.diff(low, prepend=low[:1]) != 0) * len(times)
    last_end = np.maximum.accumulate(above + rank[len(rows) :])
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (above + rank[: len(rows)])[1:] >= last_end[:-1]
    first = np.flatnonzero(is_first)
    most = np.maximum.reduceat
    return Blocks(low[first], most(high, first), begin_ns[first], most(end_ns, first))


def usage_of(flow: Flow) -> Usage:
    """Return what tensors hold over time."""
    blocks = blocks_of(flow)
    low, high, number = blocks.low, blocks.high, len(blocks.low)
    at_ns = np.concatenate([blocks.begin_ns, blocks.end_ns])
    order = np.argsort(at_ns, kind="stable")
    at_ns = at_ns[order]
    row, change = order % max(number, 1), np.where(order < number, 1, -1)
    held = np.concatenate([np.zeros(0, np.int64), *_held(low, high, row, change)])
    last = np.flatnonzero(np.append(at_ns[1:] != at_ns[:-1], True)[: len(at_ns)])
    return Usage(at_ns[last], held[last])


def _held(low: Ints, high: Ints, row: Ints, change: Ints) -> Iterator[Ints]:
    """Bytes held after each change (1: a block begins, -1: it ends), so many at once.

    low, high: (n,) ascending by `low`; row: (m,) whose turn it is
    """
    alive = np.zeros(len(low), np.bool_)
    for start in range(0, len(row), _AT_ONCE):
        turn, step = row[start : start + _AT_ONCE], change[start : start + _AT_ONCE]
        moving = np.unique(turn)
        before = alive[moving].copy()
        alive[moving] = False
        still = np.flatnonzero(alive)
        rest = space_of(low[still], high[still])
        points = np.unique(np.concatenate([low[moving], high[moving]]))
        # of each stretch between two points, what no block that stays has
        free = np.diff(points) - np.diff(rest.below(points))
        count = _counts(points, low, high, moving[before], turn, step)
        yield rest.size + (count[:, :-1] > 0) @ free
        # the last turn of a block says whether it is alive now
        alive[moving] = before
        alive[turn] = step > 0


def _counts(
    points: Ints, low: Ints, high: Ints, before: Ints, turn: Ints, step: Ints
) -> NDArray[np.int32]:
    """(turns, points) how many of the moving blocks have the stretch behind a point."""
    table = np.zeros((len(turn), len(points)), np.int32)
    places, first = np.arange(len(turn)), np.zeros(len(before), np.intp)
    for edge, sign in ((low, 1), (high, -1)):
        np.add.at(table, (first, np.searchsorted(points, edge[before])), sign)
        np.add.at(table, (places, np.searchsorted(points, edge[turn])), sign * step)
    return np.cumsum(np.cumsum(table, axis=0), axis=1)
