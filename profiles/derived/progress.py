"""How far the reader of a profile is: it notes that in a file of its folder, others look there."""

import time
from pathlib import Path

#: bytes that were read of all files together, as text
NOTE = "progress.txt"
_PAUSE_S = 0.2


class Progress:
    """The reader's side."""

    def __init__(self, folder: Path) -> None:
        self._note, self._before = folder / NOTE, 0
        self._next = 0.0

    def told(self, done: int, _of: int) -> None:
        """So many bytes of the file that is read now; what comes soon after the last is skipped."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PAUSE_S
            self._note.write_text(str(self._before + done))

    def file_done(self, path: Path) -> None:
        self._before += path.stat().st_size
        self._note.write_text(str(self._before))


def bytes_read(folder: Path) -> int:
    """What the reader of this folder noted last; 0 before it did."""
    try:
        return int((folder / NOTE).read_text())
    except (OSError, ValueError):  # none, or just being written
        return 0
