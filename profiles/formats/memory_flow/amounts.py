"""Parse the sizes, times and layouts that MegEngine writes into `memory_flow.svg` as text.

Source: imperative/src/impl/profiler/memory_chunk.cpp of MegEngine (size2str, time2str), and files
written by 1.13.0. The largest unit comes first and units that are 0 are omitted, so that 0 is an
empty text.
"""

import re

_SIZE = re.compile(r"(?:(\d{1,9})GB ?)?(?:(\d{1,4})MB ?)?(?:(\d{1,4})KB ?)?(?:(\d{1,4})B ?)?")
_TIME = re.compile(r"(?:(\d{1,9})s ?)?(?:(\d{1,3})ms ?)?(?:(\d{1,3})us ?)?(?:(\d{1,3})ns ?)?")
_BYTES = (1 << 30, 1 << 20, 1 << 10, 1)
_NS = (1_000_000_000, 1_000_000, 1_000, 1)
#: size and stride of each axis, then the type
_LAYOUT = re.compile(r"\{((?:\d{1,18}\(-?\d{1,18}\),?){1,16}) (.+)\}", re.DOTALL)
_AXIS = re.compile(r"(\d+)\((-?\d+)\)")


def bytes_of(text: str) -> int | None:
    """Parse a size: `3KB 768B ` is 3840; None if the text is not a size."""
    return _sum(_SIZE.fullmatch(text), _BYTES)


def ns_of(text: str) -> int | None:
    """Parse a time: `8ms 327us 403ns ` is 8327403; None if the text is not a time."""
    return _sum(_TIME.fullmatch(text), _NS)


def layout_of(text: str) -> tuple[tuple[int, ...] | None, str]:
    """Parse a layout: `{10(96),96(1) Float32}` is ((10, 96), "Float32"); else (None, "")."""
    match = _LAYOUT.fullmatch(text)
    if match is None:
        return None, ""
    return tuple(int(size) for size, _ in _AXIS.findall(match[1])), match[2]


def bytes_below(layout: str, size_bytes: int) -> int:
    """The number of bytes of a tensor below its first element, because of negative strides.

    `{5(-2),2(1) Float32}` has 8 of its 10 elements there. `size_bytes` spans the lowest to the
    highest element, which gives the size of an element. 0 if the layout cannot be parsed.
    """
    match = _LAYOUT.fullmatch(layout)
    if match is None:
        return 0
    steps = [(int(size) - 1) * int(stride) for size, stride in _AXIS.findall(match[1])]
    return -sum(min(step, 0) for step in steps) * size_bytes // (1 + sum(map(abs, steps)))


def _sum(match: re.Match[str] | None, units: tuple[int, ...]) -> int | None:
    if match is None:
        return None
    return sum(int(n) * unit for n, unit in zip(match.groups("0"), units, strict=True))
