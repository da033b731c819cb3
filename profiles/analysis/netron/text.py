"""Texts for Netron, which does not format or escape them: numbers with units, sanitized names."""

import math
import re

import msgspec

from profiles.analysis.durations import ABSENT
from profiles.analysis.numbers import four_digits

#: longest name; a hostile file may have names of megabytes
LONGEST_TEXT = 200
#: control characters, and invisible characters that change text direction or join letters
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def plain(text: str) -> str:
    r"""Return a text of the file as one line of visible characters: a newline becomes `\u000a`."""
    if len(text) > LONGEST_TEXT:
        text = text[: LONGEST_TEXT - 1] + "…"
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def amount(size_bytes: float) -> str:
    """Format a size: `1.50 MiB`."""
    return _scale(size_bytes, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def operations(count: float) -> str:
    """Format a number of operations: `7.23 MFLOP`."""
    return _scale(count, 1000, ("FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP"))


def rate(per_second: float) -> str:
    """Format operations per second: `7.23 GFLOP/s`."""
    text = operations(per_second)
    return text if text == ABSENT else f"{text}/s"


def dimensions(shape: str | None) -> list[int] | None:
    """Return the axes of a shape in the format of `Variables.shapes`."""
    axes = None if shape is None else msgspec.json.decode(shape)
    return axes if isinstance(axes, list) else None


def parameters(text: str | None) -> list[tuple[str, str]]:
    """Return the names and values of an operator's parameters, given as in `Operators.params`."""
    params = None if text is None else msgspec.json.decode(text)
    if not isinstance(params, dict):
        return []
    return [(plain(name), plain(_value(value))) for name, value in params.items()]


def _value(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _scale(value: float, base: int, units: tuple[str, ...]) -> str:
    if not math.isfinite(value):
        return ABSENT
    step = 0
    while abs(value) >= base and step < len(units) - 1:
        value /= base
        step += 1
    return f"{four_digits(value) if step else f'{value:.0f}'} {units[step]}"
