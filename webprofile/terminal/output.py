"""Output of command line programs: tables, JSON, numbers with units, and whole files."""

import json
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from unicodedata import category

from tabulate import tabulate

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def say(text: str) -> None:
    """Print a line and flush it."""
    print(text, flush=True)


def complain(text: str) -> None:
    """Print an error to stderr."""
    print(text, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, ensure_ascii=False, indent=1)
    print()


def print_table(rows: Iterable[Sequence[Any]], headers: Sequence[str], *, right: int = 0) -> None:
    print(table(rows, headers, right=right))


def table(
    rows: Iterable[Sequence[Any]], headers: Sequence[str], *, right: int = 0, widest: int = 0
) -> str:
    """Format a table; control characters in its texts are replaced (`plain`).

    right: number of right-aligned columns at the end
    widest: width in characters above which cells are wrapped, 0 for none
    """
    clean = [[plain(cell) for cell in row] for row in rows]
    align = ["left"] * (len(headers) - right) + ["right"] * right
    # tabulate rejects both options for a table without rows
    options: dict[str, Any] = {"colalign": align} if clean else {}
    if clean and widest:
        options["maxcolwidths"] = widest
    return str(tabulate(clean, headers, disable_numparse=True, **options))


def plain(value: Any) -> str:
    """Replace control characters, since names from untrusted files could control the terminal."""
    text = "" if value is None else str(value)
    # str.isprintable is False for all spaces except the ASCII one
    return "".join(c if c.isprintable() or category(c) == "Zs" else "\ufffd" for c in text)


def plain_lines(text: str) -> str:
    """Apply `plain` to each line of a text."""
    return "\n".join(plain(line) for line in text.split("\n"))


def duration(seconds: float | None) -> str:
    """Format a duration with four significant digits and a unit; empty for None."""
    if seconds is None:
        return ""
    for unit_s, name in _TIMES:
        if abs(seconds) >= unit_s:
            return f"{seconds / unit_s:.4g} {name}"
    return f"{seconds / 1e-9:.4g} ns" if seconds else "0 s"


def size(size_bytes: int | None) -> str:
    """Format a number of bytes with three significant digits and a unit: `149 MiB`."""
    if size_bytes is None:
        return "not recorded"
    value, step = float(size_bytes), 0
    while value >= 1024 and step < len(_SIZES) - 1:
        value, step = value / 1024, step + 1
    digits = max(0, 3 - len(str(int(value)))) if step else 0
    return f"{value:.{digits}f} {_SIZES[step]}"


def percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio * 100:.1f} %"


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a stream of a temporary file, which replaces `path` if the block succeeds.

    After an exception an existing file is unchanged and the temporary file is deleted. Raises
    OSError.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        # writes to special files such as /dev/null directly; a folder is an error
        with path.open("wb") as stream:
            yield stream
        return
    part = path.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as stream:
            yield stream
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
