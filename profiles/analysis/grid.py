"""Tables drawn as `tabulate` draws `fancy_grid`, in a tenth of its time.

Most of that time goes into finding columns of numbers, and a profile's have words in them. Where
that is not certain, or a text has more than ASCII's letters, the table is left to tabulate.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

Line = tuple[str, ...]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: in no number, no `inf`, `nan`, `True` or `False`
_WORD = re.compile(r"[b-dghjkmo-qv-xzB-DGHJKMO-QV-XZ(){}\[\]#%<>:/]")


class Grid:
    """A table of which rows are seen twice: by `add`, to learn how wide it is, then by `draw`.

    Rows are lists of lines of c texts, so memory holds no more of them than their maker does.
    """

    def __init__(self, titles: Sequence[str]) -> None:
        self._titles = titles
        # tabulate keeps two characters more than a title needs
        self._widths = [len(title) + 2 for title in titles]
        self._has_text = [False] * len(titles)
        self._has_word = [False] * len(titles)
        self._is_odd = False
        #: of all rows
        self.lines = 0

    def add(self, rows: Iterable[Sequence[Line]]) -> None:
        """Look at some of the rows."""
        lines = [line for row in rows for line in row]
        self.lines += len(lines)
        for at, column in enumerate(zip(*lines, strict=True)):
            text = "".join(column)
            # other letters are twice as wide where the package wcwidth is installed
            self._is_odd |= not text.isascii() or _CONTROL.search(text) is not None
            self._has_text[at] |= bool(text)
            self._has_word[at] |= _WORD.search(text) is not None
            widest = max(len(cell.strip()) for cell in column)
            self._widths[at] = max(self._widths[at], widest)

    @property
    def is_plain(self) -> bool:
        """Whether it looks as `draw` draws it; else only tabulate can tell, as without rows."""
        # an empty column is one of text
        words = zip(self._has_text, self._has_word, strict=True)
        return not self._is_odd and any(self._has_text) and all(w or not t for t, w in words)

    def draw(self, rows: Iterable[Sequence[Line]]) -> Iterator[str]:
        """Yield the table in pieces, with rules between rows and none between the lines of one."""
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
