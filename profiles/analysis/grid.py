"""Draw tables like `tabulate` with the format `fancy_grid`, in a tenth of the time.

`tabulate` spends most of its time on detecting columns of numbers, while the columns of a profile
contain words. If a column may be numeric, or a text has characters outside ASCII, the table is left
to `tabulate`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

Line = tuple[str, ...]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: letters that occur in no number and not in `inf`, `nan`, `True` or `False`
_WORD = re.compile(r"[b-dghjkmo-qv-xzB-DGHJKMO-QV-XZ(){}\[\]#%<>:/]")


class Grid:
    """A table that processes its rows twice: `add` measures the column widths, then `draw` prints.

    A row is a list of lines of c texts each. Memory holds no more rows than the caller passes at
    once.
    """

    def __init__(self, titles: Sequence[str]) -> None:
        self._titles = titles
        # tabulate makes a column two characters wider than its title
        self._widths = [len(title) + 2 for title in titles]
        self._has_text = [False] * len(titles)
        self._has_word = [False] * len(titles)
        self._is_odd = False
        #: over all rows
        self.lines = 0

    def add(self, rows: Iterable[Sequence[Line]]) -> None:
        lines = [line for row in rows for line in row]
        self.lines += len(lines)
        for at, column in enumerate(zip(*lines, strict=True)):
            text = "".join(column)
            # non-ASCII characters are twice as wide if the package wcwidth is installed
            self._is_odd |= not text.isascii() or _CONTROL.search(text) is not None
            self._has_text[at] |= bool(text)
            self._has_word[at] |= _WORD.search(text) is not None
            widest = max(len(cell.strip()) for cell in column)
            self._widths[at] = max(self._widths[at], widest)

    @property
    def is_plain(self) -> bool:
        """Whether `draw` produces the same table as tabulate; False without rows."""
        # an empty column counts as text
        words = zip(self._has_text, self._has_word, strict=True)
        return not self._is_odd and any(self._has_text) and all(w or not t for t, w in words)

    def draw(self, rows: Iterable[Sequence[Line]]) -> Iterator[str]:
        """Yield the table in pieces, with rules between rows but not between the lines of a row."""
        draw = ("│" + "│".join(f" {{:<{width}}} " for width in self._widths) + "│\n").format
        yield _rule("╒═╤╕", self._widths) + "\n" + draw(*self._titles)
        rule, between = (_rule(marks, self._widths) + "\n" for marks in ("╞═╪╡", "├─┼┤"))
        for lines in rows:
            yield rule + "".join(draw(*map(str.strip, line)) for line in lines)
            rule = between
        yield _rule("╘═╧╛", self._widths)


def _rule(marks: str, widths: Sequence[int]) -> str:
    first, line, cross, last = tuple(marks)
    return first + cross.join(line * (width + 2) for width in widths) + last
