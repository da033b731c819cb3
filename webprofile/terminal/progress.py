"""How far a long run is: a bar on a terminal, plain lines elsewhere."""

import sys
from typing import Self, TextIO

from tqdm import tqdm

from webprofile.terminal.output import plain, plain_lines


class Progress:
    """A bar on `stream` if that is a terminal; then lines stand above it."""

    def __init__(
        self, total: int | None, what: str, *, unit: str = "", stream: TextIO | None = None
    ) -> None:
        self._stream = stream or sys.stderr
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

    def note(self, text: str) -> None:
        """What stands behind the bar; nothing where there is none."""
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
