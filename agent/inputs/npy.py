"""npy files, read without numpy's loader: nothing can unpickle, and no header is believed.

Format: numpy.lib.format, versions 1.0 to 3.0.
"""

import ast
import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from agent.inputs.dtypes import Array, check_axes, check_dtype, size_of
from agent.inputs.problems import InputError
from agent.inputs.specs import Kind, Shape, braces

MAGIC = b"\x93NUMPY"
#: numpy refuses longer ones too; a real one has about 100 characters
_LONGEST_HEADER = 10_000
_MOST_BRACKETS = 1000  # deeper nesting could exhaust Python's parser
#: numbers held in memory at a time while a file is written
_CHUNK = 1 << 19


@dataclass(frozen=True)
class Header:
    """What an npy file holds; `offset` is where its data begin."""

    dtype: np.dtype[np.generic]
    shape: Shape
    fortran: bool
    offset: int


def open_regular(path: Path) -> int:
    """Size of the file. Raises InputError unless it is a regular one."""
    try:
        status = path.stat()
    except OSError as error:
        raise InputError("unreadable", f'"{path.name}" cannot be read: {error.strerror}.') from None
    if not stat.S_ISREG(status.st_mode):
        raise InputError("unreadable", f'"{path.name}" is no file.')
    return status.st_size


def read_header(path: Path, kind: Kind) -> Header:
    """The header, checked against the file's size and what the kind of runtime takes."""
    size = open_regular(path)
    with path.open("rb") as file:
        start = file.read(12)
        _check_magic(path, start)
        offset, length = _header_place(path, start)
        file.seek(offset)
        raw = file.read(length)
    if len(raw) < length:
        raise InputError("size", f'"{path.name}" is cut short in its header; upload it again.')
    header = _parse(path, raw.decode("utf-8", "replace"), offset + length, kind)
    _check_size(path, header, size)
    return header


def map_array(path: Path, header: Header) -> Array:
    """The numbers, not read before they are used."""
    return np.memmap(
        path,
        dtype=header.dtype,
        mode="r",
        offset=header.offset,
        shape=header.shape,
        order="F" if header.fortran else "C",
    )


def is_canonical(path: Path, header: Header) -> bool:
    """Whether the file is byte for byte what `write_npy` would make of it."""
    expected = header_bytes(header.dtype, header.shape)
    if header.offset != len(expected):
        return False
    with path.open("rb") as file:
        return file.read(len(expected)) == expected


def header_bytes(dtype: np.dtype[np.generic], shape: Shape) -> bytes:
    """Format 1.0, little endian, C order, padded to 64 bytes as numpy does it."""
    descr = dtype.newbyteorder("<").str
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    text += " " * (-(len(MAGIC) + 4 + len(text) + 1) % 64) + "\n"
    return MAGIC + b"\x01\x00" + struct.pack("<H", len(text)) + text.encode("ascii")


def write_npy(path: Path, array: Array, batch: int | None = None) -> Shape:
    """Write the array as a new file and return its shape; at most a chunk of it is in memory.

    `batch`: the first axis gets this length, its entries repeated or cut off.
    """
    rows = array.shape[0]
    wanted = rows if batch is None else batch
    shape = (wanted, *array.shape[1:])
    with path.open("xb") as file:
        file.write(header_bytes(array.dtype, shape))
        for _ in range(wanted // rows):
            _write_all(file, array)
        if wanted % rows:
            _write_all(file, array[: wanted % rows])
    return shape


def chunks(array: Array) -> Iterator[Array]:
    """All numbers in C order and little endian, some at a time; a chunk is valid until the next."""
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


def _check_magic(path: Path, start: bytes) -> None:
    if start.startswith(MAGIC):
        return
    if start.startswith(b"PK"):
        why = "it is a zip archive (npz?). Give one npy file for each input"
    elif start[:1] == b"\x80":
        why = "it looks like a pickle, which is never read. Save the array with numpy.save"
    elif not start:
        why = "it is empty (0 bytes). Upload it again"
    else:
        why = "it does not begin as one. Save the array with numpy.save"
    raise InputError("format", f'"{path.name}" is not an npy file: {why}.')


def _header_place(path: Path, start: bytes) -> tuple[int, int]:
    """Where the text of the header begins, and its length."""
    version = tuple(start[6:8])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise InputError(
            "header",
            f'"{path.name}" has the unknown npy format version '
            f"{'.'.join(map(str, version))}. Save it again with numpy.save.",
        )
    form, offset = ("<H", 10) if version == (1, 0) else ("<I", 12)
    if len(start) < offset:
        raise InputError("size", f'"{path.name}" is cut short in its header; upload it again.')
    (length,) = struct.unpack(form, start[8:offset])
    if length > _LONGEST_HEADER:
        raise InputError(
            "header",
            f'"{path.name}" has a header of {length} bytes; at most {_LONGEST_HEADER} are read. '
            "Save it again with numpy.save.",
        )
    return offset, length


def _parse(path: Path, text: str, offset: int, kind: Kind) -> Header:
    what = f'"{path.name}"'
    broken = InputError("header", f"{what} has an unreadable header. Save it with numpy.save.")
    if len(re.findall(r"[(\[{-]", text)) > _MOST_BRACKETS:
        raise broken
    try:
        fields = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise broken from None
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise broken
    shape, fortran = fields["shape"], fields["fortran_order"]
    if not isinstance(fortran, bool) or not isinstance(shape, tuple):
        raise broken
    if any(type(length) is not int or length < 0 for length in shape):
        raise InputError("header", f"{what} has an impossible shape. Save it with numpy.save.")
    dtype = _dtype(what, fields["descr"])
    check_dtype(what, dtype, kind)
    check_axes(what, shape)
    return Header(dtype, shape, fortran, offset)


def _dtype(what: str, descr: object) -> np.dtype[np.generic]:
    if not isinstance(descr, str):
        raise InputError("dtype", f"{what} holds a structured type; inputs are plain numbers.")
    try:
        return np.dtype(descr)
    except (TypeError, ValueError, SyntaxError):
        raise InputError("dtype", f"{what} holds the unknown type {descr[:60]!a}.") from None


def _check_size(path: Path, header: Header, size: int) -> None:
    wanted = header.offset + size_of(header.shape, header.dtype)
    promise = f"{header.dtype.name} {braces(header.shape)}"
    if size < wanted:
        raise InputError(
            "size",
            f'"{path.name}" is cut short: {promise} takes {wanted} bytes, the file has {size}. '
            "Upload it again.",
        )
    if size > wanted:
        raise InputError(
            "size",
            f'"{path.name}" has {size - wanted} bytes after its array ({promise}). '
            "Save it again with numpy.save.",
        )


def disk_free(folder: Path) -> int:
    """Bytes that may still be written into the folder."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize
