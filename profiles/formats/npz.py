"""Columns and graphs as named arrays of a `.npz` file: small, exact, without pickle or JSON.

Each field of a record (`columns`, `graph`) is an array of its name; a field that is a record has
its own fields behind a dot.
"""

import dataclasses
import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from profiles.formats.columns import ProfileColumns, TextColumn
from profiles.formats.load_and_run.graph import ExecutedGraph

Arrays = dict[str, NDArray[Any]]
Record = TypeVar("Record")

# ValueError: no npz, pickled, another version, wrong shapes, or texts that are not UTF-8.
# SyntaxError, TokenError: the header of an array, which numpy reads as Python's literals.
# struct.error, RuntimeError: a zip that is cut short, encrypted or packed in an unknown way
DAMAGE = (
    ValueError,
    SyntaxError,
    tokenize.TokenError,
    struct.error,
    RuntimeError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
)

#: fields that have another name in the file
_CALLED: dict[type, dict[str, str]] = {
    ExecutedGraph: {
        "operators": "operator",
        "variables": "var",
        "chunks": "chunk",
        "device": "interval.device",
        "host": "interval.host",
    }
}


def save(arrays: Arrays) -> bytes:
    """Return a `.npz` file of these arrays."""
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def pack(record: Any, prefix: str = "") -> Arrays:
    """Return a record as arrays whose names begin with `prefix`."""
    arrays: Arrays = {}
    for field, (name, _) in _fields(type(record)).items():
        value, name = getattr(record, field), prefix + name
        if isinstance(value, tuple):
            arrays |= pack_texts(name, value)
        elif isinstance(value, TextColumn):
            arrays |= {f"{name}.codes": value.codes, **pack_texts(name, value.values)}
        elif dataclasses.is_dataclass(value):
            arrays |= pack(value, f"{name}.")
        else:
            arrays[name] = np.asarray(value)
    return arrays


def unpack(form: type[Record], arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Record:
    """Return what `pack` was given. Raises one of DAMAGE if something is missing."""
    found: dict[str, Any] = {}
    for field, (name, kind) in _fields(form).items():
        name = prefix + name
        if kind is TextColumn:
            found[field] = TextColumn(arrays[f"{name}.codes"], unpack_texts(name, arrays))
        elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
            found[field] = unpack(kind, arrays, f"{name}.")
        elif get_origin(kind) is tuple:
            found[field] = unpack_texts(name, arrays)
        else:
            found[field] = bool(arrays[name]) if kind is bool else arrays[name]
    return form(**found)


def unpack_columns(arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> ProfileColumns:
    """Return the columns that `pack` was given. Raises one of DAMAGE if something does not fit."""
    columns = unpack(ProfileColumns, arrays, prefix)
    for name, array in arrays.items():
        per_row = name.endswith((".codes", ".values", ".present", "_s", "id_numbers"))
        if per_row and name.startswith(prefix) and array.shape != (len(columns),):
            raise ValueError(f"{name} has the shape {array.shape}, not ({len(columns)},)")
    return columns


def pack_texts(name: str, texts: Sequence[str]) -> Arrays:
    """Join texts: numpy's own text arrays pad each to the longest and drop trailing NULs."""
    encoded = [text.encode() for text in texts]
    return {
        f"{name}.utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        f"{name}.ends": np.cumsum([len(text) for text in encoded], dtype=np.int64),
    }


def unpack_texts(name: str, arrays: Mapping[str, NDArray[Any]]) -> tuple[str, ...]:
    """Return what `pack_texts` joined. Raises KeyError, ValueError for damaged arrays."""
    joined = arrays[f"{name}.utf8"].tobytes()
    ends = arrays[f"{name}.ends"].tolist()
    starts = [0, *ends][:-1]
    if joined.isascii():
        text = joined.decode("ascii")
        return tuple([text[start:end] for start, end in zip(starts, ends, strict=True)])
    return tuple([joined[start:end].decode() for start, end in zip(starts, ends, strict=True)])


def _fields(form: type) -> dict[str, tuple[str, Any]]:
    """The name in the file and the type of each field."""
    called = _CALLED.get(form, {})
    return {name: (called.get(name, name), kind) for name, kind in get_type_hints(form).items()}
