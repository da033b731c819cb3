"""Offsets of a trace's events in its file, so that parts of it can be read separately."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.formats.chrome_trace.events import Args, Piece, TraceEvent

#: metadata events that name and sort threads and processes, each with the key in its `args`
NAMING = {
    "process_name": "name",
    "process_labels": "labels",
    "process_sort_index": "sort_index",
    "thread_name": "name",
    "thread_sort_index": "sort_index",
}
NAMING_LIMIT = 5_000
_LONGEST_TEXT = 500


@dataclass(frozen=True, eq=False)
class Pieces:
    """The p pieces of a file, in the order of the file.

    begin, end: (p,) int64, byte range of the piece's text, without the enclosing brackets
    first_row: (p,) int64, row of the trace's columns with the first event of the piece
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    first_row: NDArray[np.int64]

    def of_rows(self, rows: NDArray[Any]) -> NDArray[np.intp]:
        """(r,) the piece that contains each row."""
        # of several pieces with the same first row, only the last has rows
        return np.searchsorted(self.first_row, rows, side="right") - 1


@dataclass
class PieceNotes:
    """Collects the offsets of pieces while a file is read."""

    _rows: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, piece: Piece, first_row: int) -> None:
        self._rows.append((piece.begin, piece.end, first_row))

    def done(self) -> Pieces:
        table = np.array(self._rows, np.int64).reshape(-1, 3)
        return Pieces(table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy())


def _is_plain(value: str | int) -> bool:
    """Whether a value is short enough to copy; an untrusted file may hold any length."""
    return len(value) <= _LONGEST_TEXT if isinstance(value, str) else abs(value) < 2**63


@dataclass
class NamingNotes:
    """Collects the metadata events that name threads and processes; the last of each kind wins."""

    _kept: dict[tuple[str, int | str, int | str], dict[str, Any]] = field(default_factory=dict)

    def add(self, event: TraceEvent) -> None:
        key_in_args = NAMING.get(event.name)
        value = getattr(event.args or Args(), key_in_args) if key_in_args else None
        key = (event.name, event.pid, event.tid)
        is_full = len(self._kept) >= NAMING_LIMIT and key not in self._kept
        if not isinstance(value, str | int) or is_full or not all(map(_is_plain, (*key, value))):
            return
        where = {"ph": "M", "name": event.name, "pid": event.pid, "tid": event.tid}
        self._kept[key] = where | {"args": {key_in_args: value}}

    def done(self) -> tuple[dict[str, Any], ...]:
        return tuple(self._kept.values())
