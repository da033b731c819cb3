"""Format numbers with units, and names from files, for pages.

Numbers must agree with `static/js/format.js`. Names are shown on one line, with invisible
characters made visible, and without affecting the text direction around them. An element that
isolates (`<bdi>`) is not sufficient: an unmatched mark in a name ends the isolation.
"""

from collections.abc import Iterable

from django.utils.translation import gettext, pgettext

from profiles.analysis.durations import ABSENT, TimeUnit, duration, finite
from profiles.analysis.numbers import amount, three_digits

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
#: control characters become their visible symbols, direction marks become U+FFFD
_VISIBLE = str.maketrans(
    {chr(code): chr(0x2400 + code) for code in range(32)}
    | dict.fromkeys("\n\x85\u2028\u2029", "↵")
    | dict.fromkeys("\x7f\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e", "\ufffd")
    | dict.fromkeys("\u2066\u2067\u2068\u2069", "\ufffd")
)
#: maximum length of a name where space is fixed, in characters
LONGEST = 200


def milliseconds(value: float | None, unit: TimeUnit | None = None) -> str:
    """Format a time in ms as `duration` does."""
    number = finite(value)
    return duration(None if number is None else number / 1000, unit)


def microseconds(value: float | None, unit: TimeUnit | None = None) -> str:
    """Format a time in µs as `duration` does."""
    number = finite(value)
    return duration(None if number is None else number / 1e6, unit)


def listed(texts: Iterable[str]) -> str:
    """Join texts: `A, B`."""
    return pgettext("between items", ", ").join(texts)


def bytesize(value: float | None) -> str:
    """Format a size in binary units: `1.5 MiB`, `200 B`."""
    number = finite(value)
    if number is None:
        return ABSENT
    step = 0
    while number >= 1024 and step < len(_SIZES) - 1:
        number /= 1024
        step += 1
    return f"{number:.{1 if step else 0}f} {_SIZES[step]}"


def recorded_size(value: float | None) -> str:
    """Format a measured size with three significant digits: `149 MiB`, `not recorded`."""
    number = finite(value)
    return gettext("not recorded") if number is None else amount(number)


def giga(value: float | None) -> str:
    """Format a rate in units of 10^9 with three significant digits: `110`."""
    number = finite(value) if isinstance(value, int | float) else None
    return ABSENT if number is None else three_digits(number / 1e9)


def visible(text: str) -> str:
    """Return a text on one line, with symbols for invisible characters: `↵` for a new line."""
    return text.translate(_VISIBLE)


def shortened(text: str) -> str:
    """Return the visible text with at most LONGEST characters, for places of fixed size."""
    return visible(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def isolated(name: str) -> str:
    """Return the visible text in isolating marks, for places where no element isolates it."""
    return f"\u2068{shortened(name)}\u2069"
