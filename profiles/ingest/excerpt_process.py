"""Write an excerpt of an untrusted trace in a limited process (`profiles.ingest.limited_process`).

`main` reads the job, the selected rows and the text of the pieces from its folder, and writes the
excerpt there, compressed by gzip. `profiles.ingest.trace_excerpts` starts it.
"""

import gc
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from profiles.formats.chrome_trace.excerpt_file import PieceText, write_excerpt
from profiles.formats.chrome_trace.excerpt_selection import ExcerptRange
from profiles.formats.chrome_trace.span_index import SpanRows
from profiles.ingest import limited_process

ORDER, ROWS, TEXT, CUT = "cut_order.bin", "cut_rows.npz", "cut_text.bin", "cut.json.gz"
#: file with the error in English, if the trace is unreadable
PROBLEM = "cut_problem.txt"
_LEVEL = 1


class ExcerptJob(msgspec.Struct, frozen=True):
    """The job of a trace excerpt.

    pieces: (first row of the trace, size in bytes) of each consecutive piece of the text
    zero_us: as in `Trace`
    """

    pieces: list[tuple[int, int]]
    requested: ExcerptRange
    lanes: list[tuple[int | str, int | str]]
    naming: list[dict[str, Any]]
    zero_us: int
    memory_bytes: int
    time_s: int


def main(folder: Path) -> int:
    """Run the job in `folder` and return the exit code."""
    job = msgspec.msgpack.decode((folder / ORDER).read_bytes(), type=ExcerptJob)
    # no niceness: a user waits for the response
    limited_process.limit(job.memory_bytes, job.time_s, niceness=0)
    gc.disable()
    try:
        with np.load(folder / ROWS, allow_pickle=False) as arrays:
            rows = SpanRows(**arrays)
        with gzip.open(folder / CUT, "wb", _LEVEL) as file:
            write_excerpt(
                file,
                rows,
                _pieces(folder, job),
                requested=job.requested,
                lanes=job.lanes,
                naming=job.naming,
                zero_us=job.zero_us,
            )
    except MemoryError:
        return limited_process.OUT_OF_MEMORY
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        (folder / PROBLEM).write_text(str(error)[:500])
    return 0


def _pieces(folder: Path, job: ExcerptJob) -> Iterator[PieceText]:
    with (folder / TEXT).open("rb") as file:
        for first_row, size_bytes in job.pieces:
            yield first_row, file.read(size_bytes)
