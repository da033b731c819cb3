"""Which spans and counters belong to a cut of a trace, and where in its file they stand."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.formats.chrome_trace.span_index import COUNTERS, Rows, SpanIndex, rows_of
from profiles.formats.columns import taken

#: blocks of the index that lie so close are fetched together
_GAP_BYTES, _TOGETHER_BYTES = 256 << 10, 8 << 20
#: an event of a cut takes at least so much of its file; what has more is refused like longer text
LEAST_EVENT_BYTES = 64

#: bytes of the index behind its header: from, how many
Fetch = Callable[[int, int], bytes]


@dataclass(frozen=True)
class Range:
    """What is asked for: what touches begin to end (us), of these lanes; None: of all lanes."""

    begin_us: float = -math.inf
    end_us: float = math.inf
    lanes: frozenset[int] | None = None


@dataclass(frozen=True, eq=False)
class Chosen:
    """The rows of a cut, lane by lane, outer spans first, and the pieces of the file they are in.

    pieces: (p,) places in `SpanIndex.pieces`, ascending
    size_bytes: of those pieces
    """

    rows: Rows
    pieces: NDArray[np.intp]
    size_bytes: int


class TooLargeError(Exception):
    """A cut is beyond the limit: how many events and bytes it would have, as far as is known."""

    def __init__(self, events: int, size_bytes: int) -> None:
        self.events, self.size_bytes = events, size_bytes
        super().__init__(f"{events} events, {size_bytes} bytes")


def choose(index: SpanIndex, asked: Range, fetch: Fetch, limit_bytes: int) -> Chosen:
    """Find what belongs to a cut. Counters are of no lane, so they are always in it.

    limit_bytes: of the file's text, and so of events too
    Raises TooLargeError before more than that is fetched; ValueError for a damaged index.
    """
    blocks = index.blocks
    wanted = (blocks["high"] >= asked.begin_us) & (blocks["low"] <= asked.end_us)
    if asked.lanes is not None:
        wanted &= np.isin(blocks["lane"], [COUNTERS, *asked.lanes])
    inside = wanted & (blocks["low"] >= asked.begin_us) & (blocks["high"] <= asked.end_us)
    most = limit_bytes // LEAST_EVENT_BYTES
    _check(int(blocks["rows"][inside].sum()), most, _bytes_about(index, blocks, inside))
    found: list[Rows] = []
    count = 0
    for rows in _read(index, np.flatnonzero(wanted), fetch):
        touching = (rows.end_us >= asked.begin_us) & (rows.begin_us <= asked.end_us)
        found.append(taken(rows, touching))
        count += len(found[-1])
        _check(count, most, _bytes_about(index, blocks, wanted))
    rows = _joined(found)
    pieces = np.unique(index.pieces.of_rows(np.concatenate([rows.first, rows.last])))
    size_bytes = int((index.pieces.end[pieces] - index.pieces.begin[pieces]).sum())
    if size_bytes > limit_bytes:
        raise TooLargeError(len(rows), size_bytes)
    return Chosen(rows, pieces, size_bytes)


def _check(events: int, most: int, size_bytes: int) -> None:
    if events > most:
        raise TooLargeError(events, size_bytes)


def _bytes_about(index: SpanIndex, blocks: NDArray, here: NDArray[np.bool_]) -> int:
    """What those blocks take of the file, if all events are equally long."""
    share = blocks["rows"][here].sum() / max(int(blocks["rows"].sum()), 1)
    return int(index.size_bytes * share)


def _read(index: SpanIndex, places: NDArray[np.intp], fetch: Fetch) -> Iterator[Rows]:
    """The rows of these blocks; what lies close together is fetched at once."""
    for group in _groups(index, places):
        first, last = index.blocks[group[0]], index.blocks[group[-1]]
        start = int(first["at"])
        data = fetch(start, int(last["at"]) + int(last["size"]) - start)
        for place in group:
            block = index.blocks[place]
            at = int(block["at"]) - start
            yield rows_of(block, data[at : at + int(block["size"])])


def _groups(index: SpanIndex, places: NDArray[np.intp]) -> Iterator[list[int]]:
    group: list[int] = []
    begin = end = 0
    for place in places.tolist():
        block = index.blocks[place]
        if group and (int(block["at"]) - end > _GAP_BYTES or end - begin > _TOGETHER_BYTES):
            yield group
            group = []
        if not group:
            begin = int(block["at"])
        group.append(place)
        end = int(block["at"]) + int(block["size"])
    if group:
        yield group


def _joined(found: list[Rows]) -> Rows:
    """All rows by lane and begin, the longer one first, as spans nest."""
    if not found:
        none = np.array([], np.float64)
        return Rows(none.astype(np.int32), none, none, *(none.astype(np.int32) for _ in range(2)))
    names = ("lane", "begin_us", "end_us", "first", "last")
    rows = Rows(*(np.concatenate([getattr(each, name) for each in found]) for name in names))
    return taken(rows, np.lexsort((rows.first, -rows.end_us, rows.begin_us, rows.lane)))
