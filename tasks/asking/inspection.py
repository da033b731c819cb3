"""What an uploaded input file says about itself: dtype and shape, read from its first bytes.

Bytes in, result out. Nothing is unpickled, no array is made, and no header is believed: each is
compared with the object's size. What the device would refuse after a wait is refused here.
"""

import io
import json
import math
import re
import tokenize
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import msgspec
import numpy as np
from numpy.lib import format as npy_format

from agent.protocol.input_rules import (
    ALL_DTYPES,
    BINARY_DTYPES,
    JSON_DTYPES,
    LONGEST_NAME,
    MOST_AXES,
    can_be_given,
    instead_of,
)
from webprofile.errors import DomainError

#: how much of an array or a picture is looked at
HEAD_BYTES = 64 * 1024
#: a JSON file is read as a whole; as on the device, a larger one is refused
JSON_LIMIT_BYTES = 8 * 1024**2
#: as on the device; a real header has about 100 characters
LONGEST_NPY_HEADER = 10_000
MOST_JSON_INPUTS = 64

_NPY_MAGIC = b"\x93NUMPY"
_PICTURE = re.compile(
    rb"P([56])(?:\s|#[^\n]{0,1000}\n){1,50}(\d{1,9})(?:\s|#[^\n]{0,1000}\n){1,50}(\d{1,9})"
    rb"(?:\s|#[^\n]{0,1000}\n){1,50}(\d{1,9})\s"
)
_NUMBERS = re.compile(rb"\s*\[([-+.0-9eE,\s]*)\]\s*")
#: strings as they are, so that a list is not looked for in them
_STRING_OR_NUMBERS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|\[[-+.0-9eE,\s]*+\]', re.DOTALL)
#: numpy evaluates a header as a literal, and before it gives up it takes its text for Python 2
_UNREADABLE = (
    ValueError,
    TypeError,
    SyntaxError,
    OverflowError,
    MemoryError,
    RecursionError,
    tokenize.TokenError,
)


@dataclass(frozen=True)
class ArrayHeader:
    """One array of a file; `name` is the input variable where the file itself names it (JSON)."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def as_row(self) -> dict[str, Any]:
        """The entry of `TaskFile.arrays`."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}


class _JsonInput(msgspec.Struct):
    """An entry of load_and_run's JSON; the numbers stay undecoded."""

    shape: list[int]
    type: str
    raw: msgspec.Raw


def bytes_wanted(name: str, size_bytes: int) -> int:
    """How many bytes from its begin `inspect` wants of a file."""
    if _suffix(name) == ".json" and size_bytes <= JSON_LIMIT_BYTES:
        return size_bytes
    return min(size_bytes, HEAD_BYTES)


def inspect(name: str, head: bytes, size_bytes: int, *, kind: str = "wheel") -> list[ArrayHeader]:
    """Return what the data file `name` holds, empty if it is not looked into.

    head: its first `bytes_wanted` bytes; size_bytes: of the whole file; kind: of the runtime

    Raises DomainError `input_*`, naming file and cause, if it cannot be an input.
    """
    if not head:
        return []
    suffix = _suffix(name)
    if suffix == ".json":
        if size_bytes > JSON_LIMIT_BYTES:
            raise _refuse("json_large", name, limit_mib=JSON_LIMIT_BYTES >> 20)
        return _inspect_json(name, head)
    if suffix in (".ppm", ".pgm"):
        return [_inspect_picture(name, head, size_bytes)]
    return [_inspect_npy(name, head, size_bytes, kind)]


def _suffix(name: str) -> str:
    return PurePosixPath(name.lower()).suffix


def _refuse(code: str, name: str, **data: Any) -> DomainError:
    return DomainError(f"input_{code}", field="data", name=name, **data)


# -- arrays ---------------------------------------------------------------------------------------


def _inspect_npy(name: str, head: bytes, size_bytes: int, kind: str) -> ArrayHeader:
    file = io.BytesIO(head)
    shape, dtype = _npy_header(name, file)
    if dtype.hasobject:
        raise _refuse("pickled", name)
    if dtype.names is not None or dtype.subdtype is not None:
        raise _refuse("structured", name)
    if dtype.kind not in "biufc":
        raise _refuse("not_numbers", name, dtype=dtype.name)
    plain = dtype.newbyteorder("=").name
    if plain not in ALL_DTYPES:
        raise _refuse("no_type", name, dtype=plain, instead=instead_of(dtype.kind))
    if kind == "binary" and plain not in BINARY_DTYPES:
        raise _refuse("dtype_not_here", name, dtype=plain, choices=", ".join(BINARY_DTYPES))
    _check_shape(name, shape)
    wanted = file.tell() + math.prod(shape) * dtype.itemsize
    _check_size(name, f"{dtype.name} {braces(shape)}", wanted, size_bytes)
    return ArrayHeader("", plain, shape)


def _npy_header(name: str, file: io.BytesIO) -> tuple[tuple[int, ...], np.dtype[Any]]:
    _check_magic(name, file.getvalue())
    try:
        version = npy_format.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise _refuse("version", name, version=".".join(map(str, version)))
        _check_header_length(name, file, version)
        # 3.0 differs from 2.0 only in the encoding of field names, which are refused anyway
        read = (
            npy_format.read_array_header_1_0
            if version == (1, 0)
            else npy_format.read_array_header_2_0
        )
        shape, _, dtype = read(file, max_header_size=LONGEST_NPY_HEADER)
    except DomainError:
        raise
    except _UNREADABLE as error:
        raise _refuse("header", name) from error
    return tuple(shape), dtype


def _check_magic(name: str, head: bytes) -> None:
    if head.startswith(_NPY_MAGIC):
        return
    if head.startswith(b"PK"):
        raise _refuse("zip", name)
    # protocols 2 to 5; older ones are text and no npy file either
    if head[:1] == b"\x80":
        raise _refuse("pickled", name)
    raise _refuse("not_npy", name)


def _check_header_length(name: str, file: io.BytesIO, version: tuple[int, int]) -> None:
    start, width = file.tell(), 2 if version == (1, 0) else 4
    length = int.from_bytes(file.read(width), "little")
    file.seek(start)
    if length > LONGEST_NPY_HEADER:
        raise _refuse("header_long", name, length=length, limit=LONGEST_NPY_HEADER)


def _check_shape(name: str, shape: tuple[int, ...]) -> None:
    if any(isinstance(axis, bool) or axis < 0 for axis in shape):
        raise _refuse("header", name)
    if not shape:
        raise _refuse("no_axes", name)
    if len(shape) > MOST_AXES:
        raise _refuse("many_axes", name, axes=len(shape), limit=MOST_AXES)
    if 0 in shape:
        raise _refuse("no_numbers", name, shape=braces(shape))


def _check_size(name: str, promise: str, wanted: int, size_bytes: int) -> None:
    if size_bytes < wanted:
        raise _refuse("cut_short", name, promise=promise, wanted=wanted, size=size_bytes)
    if size_bytes > wanted:
        raise _refuse("trailing", name, promise=promise, extra=size_bytes - wanted)


# -- pictures -------------------------------------------------------------------------------------


def _inspect_picture(name: str, head: bytes, size_bytes: int) -> ArrayHeader:
    """Binary PPM or PGM of 8 bits, which load_and_run makes uint8 {1,h,w,c}."""
    found = _PICTURE.match(head)
    if found is None:
        raise _refuse("picture", name)
    channels = 3 if found[1] == b"6" else 1
    width, height, most = int(found[2]), int(found[3]), int(found[4])
    if not 1 <= most <= 255:
        raise _refuse("picture_depth", name, most=most)
    shape = (1, height, width, channels)
    _check_shape(name, shape)
    wanted = found.end() + math.prod(shape)
    _check_size(name, f"uint8 {braces(shape)}", wanted, size_bytes)
    return ArrayHeader("", "uint8", shape)


# -- JSON -----------------------------------------------------------------------------------------


def _inspect_json(name: str, data: bytes) -> list[ArrayHeader]:
    try:
        inputs = msgspec.json.decode(data, type=dict[str, _JsonInput])
        _refuse_twice(name, data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refuse("json", name, problem=str(error)[:200]) from None
    except RecursionError:
        raise _refuse("json_deep", name) from None
    if not 1 <= len(inputs) <= MOST_JSON_INPUTS:
        raise _refuse("json_count", name, count=len(inputs), limit=MOST_JSON_INPUTS)
    return [_json_array(name, key, entry) for key, entry in inputs.items()]


def _refuse_twice(name: str, data: bytes) -> None:
    """Raise DomainError if a key stands twice in one object; `data` is well-formed JSON.

    Numbers are left out, since as objects they take ten times their size.
    """

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict[str, Any]()
        for key, value in pairs:
            if key in found:
                raise _refuse("json_twice", name, input=key[:100])
            found[key] = value
        return found

    bare = _STRING_OR_NUMBERS.sub(lambda m: m[0] if m[0][:1] == b'"' else b"[]", data)
    json.loads(bare, object_pairs_hook=distinct)


def _json_array(name: str, key: str, entry: _JsonInput) -> ArrayHeader:
    if len(key) > LONGEST_NAME or not can_be_given(key):
        raise _refuse("json_name", name, input=ascii(key[:100]), limit=LONGEST_NAME)
    dtype = JSON_DTYPES.get(entry.type)
    if dtype is None:
        kinds = ", ".join(JSON_DTYPES)
        raise _refuse("json_type", name, input=key[:100], type=entry.type[:40], kinds=kinds)
    shape = tuple(entry.shape)
    _check_shape(f"{name}: {key[:100]}", shape)
    count = _count_numbers(bytes(entry.raw))
    if count != math.prod(shape):
        wanted = math.prod(shape)
        raise _refuse("json_numbers", name, input=key[:100], wanted=wanted, count=count)
    return ArrayHeader(key, dtype, shape)


def _count_numbers(raw: bytes) -> int | None:
    """How many numbers a flat JSON list holds, without making them; None if it is none."""
    found = _NUMBERS.fullmatch(raw)
    if found is None:
        return None
    return found[1].count(b",") + 1 if found[1].strip() else 0


def braces(shape: tuple[int, ...]) -> str:
    """A shape as MegEngine writes it: {2,3,32,32}."""
    return "{" + ",".join(map(str, shape)) + "}"
