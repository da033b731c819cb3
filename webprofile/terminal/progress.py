"""Progress of a long operation: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from typing import Self, TextIO

from tqdm import tqdm

from webprofile.terminal.output import plain, plain_lines

#: shortest remaining time that is printed
LEAST_LEFT_S = 5.0
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


class Progress:
    """Show a progress bar on `stream` if it is a terminal, with lines printed above it."""

    def __init__(
        self, total: int | None, what: str, *, unit: str = "", stream: TextIO | None = None
    ) -> None:
        self._stream = stream or sys.stderr
        self._total, self._done = total or 0, 0
        self._begun_at = time.monotonic()
        self._bar = tqdm(
            total=total,
            desc=what,
            unit="B" if unit == "bytes" else " " + unit if unit else "",
            unit_scale=unit == "bytes",
            unit_divisor=1024,
            file=self._stream,
            disable=not self._stream.isatty(),
            leave=False,
            dynamic_ncols=True,
        )

    def advance(self, amount: int = 1) -> None:
        self._bar.update(amount)

    def step(self, text: str) -> None:
        """Advance by one and print a line with the number and the estimated remaining time."""
        self._done += 1
        parts = [f"{self._done}/{self._total} {text}".rstrip()]
        # from the mean time of the finished steps
        passed_s = time.monotonic() - self._begun_at
        left_s = passed_s / self._done * max(0, self._total - self._done)
        if left_s >= LEAST_LEFT_S:
            parts.append(f"about {rounded(left_s)} left")
        self.line(", ".join(parts))
        self.advance()

    def note(self, text: str) -> None:
        """Set the text after the bar, if there is a bar."""
        self._bar.set_postfix_str(plain(text))

    def line(self, text: str) -> None:
        text = plain_lines(text)
        if self._bar.disable:
            print(text, file=self._stream, flush=True)
        else:
            self._bar.write(text, file=self._stream)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()


def rounded(seconds: float) -> str:
    """Format a duration in one unit: `40 s`, `3 min`, `2.5 h`."""
    for unit_s, name in _UNITS:
        if seconds >= unit_s:
            digits = 1 if seconds < 10 * unit_s and name != "min" else 0
            return f"{seconds / unit_s:.{digits}f} {name}"
    return f"{seconds:.0f} s"
