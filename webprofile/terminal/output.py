"""What goes to standard output: tables for people, JSON for programs; and numbers with units."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any
from unicodedata import category

from tabulate import tabulate

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, ensure_ascii=False, indent=1)
    print()


def print_table(rows: Iterable[Sequence[Any]], headers: Sequence[str], *, right: int = 0) -> None:
    print(table(rows, headers, right=right))


def table(
    rows: Iterable[Sequence[Any]], headers: Sequence[str], *, right: int = 0, widest: int = 0
) -> str:
    """The last `right` columns stand to the right; texts lose what would move the cursor.

    widest: in characters; what is longer goes on in a further line. 0: nothing is
    """
    clean = [[plain(cell) for cell in row] for row in rows]
    align = ["left"] * (len(headers) - right) + ["right"] * right
    # of columns without rows either is an error
    given: dict[str, Any] = {"colalign": align} if clean else {}
    if clean and widest:
        given["maxcolwidths"] = widest
    return str(tabulate(clean, headers, disable_numparse=True, **given))


def plain(value: Any) -> str:
    """Names come from strangers' files: control characters would be orders to the terminal."""
    text = "" if value is None else str(value)
    # Python calls every space but one unprintable
    return "".join(c if c.isprintable() or category(c) == "Zs" else "\ufffd" for c in text)


def plain_lines(text: str) -> str:
    """As `plain`, of a text that may have several lines."""
    return "\n".join(plain(line) for line in text.split("\n"))


def duration(seconds: float | None) -> str:
    """Three or more digits and a unit; empty if it is not known."""
    if seconds is None:
        return ""
    for unit_s, name in _TIMES:
        if abs(seconds) >= unit_s:
            return f"{seconds / unit_s:.4g} {name}"
    return f"{seconds / 1e-9:.4g} ns" if seconds else "0 s"


def percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio * 100:.1f} %"
