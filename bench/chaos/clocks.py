"""Step the clock of one agent while it runs, through a file that libfaketime reads."""

import glob
from pathlib import Path

_PRELOAD = Path(__file__).resolve().parent / "preload"
_LIBRARY = "/usr/lib/*/faketime/libfaketimeMT.so.1"


class ClockError(Exception):
    """libfaketime is not installed. The message names the package."""


class Clock:
    """The wall clock of one agent's processes. Their monotonic clock is not changed."""

    def __init__(self, file: Path) -> None:
        """Raises ClockError."""
        libraries = glob.glob(_LIBRARY)
        if not libraries:
            text = f"{_LIBRARY} is missing: install libfaketime (Debian: apt install libfaketime)."
            raise ClockError(text)
        self._library, self._file = libraries[0], file
        self.step(0)

    def step(self, seconds: int) -> None:
        """Set the clock `seconds` ahead of the real time, at once."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{seconds:+d}\n", encoding="ascii")
        draft.replace(self._file)

    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": self._library,
            "PYTHONPATH": str(_PRELOAD),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DISABLE_SHM": "1",
        }
