"""Write an excerpt of a trace as a trace file of its own.

Begin and end events of spans are joined to complete events (`X`), so that a viewer does not have to
pair events of which the excerpt lacks some, and adjacent spans are not shown as nested.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from io import BufferedIOBase
from itertools import chain, islice
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from profiles.formats.chrome_trace.events import TraceEvent, decode_events
from profiles.formats.chrome_trace.excerpt_selection import ExcerptRange
from profiles.formats.chrome_trace.reader import LATEST_US, placed_events
from profiles.formats.chrome_trace.span_index import COUNTERS, SpanRows

#: phases of flow events (arrows between spans): start, step, end
_FLOWS = {"s", "t", "f"}
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_ENCODER = msgspec.json.Encoder()
_NONE = Raw(b"{}")
#: up to this time, us as a double represents every whole ns
_EXACT_US = 2.0**52 / 1000
_WRITTEN_AT_ONCE = 5_000


#: (first row of the trace in the piece, its JSON text without brackets)
PieceText = tuple[int, bytes]
Lanes = list[tuple[int | str, int | str]]


def write_excerpt(
    file: BufferedIOBase,
    rows: SpanRows,
    pieces: Iterable[PieceText],
    *,
    requested: ExcerptRange,
    lanes: Lanes,
    naming: list[dict[str, Any]],
    zero_us: int = 0,
) -> None:
    """Write the trace of `rows`, with the flow events whose both ends are inside it.

    pieces: at least the pieces that hold the events of `rows`, in the order of the file
    zero_us: as in `Trace`; all times of the excerpt are relative to it, too
    Raises ValueError if an event of `rows` is in none of them.
    """
    flows = _Flows(requested, lanes, zero_us)
    texts = _texts(rows, pieces, flows)
    file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
    names = [_ENCODER.encode(event) for event in naming]
    events = chain(names, _events(rows, texts, zero_us), flows.whole())
    separator = b"\n"
    while batch := list(islice(events, _WRITTEN_AT_ONCE)):
        file.write(separator + b",\n".join(batch))
        separator = b",\n"
    file.write(b"\n]}")


def _texts(rows: SpanRows, pieces: Iterable[PieceText], flows: "_Flows") -> dict[int, bytes]:
    """The JSON text of each event of `rows`, by its row of the trace. Raises ValueError."""
    needed = np.unique(np.concatenate([rows.first, rows.last]))
    by_row: dict[int, bytes] = {}
    for first_row, text in pieces:
        events, raws = decode_events(text)
        kept = [
            index for index in placed_events(events) if abs(events[index].ts or 0.0) <= LATEST_US
        ]
        low, high = np.searchsorted(needed, [first_row, first_row + len(kept)])
        for row in needed[low:high].tolist():
            by_row[row] = bytes(raws[kept[row - first_row]])
        flows.add(events, raws)
    if len(by_row) < len(needed):
        raise ValueError("the file is another than the index was made of")
    return by_row


def _events(rows: SpanRows, texts: dict[int, bytes], zero_us: int) -> Iterator[bytes]:
    begin, length = exact_us(rows.begin_us, rows.end_us)
    columns = zip(
        rows.lane.tolist(), rows.first.tolist(), rows.last.tolist(), begin, length, strict=True
    )
    for lane, first, last, begin_us, length_us in columns:
        if lane == COUNTERS:
            yield _moved(texts[first], zero_us)
            continue
        fields: dict[str, Any] = _FIELDS.decode(texts[first])
        if last != first:
            end_fields = _FIELDS.decode(texts[last])
            args = _merge_args(fields.get("args"), end_fields.get("args"))
            fields = {**end_fields, **fields} | ({} if args is None else {"args": args})
        fields |= {"ph": "X", "ts": begin_us, "dur": length_us}
        yield _ENCODER.encode(fields)


def _moved(text: bytes, zero_us: int) -> bytes:
    """Return the text of an event with its time minus `zero_us`."""
    if not zero_us:
        return text
    fields = _FIELDS.decode(text)
    fields["ts"] = Raw(str(Decimal(bytes(fields["ts"]).decode()) - zero_us).encode())
    return _ENCODER.encode(fields)


def _merge_args(first: Raw | None, last: Raw | None) -> Raw | dict[str, Raw] | None:
    """The args of a span's begin and end events; the end's values take precedence."""
    if first is None or last is None:
        return last if first is None else first
    try:
        return {**_FIELDS.decode(first), **_FIELDS.decode(last)}
    except msgspec.DecodeError:  # not JSON objects
        return last


def exact_us(begin: NDArray[np.float64], end: NDArray[np.float64]) -> tuple[list[Any], list[Any]]:
    """Round (begins, lengths), us, so that both rounding and truncation to ns give the same value.

    Begins and ends are rounded independently, so adjacent spans stay adjacent and nested spans stay
    nested.
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
    """Collects flow events; only flows with both ends in the excerpt are written."""

    def __init__(self, requested: ExcerptRange, lanes: Lanes, zero_us: int) -> None:
        self._range, self._zero_us = requested, zero_us
        numbers = range(len(lanes)) if requested.lanes is None else requested.lanes
        self._lanes = {lanes[number] for number in numbers if number < len(lanes)}
        self._by_flow: dict[tuple[bytes, ...], list[tuple[str, bytes]]] = defaultdict(list)

    def add(self, events: list[TraceEvent], raws: list[Raw]) -> None:
        begin, end = self._range.begin_us, self._range.end_us
        for event, raw in zip(events, raws, strict=True):
            if event.ph not in _FLOWS or event.ts is None:
                continue
            if not begin <= event.ts - self._zero_us <= end:
                continue
            if (event.pid, event.tid) in self._lanes:
                fields = _FIELDS.decode(raw)
                key = tuple(bytes(fields.get(name, _NONE)) for name in ("cat", "id", "scope"))
                self._by_flow[key].append((event.ph, _moved(bytes(raw), self._zero_us)))

    def whole(self) -> Iterator[bytes]:
        for parts in self._by_flow.values():
            kinds = {kind for kind, _ in parts}
            if "s" in kinds and len(kinds) > 1:
                yield from (text for _, text in parts)
