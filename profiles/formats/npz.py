"""Serialise columns and graphs as named arrays of a `.npz` file, without pickle or JSON.

Each field of a record (`columns`, `graph`) is stored as the array of the same name; the fields of a
nested record have its name and a dot as their prefix.
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

Arrays = dict[str, NDArray[Any]]
Record = TypeVar("Record")

# Exceptions that reading a damaged file may raise.
# ValueError: not an npz file, pickled, another version, wrong shapes, or texts that are not UTF-8.
# SyntaxError, TokenError: a damaged array header, which numpy parses as a Python literal.
# struct.error, RuntimeError: a zip that is truncated, encrypted or of an unknown compression
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

#: arrays up to this size are not compressed
_SMALL_BYTES = 1000


def save(arrays: Arrays) -> bytes:
    """Return a file that `numpy.load` reads.

    Unlike `numpy.savez_compressed`, it does not compress small arrays: preparing a compressor for
    each of the hundred arrays takes most of the time of reading a small profile.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            if array.nbytes > _SMALL_BYTES:
                entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return file.getvalue()


def pack(record: Any, prefix: str = "") -> Arrays:
    """Return a record as arrays whose names begin with `prefix`."""
    arrays: Arrays = {}
    for field in dataclasses.fields(record):
        value, name = getattr(record, field.name), prefix + field.name
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
    """Rebuild the record that `pack` serialised. Raises one of DAMAGE if something is missing."""
    values: dict[str, Any] = {}
    for field, kind in get_type_hints(form).items():
        name = prefix + field
        if kind is TextColumn:
            values[field] = TextColumn(arrays[f"{name}.codes"], unpack_texts(name, arrays))
        elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
            values[field] = unpack(kind, arrays, f"{name}.")
        elif get_origin(kind) is tuple:
            values[field] = unpack_texts(name, arrays)
        else:
            values[field] = bool(arrays[name]) if kind is bool else arrays[name]
    return form(**values)


def unpack_columns(arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> ProfileColumns:
    """Rebuild the columns that `pack` serialised. Raises one of DAMAGE if shapes do not match."""
    columns = unpack(ProfileColumns, arrays, prefix)
    for name, array in arrays.items():
        per_row = name.endswith((".codes", ".values", ".present", "_s", "id_numbers"))
        if per_row and name.startswith(prefix) and array.shape != (len(columns),):
            raise ValueError(f"{name} has the shape {array.shape}, not ({len(columns)},)")
    return columns


def pack_texts(name: str, texts: Sequence[str]) -> Arrays:
    """Store texts as one byte array with end offsets.

    numpy's own text arrays would pad each text to the longest and drop trailing NULs.
    """
    encoded = [text.encode() for text in texts]
    return {
        f"{name}.utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        f"{name}.ends": np.cumsum([len(text) for text in encoded], dtype=np.int64),
    }


def unpack_texts(name: str, arrays: Mapping[str, NDArray[Any]]) -> tuple[str, ...]:
    """Rebuild the texts that `pack_texts` stored. Raises KeyError, ValueError if damaged."""
    joined = arrays[f"{name}.utf8"].tobytes()
    ends = arrays[f"{name}.ends"].tolist()
    starts = [0, *ends][:-1]
    if joined.isascii():
        text = joined.decode("ascii")
        return tuple([text[start:end] for start, end in zip(starts, ends, strict=True)])
    return tuple([joined[start:end].decode() for start, end in zip(starts, ends, strict=True)])
