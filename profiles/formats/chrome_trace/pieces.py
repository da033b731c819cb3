"""Where in the file of a trace its events stand, so that some can be read without the others."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.formats.chrome_trace.events import Args, Event, Piece

#: events that name and order threads and processes, and what of `args` they tell
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
    """The p pieces of a file, in its order.

    begin, end: (p,) int64, bytes: their text, without brackets around it
    first_row: (p,) int64, of the trace's columns: the first one of the piece
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    first_row: NDArray[np.int64]

    def of_rows(self, rows: NDArray[Any]) -> NDArray[np.intp]:
        """(r,) the piece that each row stands in."""
        # of pieces that begin with the same row all but the last are empty
        return np.searchsorted(self.first_row, rows, side="right") - 1


@dataclass
class PieceNotes:
    """The places of pieces while a file is read."""

    _rows: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, piece: Piece, first_row: int) -> None:
        self._rows.append((piece.begin, piece.end, first_row))

    def done(self) -> Pieces:
        table = np.array(self._rows, np.int64).reshape(-1, 3)
        return Pieces(table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy())


def _is_plain(value: str | int) -> bool:
    """Whether it may be written again: texts and numbers may be of any length."""
    return len(value) <= _LONGEST_TEXT if isinstance(value, str) else abs(value) < 2**63


@dataclass
class NamingNotes:
    """What names threads and processes; of each name the last one."""

    _kept: dict[tuple[str, int | str, int | str], dict[str, Any]] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        told = NAMING.get(event.name)
        value = getattr(event.args or Args(), told) if told else None
        key = (event.name, event.pid, event.tid)
        is_full = len(self._kept) >= NAMING_LIMIT and key not in self._kept
        if not isinstance(value, str | int) or is_full or not all(map(_is_plain, (*key, value))):
            return
        where = {"ph": "M", "name": event.name, "pid": event.pid, "tid": event.tid}
        self._kept[key] = where | {"args": {told: value}}

    def done(self) -> tuple[dict[str, Any], ...]:
        return tuple(self._kept.values())
