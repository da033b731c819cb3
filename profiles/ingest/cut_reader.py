"""Make a cut of a hostile trace in a process of its own (see `profiles.ingest.limited_process`).

`main` finds the order, the rows that are wanted and the text of the pieces in its folder, and
leaves the cut, compressed. `profiles.ingest.cuts` asks for it.
"""

import gc
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from profiles.formats.chrome_trace.choosing import Range
from profiles.formats.chrome_trace.cutting import PieceText, write_cut
from profiles.formats.chrome_trace.span_index import Rows
from profiles.ingest import limited_process

ORDER, ROWS, TEXT, CUT = "cut_order.bin", "cut_rows.npy", "cut_text.bin", "cut.json.gz"
#: what it could not do with the file, in English
PROBLEM = "cut_problem.txt"
_LEVEL = 1
ROW = np.dtype(
    [("lane", "<i4"), ("begin", "<f8"), ("end", "<f8"), ("first", "<i4"), ("last", "<i4")]
)


class CutOrder(msgspec.Struct, frozen=True):
    """pieces: of the text (row of the trace that comes first, bytes), one behind the other"""

    pieces: list[tuple[int, int]]
    asked: Range
    lanes: list[tuple[int | str, int | str]]
    naming: list[dict[str, Any]]
    memory_bytes: int
    time_s: int


def main(folder: Path) -> int:
    """Do what the order in `folder` says; returns the exit code."""
    order = msgspec.msgpack.decode((folder / ORDER).read_bytes(), type=CutOrder)
    # somebody looks at the page and waits
    limited_process.limit(order.memory_bytes, order.time_s, niceness=0)
    gc.disable()
    try:
        with gzip.open(folder / CUT, "wb", _LEVEL) as file:
            write_cut(
                file,
                _rows(folder),
                _pieces(folder, order),
                asked=order.asked,
                lanes=order.lanes,
                naming=order.naming,
            )
    except MemoryError:
        return limited_process.OUT_OF_MEMORY
    except (ValueError, RecursionError) as error:  # what msgspec raises is a ValueError too
        (folder / PROBLEM).write_text(str(error)[:500])
    return 0


def _rows(folder: Path) -> Rows:
    found = np.load(folder / ROWS, allow_pickle=False)
    return Rows(*(np.ascontiguousarray(found[name]) for name in ROW.names or ()))


def _pieces(folder: Path, order: CutOrder) -> Iterator[PieceText]:
    with (folder / TEXT).open("rb") as file:
        for first_row, size_bytes in order.pieces:
            yield first_row, file.read(size_bytes)
