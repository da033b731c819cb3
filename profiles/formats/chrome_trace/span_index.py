"""Span index: all spans and counters of a trace in blocks, to look up a time range quickly.

The index is stored next to the derived data of a profile. Format: MAGIC, the size of the header,
the header, the blocks; header and blocks are compressed. A block holds up to BLOCK_ROWS spans of
one lane and of similar length, sorted by begin, so that a short range touches few blocks.
"""

import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from profiles.formats.chrome_trace.lanes import Lane
from profiles.formats.chrome_trace.reader import COUNTER, Pieces, Trace

MAGIC = b"mgwspan1"
#: size of MAGIC and the header's size
START_BYTES = len(MAGIC) + 8
BLOCK_ROWS = 8_192
#: size of an uncompressed block
_BLOCK_BYTES = BLOCK_ROWS * 24
#: no index is written beyond this size: about 50 million spans, more than the reader's memory holds
INDEX_LIMIT_BYTES = 512 << 20
#: limit of the header, compressed and uncompressed: 400 KB for a trace of 2 GiB, a few MB with a
#: thousand named threads
_HEADER_LIMIT_BYTES = 32 << 20
_LONGEST_KEY = 200
#: lane number of counters, which belong to no thread
COUNTERS = -1
#: classes of span lengths: width of a class and lower bound, as powers of two (of us; the first
#: class is below 1 ns), number of classes
_CLASS, _LOWEST, _CLASSES = 5, -10, 12
_CLASSED_ROWS = 1_000

BLOCKS = np.dtype(
    [
        ("lane", "<i4"),
        ("rows", "<u4"),
        ("low", "<f8"),
        ("high", "<f8"),
        ("at", "<u8"),
        ("size", "<u4"),
    ]
)
#: zlib settings that need 32 KB instead of 256 KB; blocks of MegEngine's spans compress as well
_WINDOW, _MEMORY = 12, 5
_COPIED_BYTES = 1 << 14
#: begin and end in us; rows of the begin and end events, equal for a single event
_COLUMNS = ("<f8", "<f8", "<i4", "<i4")


class SpanIndex(Struct, frozen=True, dict=True):
    """The header of the index.

    file: name of the trace among the profile's files
    piece_columns, block_table: `pieces` and `blocks` as bytes
    zero_us: as in `Trace`
    """

    file: str
    size_bytes: int
    lanes: list[tuple[int | str, int | str]]
    naming: list[dict[str, Any]]
    piece_columns: tuple[bytes, bytes, bytes]
    block_table: bytes
    zero_us: int

    @cached_property
    def pieces(self) -> Pieces:
        """The pieces of the trace. Raises ValueError."""
        return Pieces(*(np.frombuffer(column, np.int64) for column in self.piece_columns))

    @cached_property
    def blocks(self) -> NDArray[Any]:
        """The blocks, of the dtype BLOCKS; `at` counts from the header's end. Raises ValueError."""
        return np.frombuffer(self.block_table, BLOCKS)


@dataclass(frozen=True, eq=False)
class SpanRows:
    """n spans and counters: (n,) each; times in us, `first` and `last` rows of the trace."""

    lane: NDArray[np.int32]
    begin_us: NDArray[np.float64]
    end_us: NDArray[np.float64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.lane)


def write_index(trace: Trace, lanes: Sequence[Lane], file: str, target: Path) -> None:
    """Write the index of the trace `file` to `target`; nothing is written if it is too large."""
    table: list[tuple[int, int, float, float, int, int]] = []
    at = 0
    # the header precedes the blocks but is complete only after them: keep them in a file meanwhile
    with tempfile.TemporaryFile(dir=target.parent) as packed_blocks:
        for lane, rows in _by_lane(trace, lanes):
            for block in _blocks(rows):
                packed = _pack(rows, block)
                low, high = float(rows[0][block].min()), float(rows[1][block].max())
                table.append((lane, len(block), low, high, at, len(packed)))
                at += packed_blocks.write(packed)
                if at > INDEX_LIMIT_BYTES:
                    return
        header = _packed_header(trace, file, np.array(table, BLOCKS))
        packed_blocks.seek(0)
        with target.open("wb") as index:
            index.write(MAGIC + len(header).to_bytes(8, "little") + header)
            shutil.copyfileobj(packed_blocks, index, _COPIED_BYTES)


def _packed_header(trace: Trace, file: str, blocks: NDArray[Any]) -> bytes:
    pieces = trace.pieces
    header = SpanIndex(
        file=file,
        size_bytes=trace.size_bytes,
        lanes=[(_short(pid), _short(tid)) for pid, tid in trace.lanes],
        naming=list(trace.naming),
        piece_columns=(pieces.begin.tobytes(), pieces.end.tobytes(), pieces.first_row.tobytes()),
        block_table=blocks.tobytes(),
        zero_us=trace.zero_us,
    )
    return _compress([msgspec.msgpack.encode(header)], 6)


def _short(key: int | str) -> int | str:
    """Shorten a process or thread id, which may be a text of any length.

    Flow events of a thread with a shortened id are not found.
    """
    return str(key)[:_LONGEST_KEY] if isinstance(key, str) or abs(key) >= 2**63 else key


def header_bytes(start: bytes) -> int:
    """Size of the header after the first START_BYTES. Raises ValueError if this is no index."""
    if len(start) < START_BYTES or not start.startswith(MAGIC):
        raise ValueError("it is no index of spans")
    size = int.from_bytes(start[len(MAGIC) : START_BYTES], "little")
    if size > _HEADER_LIMIT_BYTES:
        raise ValueError("its header is too long")
    return size


def from_header(data: bytes) -> SpanIndex:
    """Decode the header of an index, which must come from `write_index`. Raises ValueError."""
    try:
        text = zlib.decompressobj().decompress(data, _HEADER_LIMIT_BYTES)
        return msgspec.msgpack.decode(text, type=SpanIndex)
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(str(error)) from error


def decode_spans(block: Any, data: bytes) -> SpanRows:
    """Decode a block; `block` is its row of the table. Raises ValueError if it is damaged."""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, _BLOCK_BYTES + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    count, columns, at = int(block["rows"]), [], 0
    if len(text) != count * 24:
        raise ValueError("a block has another size than its header says")
    for kind in map(np.dtype, _COLUMNS):
        end = at + count * kind.itemsize
        shuffled = np.frombuffer(text[at:end], np.uint8).reshape(kind.itemsize, count)
        columns.append(np.ascontiguousarray(shuffled.T).view(kind).ravel())
        at = end
    return SpanRows(np.full(count, block["lane"], np.int32), *columns)


_Columns = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


def _by_lane(trace: Trace, lanes: Sequence[Lane]) -> Iterator[tuple[int, _Columns]]:
    """The rows of each lane, sorted by begin."""
    for lane in lanes:
        spans = lane.spans
        if len(spans):
            yield lane.number, (spans.begin_us, spans.end_us, spans.first, spans.last)
    counts = np.flatnonzero(trace.phase == COUNTER).astype(np.int32)
    if len(counts):
        at = trace.ts_us[counts]
        if (at[1:] < at[:-1]).any():
            counts = counts[np.argsort(at, kind="stable")]
            at = trace.ts_us[counts]
        yield COUNTERS, (at, at, counts, counts)


def _blocks(rows: _Columns) -> Iterator[NDArray[np.int32]]:
    """The row numbers of each block."""
    kind = _classes(rows[0], rows[1])
    for length_class in np.unique(kind).tolist():
        numbers = np.flatnonzero(kind == length_class).astype(np.int32)
        for start in range(0, len(numbers), BLOCK_ROWS):
            yield numbers[start : start + BLOCK_ROWS]


def _classes(begin: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(n,) the length class of each row; computed in slices to save memory."""
    classes = np.empty(len(begin), np.uint8)
    for start in range(0, len(begin), _CLASSED_ROWS):
        part = slice(start, start + _CLASSED_ROWS)
        power = np.log2(np.maximum(end[part] - begin[part], 2.0**_LOWEST))
        classes[part] = np.clip((power - _LOWEST) // _CLASS, 0, _CLASSES - 1)
    return classes


def _pack(rows: _Columns, block: NDArray[np.int32]) -> bytes:
    """Compress a block after a byte shuffle: bytes of equal significance repeat, numbers do not."""
    columns = zip(rows, map(np.dtype, _COLUMNS), strict=True)
    shuffled = (
        column[block].astype(kind, copy=False).view(np.uint8).reshape(-1, kind.itemsize).T.tobytes()
        for column, kind in columns
    )
    return _compress(shuffled, 1)


def _compress(parts: Iterable[bytes], level: int) -> bytes:
    packer = zlib.compressobj(level, wbits=_WINDOW, memLevel=_MEMORY)
    packed = [packer.compress(part) for part in parts]
    return b"".join([*packed, packer.flush()])
