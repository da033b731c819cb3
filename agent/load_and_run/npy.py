"""npy files, read without numpy's loader: nothing here can unpickle, and no header is believed."""

import ast
import os
import re
import stat
import struct

import numpy as np
from load_and_run.errors import InputError

MAGIC = b"\x93NUMPY"
#: of a header; numpy refuses longer ones too, a real one has about 100 characters
LONGEST_HEADER = 10000
#: MegEngine's own limit
MOST_AXES = 7


class Header(object):
    """What an npy file holds: `dtype` as stored, `shape`, `fortran` order, where its data begin."""

    def __init__(self, dtype, shape, fortran, offset):
        self.dtype = dtype
        self.shape = shape
        self.fortran = fortran
        self.offset = offset

    @property
    def count(self):
        return count(self.shape)


def read_header(path):
    """The header of the npy file `path`, checked against the file's size. Raises InputError."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError('"{}" is no file'.format(path))
        with open(path, "rb") as file:
            text, offset = _header_text(path, file)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise InputError('failed to open "{}": {}'.format(path, error.strerror))
    header = _parse(path, text, offset)
    _check_size(path, header, size)
    return header


def read_values(path, header):
    """The array, in C order and this machine's byte order."""
    with open(path, "rb") as file:
        file.seek(header.offset)
        flat = np.fromfile(file, dtype=header.dtype, count=header.count)
    if flat.size != header.count:
        raise InputError('"{}" changed while it was read'.format(path))
    array = flat.reshape(header.shape, order="F" if header.fortran else "C")
    return np.ascontiguousarray(array, dtype=header.dtype.newbyteorder("="))


def _header_text(path, file):
    start = file.read(12)
    if not start.startswith(MAGIC):
        raise InputError('"{}" is not an npy file: {}'.format(path, _looks_like(start)))
    version = tuple(start[6:8])
    if version == (1, 0):
        width, form = 2, "<H"
    elif version in ((2, 0), (3, 0)):
        width, form = 4, "<I"
    else:
        raise InputError(
            '"{}" has the unknown npy format version {}'.format(path, ".".join(map(str, version)))
        )
    offset = 8 + width
    if len(start) < offset:
        raise InputError('"{}" is cut short in its header'.format(path))
    (length,) = struct.unpack(form, start[8:offset])
    if length > LONGEST_HEADER:
        raise InputError(
            '"{}" has a header of {} bytes; at most {} are read'.format(
                path, length, LONGEST_HEADER
            )
        )
    file.seek(offset)
    text = file.read(length)
    if len(text) < length:
        raise InputError('"{}" is cut short in its header'.format(path))
    return text.decode("utf-8", "replace"), offset + length


def _looks_like(start):
    if start.startswith(b"PK"):
        return "it is a zip archive (npz?); give one npy file for each input"
    if start[:1] == b"\x80":
        return "it looks like a pickle, which is never read"
    return "it does not begin with \\x93NUMPY" if start else "it is empty (0 bytes)"


def _parse(path, text, offset):
    if len(re.findall(r"[(\[{-]", text)) > 1000:  # nesting that could exhaust Python's parser
        raise InputError('"{}" has an unreadable header'.format(path))
    try:
        fields = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise InputError('"{}" has an unreadable header'.format(path))
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise InputError('"{}" has an unreadable header'.format(path))
    shape, fortran = fields["shape"], fields["fortran_order"]
    if not isinstance(fortran, bool) or not isinstance(shape, tuple):
        raise InputError('"{}" has an unreadable header'.format(path))
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in shape):
        raise InputError('"{}" has an impossible shape in its header'.format(path))
    check_axes('"{}"'.format(path), shape)
    return Header(_dtype(path, fields["descr"]), shape, fortran, offset)


def check_axes(what, shape):
    """Refuse shapes that MegEngine has no word for (`what` names the culprit)."""
    if not shape:
        raise InputError("{} has no axes (a single number); give it at least one".format(what))
    if len(shape) > MOST_AXES:
        raise InputError(
            "{} has {} axes; MegEngine knows at most {}".format(what, len(shape), MOST_AXES)
        )
    if 0 in shape:
        raise InputError("{} has the shape {} and so holds no numbers".format(what, braces(shape)))


def _dtype(path, descr):
    if not isinstance(descr, str):
        raise InputError('"{}" holds a structured type; inputs are plain numbers'.format(path))
    try:
        dtype = np.dtype(descr)
    except (TypeError, ValueError, SyntaxError):
        raise InputError('"{}" holds the unknown type {}'.format(path, ascii(descr)))
    if dtype.hasobject:
        raise InputError('"{}" holds Python objects, which are never unpickled'.format(path))
    if dtype.kind not in "biufc":
        raise InputError('"{}" holds {}; inputs are numbers'.format(path, dtype.name))
    return dtype


def _check_size(path, header, size):
    wanted = header.offset + header.count * header.dtype.itemsize
    promise = "{} {}".format(header.dtype.name, braces(header.shape))
    if size < wanted:
        raise InputError(
            '"{}" is cut short: {} takes {} bytes, the file has {}'.format(
                path, promise, wanted, size
            )
        )
    if size > wanted:
        raise InputError(
            '"{}" has {} bytes after its array ({})'.format(path, size - wanted, promise)
        )


def count(shape):
    """How many numbers a shape holds."""
    product = 1
    for length in shape:
        product *= length  # Python's integers: cannot overflow
    return product


def braces(shape):
    """A shape as MegEngine writes it: {2,3,32,32}."""
    return "{" + ",".join(str(length) for length in shape) + "}"
