"""Read binary PPM and PGM pictures as uint8 arrays {1,h,w,c}, as load_and_run intends.

Format: https://netpbm.sourceforge.net/doc/ppm.html. The magic number is followed by width, height
and the maximum value, separated by white space and comments; a single white space character
precedes the pixels. load_and_run itself takes the first line for the whole header, so it misreads
the pixels of most files.
"""

import math
import re
from pathlib import Path

import numpy as np

from agent.protocol.inputs import Array, InputError, Shape, braces, check_axes, check_size
from agent.protocol.inputs.npy import read_start

_CHANNELS = {b"P5": 1, b"P6": 3}
_GAP = rb"(?:[ \t\n\v\f\r]|#[^\n\r]*+[\n\r])++"
_HEADER = re.compile(
    rb"P[56]" + _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,9})"
    rb"(?:#[^\n\r]*[\n\r]|[ \t\n\v\f\r])"
)  # fmt: skip


def map_picture(path: Path) -> Array:
    """Map the pixels into memory; they are read when they are used. Raises InputError."""
    head, size = read_start(path)
    shape, offset = parse_picture(path.name, head, size)
    return np.memmap(path, dtype=np.uint8, mode="r", offset=offset, shape=shape)


def parse_picture(name: str, head: bytes, size: int) -> tuple[Shape, int]:
    """Return the shape of a picture and the offset of its pixels.

    `head` are the first HEAD_BYTES of the file `name`, `size` is the size of the whole file.
    Raises InputError.
    """
    what = f'"{name}"'
    if head[:2] not in _CHANNELS:
        raise InputError(
            "format",
            f"{what} is not a binary PPM (P6) or PGM (P5) picture. "
            "Convert it, or give the input as npy.",
            "picture",
        )
    header = _HEADER.match(head)
    if header is None:
        text = f"{what} has an unreadable header. Save it again, or give the input as npy."
        raise InputError("header", text, "picture")
    width, height, largest = (int(number) for number in header.groups())
    if not 1 <= largest <= 255:
        raise InputError(
            "header",
            f"{what} has values up to {largest}; only pictures of 8 bits (up to 255) are read. "
            "Convert it, or give the input as npy.",
            "picture_depth",
            most=largest,
        )
    shape = (1, height, width, _CHANNELS[head[:2]])
    check_axes(what, shape)
    check_size(what, f"uint8 {braces(shape)}", header.end() + math.prod(shape), size)
    return shape, header.end()
