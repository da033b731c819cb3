"""Compute the memory that tensors hold over time, and the used parts of the address space.

Tensors share memory (a view has the memory of its base), so sizes cannot be added up. The unit is a
block: tensors whose memory starts at the same address and whose lifetimes overlap in a chain.
MegEngine 1.13 frees memory as a whole when the last tensor that uses it is gone. A block is
therefore held from its first begin to its last end, and is as large as its largest tensor: a row of
a deleted matrix holds the whole matrix. (If the matrix was deleted before the Profiler started,
only the size of its remaining views is known.) A tensor that begins exactly when the others end
belongs to a new block, since the memory was freed and reused. Where blocks overlap, each address
counts once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.formats.memory_flow.reader import Flow, Ints

#: changes per batch; a batch is computed as a table of changes by affected addresses
_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class MemoryBlocks:
    """b blocks of memory, ascending by `low`.

    low, high: (b,) start address and end address (exclusive)
    begin_ns, end_ns: (b,) begin of the first tensor in the block, end of the last
    """

    low: Ints
    high: Ints
    begin_ns: Ints
    end_ns: Ints


@dataclass(frozen=True, eq=False)
class MemoryUsage:
    """Memory usage as a step function with m changes.

    at_ns: (m,) times of the changes, ascending
    held: (m,) bytes held from this time until the next, each address counted once
    """

    at_ns: Ints
    held: Ints

    @property
    def peak(self) -> int | None:
        """Index of the first maximum of `held`; None if no memory is ever held."""
        return int(np.argmax(self.held)) if len(self.held) and self.held.max() > 0 else None

    def lasting_ns(self, least: int) -> int:
        """Total time, ns, during which at least this number of bytes is held."""
        return int(np.diff(self.at_ns)[self.held[:-1] >= least].sum())


@dataclass(frozen=True, eq=False)
class AddressSpace:
    """The addresses that tensors use: s contiguous ranges, ascending.

    start, end: (s,) addresses; place: (s,) total bytes of all preceding ranges
    """

    start: Ints
    end: Ints
    place: Ints

    @property
    def size(self) -> int:
        """Total bytes of all ranges."""
        return int((self.end - self.start).sum())

    def below(self, address: Ints) -> Ints:
        """Bytes of the ranges that lie below each address."""
        if not len(self.start):
            return np.zeros(len(address), np.int64)
        last = np.searchsorted(self.start, address, "right") - 1
        inside = np.minimum(address, self.end[last]) - self.start[last]
        return np.where(last >= 0, self.place[last] + inside, 0)


def space_of(low: Ints, high: Ints) -> AddressSpace:
    """Return the union of the ranges [low, high), which must be sorted by `low`."""
    top = np.maximum.accumulate(high) if len(high) else high
    is_first = np.ones(len(low), np.bool_)
    is_first[1:] = low[1:] > top[:-1]
    first = np.flatnonzero(is_first)
    start = low[first]
    end = top[np.append(first[1:] - 1, len(low) - 1)] if len(low) else start
    length = end - start
    return AddressSpace(start, end, np.cumsum(length) - length)


def blocks_of(flow: Flow) -> MemoryBlocks:
    """Group tensors into blocks; tensors with a lifetime of 0 are ignored."""
    rows = np.flatnonzero(flow.end_ns > flow.begin_ns)
    rows = rows[np.lexsort((flow.begin_ns[rows], flow.low[rows]))]
    low, high, begin_ns, end_ns = (
        column[rows] for column in (flow.low, flow.high, flow.begin_ns, flow.end_ns)
    )
    # use ranks instead of times, so that (address rank, time rank) fits one 64-bit integer
    times, rank = np.unique(np.concatenate([begin_ns, end_ns]), return_inverse=True)
    above = np.cumsum(np.diff(low, prepend=low[:1]) != 0) * len(times)
    last_end = np.maximum.accumulate(above + rank[len(rows) :])
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (above + rank[: len(rows)])[1:] >= last_end[:-1]
    first = np.flatnonzero(is_first)
    most = np.maximum.reduceat
    return MemoryBlocks(low[first], most(high, first), begin_ns[first], most(end_ns, first))


def usage_of(flow: Flow) -> MemoryUsage:
    blocks = blocks_of(flow)
    low, high, number = blocks.low, blocks.high, len(blocks.low)
    at_ns = np.concatenate([blocks.begin_ns, blocks.end_ns])
    order = np.argsort(at_ns, kind="stable")
    at_ns = at_ns[order]
    row, change = order % max(number, 1), np.where(order < number, 1, -1)
    held = np.concatenate([np.zeros(0, np.int64), *_held(low, high, row, change)])
    last = np.flatnonzero(np.append(at_ns[1:] != at_ns[:-1], True)[: len(at_ns)])
    return MemoryUsage(at_ns[last], held[last])


def _held(low: Ints, high: Ints, row: Ints, change: Ints) -> Iterator[Ints]:
    """Yield the bytes held after each change, in batches.

    low, high: (n,) address ranges of the blocks, ascending by `low`
    row, change: (m,) the block of each change, and 1 if it begins or -1 if it ends
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
        # bytes between two neighbouring points that no unchanged block covers
        free = np.diff(points) - np.diff(rest.below(points))
        count = _counts(points, low, high, moving[before], turn, step)
        yield rest.size + (count[:, :-1] > 0) @ free
        # the last change of a block in the batch decides whether it is alive
        alive[moving] = before
        alive[turn] = step > 0


def _counts(
    points: Ints, low: Ints, high: Ints, before: Ints, turn: Ints, step: Ints
) -> NDArray[np.int32]:
    """(changes, points) number of changing blocks that cover the interval after a point."""
    table = np.zeros((len(turn), len(points)), np.int32)
    places, first = np.arange(len(turn)), np.zeros(len(before), np.intp)
    for edge, sign in ((low, 1), (high, -1)):
        np.add.at(table, (first, np.searchsorted(points, edge[before])), sign)
        np.add.at(table, (places, np.searchsorted(points, edge[turn])), sign * step)
    return np.cumsum(np.cumsum(table, axis=0), axis=1)
