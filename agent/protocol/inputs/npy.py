"""Read and write npy files: headers are parsed by numpy and then checked; never unpickles.

Server and agent use the same parser (`parse_header`). Format: numpy.lib.format, versions 1.0 to
3.0.
"""

import io
import re
import stat
import struct
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy_format

from agent.protocol.inputs import (
    Array,
    InputError,
    RuntimeKind,
    Shape,
    braces,
    check_axes,
    check_dtype,
    check_size,
    size_of,
)

MAGIC = b"\x93NUMPY"
#: length of the beginning of an array or picture file that contains its header
HEAD_BYTES = 64 * 1024
#: numpy's own limit; usual headers have about 100 characters
_LONGEST_HEADER = 10_000
#: kinds of the dtypes that numpy writes into headers; it parses those of others, too
_KINDS = "biufcSUVMmO"
_MOST_BRACKETS = 1000  # deeper nesting could exhaust Python's parser
#: exceptions of numpy's header parser, which evaluates a literal and tries Python 2 syntax, too
_UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    SyntaxError,
    OverflowError,
    MemoryError,
    RecursionError,
    tokenize.TokenError,
)
#: most numbers in memory while a file is written
_CHUNK = 1 << 19


@dataclass(frozen=True)
class Header:
    """The header of an npy file; `offset` is the position of its data."""

    dtype: np.dtype[np.generic]
    shape: Shape
    fortran: bool
    offset: int


def read_start(path: Path) -> tuple[bytes, int]:
    """Return the first HEAD_BYTES of a regular file, and its size. Raises InputError."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError.of("unreadable", "input_not_a_file", name=path.name)
        with path.open("rb") as file:
            return file.read(HEAD_BYTES), status.st_size
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise InputError.of("unreadable", "input_unreadable", name=path.name, cause=cause) from None


def read_header(path: Path, kind: RuntimeKind) -> Header:
    """Read and check the header of an npy file, see `parse_header`."""
    head, size = read_start(path)
    return parse_header(path.name, head, size, kind)


def parse_header(name: str, head: bytes, size: int, kind: RuntimeKind) -> Header:
    """Parse a header; check it against the file's size and the dtypes of the runtime kind.

    `head` are the first HEAD_BYTES of the file `name`, `size` is the size of the whole file.
    Raises InputError.
    """
    what = f'"{name}"'
    _check_magic(what, head)
    file = io.BytesIO(head)
    try:
        version = npy_format.read_magic(file)
        _check_version(what, version)
        _check_length(what, head, version)
        # 3.0 differs from 2.0 only in the encoding of field names, and fields are rejected
        read = (
            npy_format.read_array_header_1_0
            if version == (1, 0)
            else npy_format.read_array_header_2_0
        )
        shape, fortran, dtype = read(file, max_header_size=_LONGEST_HEADER)
    except InputError:
        raise
    except _UNREADABLE as error:
        raise _unreadable(what) from error
    if dtype.kind not in _KINDS:
        raise _unreadable(what)
    check_dtype(what, dtype, kind)
    if any(type(length) is not int or length < 0 for length in shape):
        raise _unreadable(what)
    check_axes(what, shape)
    header = Header(dtype, tuple(shape), fortran, file.tell())
    expected = header.offset + size_of(header.shape, dtype)
    check_size(what, f"{dtype.name} {braces(shape)}", expected, size)
    return header


def _unreadable(what: str) -> InputError:
    text = f"{what} has an unreadable header. Save it with numpy.save."
    return InputError("header", text, "header")


def map_array(path: Path, header: Header) -> Array:
    """Map the array into memory; it is read when it is used."""
    return np.memmap(
        path,
        dtype=header.dtype,
        mode="r",
        offset=header.offset,
        shape=header.shape,
        order="F" if header.fortran else "C",
    )


def is_canonical(path: Path, header: Header) -> bool:
    """Return whether `write_npy` would write the same bytes."""
    expected = header_bytes(header.dtype, header.shape)
    if header.offset != len(expected):
        return False
    with path.open("rb") as file:
        return file.read(len(expected)) == expected


def header_bytes(dtype: np.dtype[np.generic], shape: Shape) -> bytes:
    """Return a header of format 1.0: little endian, C order, padded to 64 bytes like numpy's."""
    descr = dtype.newbyteorder("<").str
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    text += " " * (-(len(MAGIC) + 4 + len(text) + 1) % 64) + "\n"
    return MAGIC + b"\x01\x00" + struct.pack("<H", len(text)) + text.encode("ascii")


def write_npy(path: Path, array: Array, length: int) -> None:
    """Write the array to a new file, one chunk at a time.

    `length` is that of the first axis in the file; entries are repeated or cut off to reach it.
    """
    rows = array.shape[0]
    with path.open("xb") as file:
        file.write(header_bytes(array.dtype, (length, *array.shape[1:])))
        for _ in range(length // rows):
            _write_all(file, array)
        if length % rows:
            _write_all(file, array[: length % rows])


def chunks(array: Array) -> Iterator[Array]:
    """Yield the numbers in C order and little endian, in chunks valid until the next iteration."""
    iterator = np.nditer(
        array,
        flags=["external_loop", "buffered"],
        op_dtypes=[array.dtype.newbyteorder("<")],
        casting="equiv",
        order="C",
        buffersize=_CHUNK,
    )
    for chunk in iterator:
        yield np.asarray(chunk)


def _write_all(file: BinaryIO, array: Array) -> None:
    for chunk in chunks(array):
        file.write(chunk.tobytes())


def _check_magic(what: str, head: bytes) -> None:
    if head.startswith(MAGIC):
        return
    rule = "not_npy"
    if head.startswith(b"PK"):
        rule, why = "zip", "it is a zip archive (npz?). Give one npy file for each input"
    elif head[:1] == b"\x80":  # protocols 2 to 5; older ones are text
        rule = "pickled"
        why = "it looks like a pickle, which is never read. Save the array with numpy.save"
    elif not head:
        why = "it is empty (0 bytes). Upload it again"
    else:
        why = "it does not start like one. Save the array with numpy.save"
    raise InputError("format", f"{what} is not an npy file: {why}.", rule)


def _check_version(what: str, version: tuple[int, int]) -> None:
    if version not in ((1, 0), (2, 0), (3, 0)):
        written = ".".join(map(str, version))
        raise InputError(
            "header",
            f"{what} has the unknown npy format version {written}. Save it again with numpy.save.",
            "version",
            version=written,
        )


def _check_length(what: str, head: bytes, version: tuple[int, int]) -> None:
    """Raise InputError for headers that would take Python's parser too long."""
    begin = 10 if version == (1, 0) else 12
    length = int.from_bytes(head[8:begin], "little")
    if length > _LONGEST_HEADER:
        raise InputError(
            "header",
            f"{what} has a header of {length} bytes; at most {_LONGEST_HEADER} are read. "
            "Save it again with numpy.save.",
            "header_long",
            length=length,
            limit=_LONGEST_HEADER,
        )
    if len(re.findall(rb"[(\[{-]", head[begin : begin + length])) > _MOST_BRACKETS:
        raise _unreadable(what)
