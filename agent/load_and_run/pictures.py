"""Pictures as inputs: binary PPM (P6) and PGM (P5), 8 bits a sample."""

import os
import re
import stat

import numpy as np
from load_and_run.errors import InputError

_SPACE = rb"(?:[ \t\n\v\f\r]|#[^\n\r]*[\n\r])"
#: width, height and largest value, with white space and comments between, then one white space
_HEADER = re.compile(
    rb"P([56])" + (_SPACE + rb"+([0-9]{1,9})") * 2 + _SPACE + rb"+([0-9]{1,9})[ \t\n\v\f\r]"
)
_LONGEST_HEADER = 65536


class Header(object):
    """`shape` is {1, height, width, channels}, `offset` where the samples begin."""

    def __init__(self, shape, offset):
        self.shape = shape
        self.offset = offset


def read_header(path):
    """The header of a picture, checked against the file's size. Raises InputError."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError('"{}" is no file'.format(path))
        with open(path, "rb") as file:
            start = file.read(_LONGEST_HEADER)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise InputError('failed to open "{}": {}'.format(path, error.strerror))
    found = _HEADER.match(start)
    if not found:
        raise InputError(
            '"{}" is no binary picture: it does not begin with P5 or P6, width, height and '
            "largest value".format(path)
        )
    kind, width, height, largest = (int(group) for group in found.groups())
    if not width or not height:
        raise InputError('"{}" has no pixels ({} x {})'.format(path, width, height))
    if not 0 < largest < 256:
        raise InputError(
            '"{}" has samples up to {}; only 8 bits a sample are read'.format(path, largest)
        )
    shape = (1, height, width, 3 if kind == 6 else 1)
    wanted = found.end() + height * width * shape[3]
    if size < wanted:
        raise InputError(
            '"{}" is cut short: {} x {} pixels take {} bytes, the file has {}'.format(
                path, width, height, wanted, size
            )
        )
    return Header(shape, found.end())


def read_values(path, header):
    """The samples as they are, uint8 {1,h,w,c}."""
    count = header.shape[1] * header.shape[2] * header.shape[3]
    with open(path, "rb") as file:
        file.seek(header.offset)
        flat = np.fromfile(file, dtype=np.uint8, count=count)
    if flat.size != count:
        raise InputError('"{}" changed while it was read'.format(path))
    return flat.reshape(header.shape)
