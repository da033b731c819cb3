"""Tables drawn as `tabulate` draws `fancy_grid`, in a tenth of its time.

Most of that time goes into finding columns of numbers, and a profile's have words in them. Where
that is not certain, or a text has more than ASCII's letters, the table is left to tabulate.
"""

import re
from collections.abc import Sequence

Line = tuple[str, ...]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: in no number, no `inf`, `nan`, `True` or `False`
_WORD = re.compile(r"[b-dghjkmo-qv-xzB-DGHJKMO-QV-XZ(){}\[\]#%<>:/]")


def fancy_grid(titles: Sequence[str], rows: Sequence[Sequence[Line]]) -> str | None:
    """Return the table, with rules between rows and none between the lines of one.

    titles: of c columns; rows: each of lines of c texts
    None if only tabulate can tell how it looks, or there are no rows.
    """
    if not rows:
        return None
    columns = list(zip(*(line for lines in rows for line in lines), strict=True))
    if not all(map(_is_plain, columns)):
        return None
    widths = [
        # tabulate keeps two characters more than a title needs
        max(len(title) + 2, max(len(text.strip()) for text in column))
        for title, column in zip(titles, columns, strict=True)
    ]
    del columns
    draw = ("│" + "│".join(f" {{:<{width}}} " for width in widths) + "│").format
    drawn = [_rule("╒═╤╕", widths), draw(*titles)]
    rule, between = _rule("╞═╪╡", widths), _rule("├─┼┤", widths)
    for lines in rows:
        drawn.append(rule)
        drawn += [draw(*map(str.strip, line)) for line in lines]
        rule = between
    drawn.append(_rule("╘═╧╛", widths))
    return "\n".join(drawn)


def _is_plain(column: Sequence[str]) -> bool:
    text = "".join(column)
    # other letters are twice as wide where the package wcwidth is installed
    if not text.isascii() or _CONTROL.search(text):
        return False
    # an empty column is one of text
    return not text or _WORD.search(text) is not None


def _rule(marks: str, widths: Sequence[int]) -> str:
    first, line, cross, last = tuple(marks)
    return first + cross.join(line * (width + 2) for width in widths) + last
