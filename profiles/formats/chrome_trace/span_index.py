"""All spans and counters of a trace in blocks, so that those of a range are found without its file.

The index lies beside the derived data of a profile. It begins with MAGIC and the size of its
header, then come the header and the blocks, each compressed. A block has up to BLOCK_ROWS spans of
one lane and of similar length, by their begin: so those of a short range lie in few blocks.
"""

import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from profiles.formats.chrome_trace.lanes import Lane
from profiles.formats.chrome_trace.pieces import Pieces
from profiles.formats.chrome_trace.reader import COUNTER, Trace

MAGIC = b"mgwspan1"
#: MAGIC and the size of the header
START_BYTES = len(MAGIC) + 8
BLOCK_ROWS = 8_192
#: of a block before it was compressed
_BLOCK_BYTES = BLOCK_ROWS * 24
#: a larger index is not kept: about 50 million spans, more than fit into the reader's memory
INDEX_LIMIT_BYTES = 512 << 20
#: of the header, unpacked too: of 2 GiB it has 400 KB, of a thousand named threads some MB
_HEADER_LIMIT_BYTES = 32 << 20
_LONGEST_KEY = 200
#: the lane of counters, which belong to no thread's spans
COUNTERS = -1
#: each class of lengths is so many powers of two wide; the first ones are below a ns
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
#: of zlib's packer: 32 KB instead of its 256; blocks of MegEngine's spans become no larger
_WINDOW, _MEMORY = 12, 5
_COPIED_BYTES = 1 << 14
#: begin and end in us; the events that begin and end it, equal for one alone
_COLUMNS = ("<f8", "<f8", "<i4", "<i4")


class _Header(Struct, frozen=True):
    """file: which of the profile's files; the tables are arrays as bytes"""

    file: str
    size_bytes: int
    lanes: list[tuple[int | str, int | str]]
    naming: list[dict[str, Any]]
    begin: bytes
    end: bytes
    first_row: bytes
    blocks: bytes


@dataclass(frozen=True, eq=False)
class SpanIndex:
    """What the header tells. `blocks` is a table of BLOCKS, `at` counted from the header's end."""

    file: str
    size_bytes: int
    lanes: list[tuple[int | str, int | str]]
    naming: list[dict[str, Any]]
    pieces: Pieces
    blocks: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Rows:
    """n spans and counters: (n,) each; times in us, `first` and `last` rows of the trace."""

    lane: NDArray[np.int32]
    begin_us: NDArray[np.float64]
    end_us: NDArray[np.float64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.lane)


def write_index(trace: Trace, lanes: Sequence[Lane], file: str, target: Path) -> None:
    """Write the index of a trace that is called `file`; none where it would be too large."""
    table: list[tuple[int, int, float, float, int, int]] = []
    at = 0
    # the header comes first and is known last; blocks are not held in memory meanwhile
    with tempfile.TemporaryFile(dir=target.parent) as packed_blocks:
        for lane, rows in _by_lane(trace, lanes):
            for here in _blocks(rows):
                packed = _packed(rows, here)
                low, high = float(rows[0][here].min()), float(rows[1][here].max())
                table.append((lane, len(here), low, high, at, len(packed)))
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
    header = _Header(
        file=file,
        size_bytes=trace.size_bytes,
        lanes=[(_short(pid), _short(tid)) for pid, tid in trace.lanes],
        naming=list(trace.naming),
        begin=pieces.begin.tobytes(),
        end=pieces.end.tobytes(),
        first_row=pieces.first_row.tobytes(),
        blocks=blocks.tobytes(),
    )
    return _compressed([msgspec.msgpack.encode(header)], 6)


def _short(key: int | str) -> int | str:
    """Numbers of threads may be texts, of any length; arrows of such a thread are not found."""
    return str(key)[:_LONGEST_KEY] if isinstance(key, str) or abs(key) >= 2**63 else key


def header_bytes(start: bytes) -> int:
    """How long the header behind the first START_BYTES is. Raises ValueError if this is none."""
    if len(start) < START_BYTES or not start.startswith(MAGIC):
        raise ValueError("it is no index of spans")
    found = int.from_bytes(start[len(MAGIC) : START_BYTES], "little")
    if found > _HEADER_LIMIT_BYTES:
        raise ValueError("its header is too long")
    return found


def from_header(data: bytes) -> SpanIndex:
    """Return what the header says. `data` must be our own. Raises ValueError if it is damaged."""
    try:
        text = zlib.decompressobj().decompress(data, _HEADER_LIMIT_BYTES)
        found = msgspec.msgpack.decode(text, type=_Header)
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(str(error)) from error
    pieces = Pieces(
        *(np.frombuffer(each, np.int64) for each in (found.begin, found.end, found.first_row))
    )
    blocks = np.frombuffer(found.blocks, BLOCKS)
    return SpanIndex(found.file, found.size_bytes, found.lanes, found.naming, pieces, blocks)


def rows_of(block: Any, data: bytes) -> Rows:
    """Unpack a block, of which the table says `block`. Raises ValueError if it is damaged."""
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
    return Rows(np.full(count, block["lane"], np.int32), *columns)


_Columns = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


def _by_lane(trace: Trace, lanes: Sequence[Lane]) -> Iterator[tuple[int, _Columns]]:
    """The rows of each lane, by begin."""
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
    """Which rows each block has."""
    kind = _classes(rows[0], rows[1])
    for each in np.unique(kind).tolist():
        places = np.flatnonzero(kind == each).astype(np.int32)
        for start in range(0, len(places), BLOCK_ROWS):
            yield places[start : start + BLOCK_ROWS]


def _classes(begin: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(n,) how long each row is; piece by piece, since a trace's reader is short of memory."""
    found = np.empty(len(begin), np.uint8)
    for start in range(0, len(begin), _CLASSED_ROWS):
        here = slice(start, start + _CLASSED_ROWS)
        power = np.log2(np.maximum(end[here] - begin[here], 2.0**_LOWEST))
        found[here] = np.clip((power - _LOWEST) // _CLASS, 0, _CLASSES - 1)
    return found


def _packed(rows: _Columns, here: NDArray[np.int32]) -> bytes:
    """Bytes of equal weight stand together: they repeat, and the whole numbers do not."""
    columns = zip(rows, map(np.dtype, _COLUMNS), strict=True)
    shuffled = (
        column[here].astype(kind, copy=False).view(np.uint8).reshape(-1, kind.itemsize).T.tobytes()
        for column, kind in columns
    )
    return _compressed(shuffled, 1)


def _compressed(parts: Iterable[bytes], level: int) -> bytes:
    packer = zlib.compressobj(level, wbits=_WINDOW, memLevel=_MEMORY)
    packed = [packer.compress(part) for part in parts]
    return b"".join([*packed, packer.flush()])
