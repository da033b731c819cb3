"""From pieces of a trace's file to a small trace of its own.

Spans become complete events (`X`): a viewer then need not pair begins and ends of which it has not
all, and two that touch are not taken for one within the other.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from profiles.formats.chrome_trace.choosing import Range
from profiles.formats.chrome_trace.events import Event
from profiles.formats.chrome_trace.reader import LATEST_US, placed
from profiles.formats.chrome_trace.span_index import COUNTERS, Rows

#: of an arrow between spans: where it begins, what it passes, where it ends
_FLOWS = {"s", "t", "f"}
_EVENTS = msgspec.json.Decoder(list[Event])
_TEXTS = msgspec.json.Decoder(list[Raw])
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_ENCODER = msgspec.json.Encoder()
_NONE = Raw(b"{}")
#: whole ns that a double of us holds
_EXACT_US = 2.0**52 / 1000
_WRITTEN_AT_ONCE = 5_000


class Sink(Protocol):
    """What bytes are written to."""

    def write(self, data: bytes, /) -> object:
        """Take all of them."""


#: (row of the trace that comes first, text without brackets)
PieceText = tuple[int, bytes]
Lanes = list[tuple[int | str, int | str]]


def write_cut(
    file: Sink,
    rows: Rows,
    pieces: Iterable[PieceText],
    *,
    asked: Range,
    lanes: Lanes,
    naming: list[dict[str, Any]],
) -> None:
    """Write the trace of `rows`, with arrows that begin and end within it.

    pieces: at least those that hold the events of `rows`, in the order of the file
    Raises ValueError if they do not hold them.
    """
    flows = _Flows(asked, lanes)
    texts = _texts(rows, pieces, flows)
    file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
    names = [_ENCODER.encode(each) for each in naming]
    written = False
    for some in _some([names, _events(rows, texts), flows.whole()]):
        file.write((b",\n" if written else b"\n") + b",\n".join(some))
        written = True
    file.write(b"\n]}")


def _some(parts: Iterable[Iterable[bytes]]) -> Iterator[list[bytes]]:
    kept: list[bytes] = []
    for part in parts:
        for each in part:
            kept.append(each)
            if len(kept) >= _WRITTEN_AT_ONCE:
                yield kept
                kept = []
    if kept:
        yield kept


def _texts(rows: Rows, pieces: Iterable[PieceText], flows: "_Flows") -> dict[int, bytes]:
    """The text of each event that is wanted, by its row of the trace."""
    wanted = np.unique(np.concatenate([rows.first, rows.last]))
    found: dict[int, bytes] = {}
    for first_row, text in pieces:
        listed = b"[" + text + b"]"
        events, raws = _EVENTS.decode(listed), _TEXTS.decode(listed)
        kept = [place for place in placed(events) if abs(events[place].ts or 0.0) <= LATEST_US]
        low, high = np.searchsorted(wanted, [first_row, first_row + len(kept)])
        for row in wanted[low:high].tolist():
            found[row] = bytes(raws[kept[row - first_row]])
        flows.add(events, raws)
    if len(found) < len(wanted):
        raise ValueError("the file is another than the index was made of")
    return found


def _events(rows: Rows, texts: dict[int, bytes]) -> Iterator[bytes]:
    begin, length = exact_us(rows.begin_us, rows.end_us)
    columns = zip(
        rows.lane.tolist(), rows.first.tolist(), rows.last.tolist(), begin, length, strict=True
    )
    for lane, first, last, begin_us, length_us in columns:
        if lane == COUNTERS:
            yield texts[first]
            continue
        fields: dict[str, Any] = _FIELDS.decode(texts[first])
        if last != first:
            ended = _FIELDS.decode(texts[last])
            args = _merged(fields.get("args"), ended.get("args"))
            fields = {**ended, **fields} | ({} if args is None else {"args": args})
        fields |= {"ph": "X", "ts": begin_us, "dur": length_us}
        yield _ENCODER.encode(fields)


def _merged(first: Raw | None, last: Raw | None) -> Raw | dict[str, Raw] | None:
    """What begin and end of a span tell; what the end says counts."""
    if first is None or last is None:
        return last if first is None else first
    try:
        return {**_FIELDS.decode(first), **_FIELDS.decode(last)}
    except msgspec.DecodeError:  # no objects
        return last


def exact_us(begin: NDArray[np.float64], end: NDArray[np.float64]) -> tuple[list[Any], list[Any]]:
    """(begins, lengths), us, that are whole ns, whether a reader rounds or cuts them off.

    Both ends are rounded by themselves: what touches still touches, what nests still nests.
    """
    sound = (np.abs(begin) < _EXACT_US) & (np.abs(end) < _EXACT_US)
    starts = np.rint(np.where(sound, begin, 0.0) * 1000)
    stops = np.rint(np.where(sound, end, 0.0) * 1000)
    return (
        np.where(sound, _us(starts), begin).tolist(),
        np.where(sound, _us(stops - starts), end - begin).tolist(),
    )


def _us(ns: NDArray[np.float64]) -> NDArray[np.float64]:
    us = ns / 1000
    return np.where(np.trunc(us * 1000) == ns, us, np.nextafter(us, np.copysign(np.inf, ns)))


class _Flows:
    """Arrows between spans; those whose two ends are in the cut stay."""

    def __init__(self, asked: Range, lanes: Lanes) -> None:
        self._asked = asked
        numbers = range(len(lanes)) if asked.lanes is None else asked.lanes
        self._lanes = {lanes[number] for number in numbers if number < len(lanes)}
        self._found: dict[tuple[bytes, ...], list[tuple[str, bytes]]] = defaultdict(list)

    def add(self, events: list[Event], raws: list[Raw]) -> None:
        begin, end = self._asked.begin_us, self._asked.end_us
        for event, raw in zip(events, raws, strict=True):
            if event.ph not in _FLOWS or event.ts is None or not begin <= event.ts <= end:
                continue
            if (event.pid, event.tid) in self._lanes:
                told = _FIELDS.decode(raw)
                key = tuple(bytes(told.get(name, _NONE)) for name in ("cat", "id", "scope"))
                self._found[key].append((event.ph, bytes(raw)))

    def whole(self) -> Iterator[bytes]:
        for parts in self._found.values():
            kinds = {kind for kind, _ in parts}
            if "s" in kinds and len(kinds) > 1:
                yield from (text for _, text in parts)
