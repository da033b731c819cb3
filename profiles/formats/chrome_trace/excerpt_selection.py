"""Select the spans and counters of a trace excerpt, and the pieces of the file that hold them."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.formats.chrome_trace.span_index import COUNTERS, SpanIndex, SpanRows, decode_spans
from profiles.formats.columns import take_rows

#: blocks of the index are fetched in one request up to this gap between them, and this total size
_GAP_BYTES, _TOGETHER_BYTES = 256 << 10, 8 << 20
#: assumed minimum size of an event in the file; limits the number of events of an excerpt
LEAST_EVENT_BYTES = 64

#: reads bytes of a file or of the index after its header: (offset, size)
Fetch = Callable[[int, int], bytes]


@dataclass(frozen=True)
class ExcerptRange:
    """A requested excerpt: everything that overlaps [begin, end] (us) on these lanes; None: all."""

    begin_us: float = -math.inf
    end_us: float = math.inf
    lanes: frozenset[int] | None = None


@dataclass(frozen=True, eq=False)
class Excerpt:
    """The rows of an excerpt, lane by lane, outer spans first, and the pieces that hold them.

    pieces: (p,) indices into `SpanIndex.pieces`, ascending
    size_bytes: total size of those pieces
    """

    rows: SpanRows
    pieces: NDArray[np.intp]
    size_bytes: int


class ExcerptTooLargeError(Exception):
    """An excerpt exceeds the limit; holds its known or estimated number of events and bytes."""

    def __init__(self, events: int, size_bytes: int) -> None:
        self.events, self.size_bytes = events, size_bytes
        super().__init__(f"{events} events, {size_bytes} bytes")


def select_excerpt(
    index: SpanIndex, requested: ExcerptRange, fetch: Fetch, limit_bytes: int
) -> Excerpt:
    """Select the rows of an excerpt. Counters belong to no lane and are always included.

    limit_bytes: limit of the text in the file, from which a limit of events follows
    Raises ExcerptTooLargeError before it fetches more than that, ValueError for a damaged index.
    """
    blocks = index.blocks
    overlapping = (blocks["high"] >= requested.begin_us) & (blocks["low"] <= requested.end_us)
    if requested.lanes is not None:
        overlapping &= np.isin(blocks["lane"], [COUNTERS, *requested.lanes])
    inside = (
        overlapping & (blocks["low"] >= requested.begin_us) & (blocks["high"] <= requested.end_us)
    )
    most = limit_bytes // LEAST_EVENT_BYTES
    _check(int(blocks["rows"][inside].sum()), most, _bytes_about(index, blocks, inside))
    parts: list[SpanRows] = []
    count = 0
    for rows in _read(index, np.flatnonzero(overlapping), fetch):
        touching = (rows.end_us >= requested.begin_us) & (rows.begin_us <= requested.end_us)
        parts.append(take_rows(rows, touching))
        count += len(parts[-1])
        _check(count, most, _bytes_about(index, blocks, overlapping))
    rows = _join(parts)
    pieces = np.unique(index.pieces.of_rows(np.concatenate([rows.first, rows.last])))
    size_bytes = int((index.pieces.end[pieces] - index.pieces.begin[pieces]).sum())
    if size_bytes > limit_bytes:
        raise ExcerptTooLargeError(len(rows), size_bytes)
    return Excerpt(rows, pieces, size_bytes)


def _check(events: int, most: int, size_bytes: int) -> None:
    if events > most:
        raise ExcerptTooLargeError(events, size_bytes)


def _bytes_about(index: SpanIndex, blocks: NDArray, selected: NDArray[np.bool_]) -> int:
    """Estimate the size of the selected blocks in the file, assuming events of equal length."""
    share = blocks["rows"][selected].sum() / max(int(blocks["rows"].sum()), 1)
    return int(index.size_bytes * share)


def _read(index: SpanIndex, numbers: NDArray[np.intp], fetch: Fetch) -> Iterator[SpanRows]:
    """The rows of these blocks."""
    blocks = [index.blocks[number] for number in numbers.tolist()]
    ranges = [(int(block["at"]), int(block["at"]) + int(block["size"])) for block in blocks]
    fetched = fetch_ranges(ranges, fetch, gap_bytes=_GAP_BYTES, most_bytes=_TOGETHER_BYTES)
    for block, data in zip(blocks, fetched, strict=True):
        yield decode_spans(block, data)


def fetch_ranges(
    ranges: Iterable[tuple[int, int]], fetch: Fetch, *, gap_bytes: int, most_bytes: int
) -> Iterator[bytes]:
    """Yield the bytes of each range (begin, end) of a file; the ranges are ascending.

    Ranges are fetched in one request up to a gap of `gap_bytes` between them, and `most_bytes` in
    total.
    """
    group: list[tuple[int, int]] = []
    for begin, end in ranges:
        if group and (begin - group[-1][1] > gap_bytes or end - group[0][0] > most_bytes):
            yield from _fetch_group(group, fetch)
            group = []
        group.append((begin, end))
    if group:
        yield from _fetch_group(group, fetch)


def _fetch_group(group: list[tuple[int, int]], fetch: Fetch) -> Iterator[bytes]:
    start = group[0][0]
    data = fetch(start, group[-1][1] - start)
    for begin, end in group:
        yield data[begin - start : end - start]


def _join(parts: list[SpanRows]) -> SpanRows:
    """All rows sorted by lane and begin; of equal begins the longer first, so that spans nest."""
    if not parts:
        none = np.array([], np.float64)
        return SpanRows(
            none.astype(np.int32), none, none, *(none.astype(np.int32) for _ in range(2))
        )
    names = ("lane", "begin_us", "end_us", "first", "last")
    rows = SpanRows(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    return take_rows(rows, np.lexsort((rows.first, -rows.end_us, rows.begin_us, rows.lane)))
