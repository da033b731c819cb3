"""Binary PPM and PGM pictures as uint8 {1,h,w,c}, as load_and_run means to read them.

Format: https://netpbm.sourceforge.net/doc/ppm.html. After the magic number come width, height and
the largest value, apart by white space and comments; exactly one white space precedes the pixels.
load_and_run itself takes one line for the whole header, and so most files' first pixels wrong.
"""

import re
from pathlib import Path

import numpy as np

from agent.inputs.dtypes import Array
from agent.inputs.npy import open_regular
from agent.inputs.problems import InputError

_LONGEST_HEADER = 1 << 16
_CHANNELS = {b"P5": 1, b"P6": 3}
_GAP = rb"(?:[ \t\n\v\f\r]|#[^\n\r]*[\n\r])+"
_HEADER = re.compile(
    rb"P[56]" + _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,9})"
    rb"(?:#[^\n\r]*[\n\r]|[ \t\n\v\f\r])"
)  # fmt: skip


def map_picture(path: Path) -> Array:
    """The pixels, not read before they are used. Raises InputError."""
    size = open_regular(path)
    with path.open("rb") as file:
        start = file.read(_LONGEST_HEADER)
    what = f'"{path.name}"'
    if start[:2] not in _CHANNELS:
        raise InputError(
            "format",
            f"{what} is not a binary PPM (P6) or PGM (P5) picture. "
            "Convert it, or give the input as npy.",
        )
    header = _HEADER.match(start)
    if header is None:
        raise InputError(
            "header", f"{what} has an unreadable header. Write the picture again, or give npy."
        )
    width, height, largest = (int(number) for number in header.groups())
    if not 1 <= largest <= 255:
        raise InputError(
            "header",
            f"{what} has values up to {largest}; only pictures of 8 bits (up to 255) are read. "
            "Convert it, or give the input as npy.",
        )
    shape = (1, height, width, _CHANNELS[start[:2]])
    _check_size(what, shape, size - header.end())
    return np.memmap(path, dtype=np.uint8, mode="r", offset=header.end(), shape=shape)


def _check_size(what: str, shape: tuple[int, int, int, int], given: int) -> None:
    _, height, width, channels = shape
    wanted = height * width * channels
    if not wanted:
        raise InputError("axes", f"{what} is a picture without pixels.")
    if given < wanted:
        raise InputError(
            "size",
            f"{what} is cut short: {width} x {height} pixels take {wanted} bytes, there are "
            f"{given}. Upload it again.",
        )
    if given > wanted:
        raise InputError(
            "size", f"{what} has {given - wanted} bytes after its picture; only one is read."
        )
