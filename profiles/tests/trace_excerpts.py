"""Excerpts of traces without storage and processes, and a plain reader to compare with."""

import io
import json
import tempfile
from pathlib import Path
from typing import Any

from profiles.formats.chrome_trace.excerpt_file import write_excerpt
from profiles.formats.chrome_trace.excerpt_selection import ExcerptRange, select_excerpt
from profiles.formats.chrome_trace.lanes import lanes_of
from profiles.formats.chrome_trace.reader import read_trace
from profiles.formats.chrome_trace.span_index import (
    START_BYTES,
    from_header,
    header_bytes,
    write_index,
)

#: (thread, name, begin in ns, end in ns)
Span = tuple[int, str, int, int]
LIMIT = 1 << 24


def index_of(path: Path) -> bytes:
    """Return the index of a trace's spans."""
    trace = read_trace(path)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "spans.bin"
        write_index(trace, lanes_of(trace), path.name, target)
        return target.read_bytes()


def excerpt_of(
    path: Path, requested: ExcerptRange, limit_bytes: int = LIMIT, data: bytes = b""
) -> list[dict[str, Any]]:
    """Return the events of an excerpt, as the server writes it; `data` may be an earlier index."""
    data = data or index_of(path)
    at = START_BYTES + header_bytes(data)
    index = from_header(data[START_BYTES:at])
    selection = select_excerpt(
        index, requested, lambda begin, size: data[at + begin :][:size], limit_bytes=limit_bytes
    )
    text = path.read_bytes()
    places = selection.pieces.tolist()
    pieces = index.pieces
    parts = [
        (int(pieces.first_row[number]), text[pieces.begin[number] : pieces.end[number]])
        for number in places
    ]
    file = io.BytesIO()
    write_excerpt(
        file,
        selection.rows,
        parts,
        requested=requested,
        lanes=index.lanes,
        naming=index.naming,
        zero_us=index.zero_us,
    )
    return json.loads(file.getvalue())["traceEvents"]


def spans_of_events(events: list[dict[str, Any]]) -> list[Span]:
    """Return the complete events as Perfetto reads them, with times truncated to whole ns."""
    return sorted(
        (event["tid"], event["name"], at := int(event["ts"] * 1000), at + int(event["dur"] * 1000))
        for event in events
        if event["ph"] == "X"
    )


def spans_of_text(text: bytes) -> list[Span]:
    """Return all spans of a trace, read from its text; begins and ends must pair."""
    spans: list[Span] = []
    stacks: dict[int, list[dict[str, Any]]] = {}
    document = json.loads(text)
    events = document if isinstance(document, list) else document["traceEvents"]
    for event in sorted(
        (event for event in events if "ts" in event), key=lambda event: event["ts"]
    ):
        stack = stacks.setdefault(event["tid"], [])
        if event["ph"] == "X":
            spans.append(_span(event, event["ts"] + event["dur"]))
        elif event["ph"] == "B":
            stack.append(event)
        elif event["ph"] == "E":
            spans.append(_span(stack.pop(), event["ts"]))
    return sorted(spans)


def spans_in_range(spans: list[Span], begin_us: float, end_us: float) -> list[Span]:
    return [span for span in spans if span[3] >= begin_us * 1000 and span[2] <= end_us * 1000]


def _span(event: dict[str, Any], end_us: float) -> Span:
    return event["tid"], event["name"], round(event["ts"] * 1000), round(end_us * 1000)
