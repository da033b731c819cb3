"""What MegEngine writes into `memory_flow.svg` as text: sizes, times and layouts.

Source: imperative/src/impl/profiler/memory_chunk.cpp of MegEngine (size2str, time2str), and files
that 1.13.0 wrote. The largest unit comes first, units that are 0 are left out, and so 0 is empty.
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
    """`3KB 768B ` is 3840; None for anything else than a size."""
    return _sum(_SIZE.fullmatch(text), _BYTES)


def ns_of(text: str) -> int | None:
    """`8ms 327us 403ns ` is 8327403; None for anything else than a time."""
    return _sum(_TIME.fullmatch(text), _NS)


def layout_of(text: str) -> tuple[tuple[int, ...] | None, str]:
    """`{10(96),96(1) Float32}` is ((10, 96), "Float32"); (None, "") for another form."""
    found = _LAYOUT.fullmatch(text)
    if found is None:
        return None, ""
    return tuple(int(size) for size, _ in _AXIS.findall(found[1])), found[2]


def bytes_below(layout: str, size_bytes: int) -> int:
    """How many of a tensor's bytes lie below its first element, because axes run backwards.

    `{5(-2),2(1) Float32}` has 8 of its 10 elements there. `size_bytes` is from the lowest element
    to the end of the highest, so it tells how large one is. 0 for another form.
    """
    found = _LAYOUT.fullmatch(layout)
    if found is None:
        return 0
    steps = [(int(size) - 1) * int(stride) for size, stride in _AXIS.findall(found[1])]
    return -sum(min(step, 0) for step in steps) * size_bytes // (1 + sum(map(abs, steps)))


def _sum(found: re.Match[str] | None, units: tuple[int, ...]) -> int | None:
    if found is None:
        return None
    return sum(int(n) * unit for n, unit in zip(found.groups("0"), units, strict=True))
