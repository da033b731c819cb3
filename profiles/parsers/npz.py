"""Columns as named arrays of a `.npz` file: small, exact, and read without pickle or JSON."""

import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.parsers.columns import NumberColumn, ProfileColumns, SideTimes, TextColumn
from profiles.parsers.packing import (
    Arrays,
    pack_column,
    pack_texts,
    unpack_column,
    unpack_texts,
)

_TEXT_COLUMNS = ("types", "in_shapes", "out_shapes", "in_layouts", "in_dtypes")
_NUMBER_COLUMNS = ("computation", "memory")
_SIDES = ("device", "host")

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


def save(arrays: Arrays) -> bytes:
    """Return a `.npz` file of these arrays."""
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def columns_to_arrays(columns: ProfileColumns) -> Arrays:
    """Return the columns as named arrays."""
    arrays: Arrays = {
        "id_numbers": columns.id_numbers,
        "mentions_opencl": np.array(columns.mentions_opencl),
        **pack_texts("names", columns.names),
        **pack_texts("ids", columns.ids),
    }
    for name in _TEXT_COLUMNS:
        text: TextColumn = getattr(columns, name)
        arrays |= pack_column(name, text)
    for name in _NUMBER_COLUMNS:
        number: NumberColumn = getattr(columns, name)
        arrays |= {f"{name}.values": number.values, f"{name}.present": number.present}
    for name in _SIDES:
        times: SideTimes = getattr(columns, name)
        arrays |= {
            f"{name}.present": times.present,
            f"{name}.end_s": times.end_s,
            f"{name}.kern_s": times.kern_s,
        }
    return arrays


def columns_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> ProfileColumns:
    """Return what `columns_to_arrays` gave. Raises one of DAMAGE if something does not fit."""
    names = unpack_texts("names", arrays)
    for name, array in arrays.items():
        per_row = name.endswith((".codes", ".values", ".present", "_s")) or name == "id_numbers"
        if per_row and array.shape != (len(names),):
            raise ValueError(f"{name} has the shape {array.shape}, not ({len(names)},)")

    def number(name: str) -> NumberColumn:
        return NumberColumn(arrays[f"{name}.values"], arrays[f"{name}.present"])

    def side(name: str) -> SideTimes:
        times = (arrays[f"{name}.{field}"] for field in ("present", "end_s", "kern_s"))
        return SideTimes(*times)

    return ProfileColumns(
        names=names,
        ids=unpack_texts("ids", arrays),
        id_numbers=arrays["id_numbers"],
        types=unpack_column("types", arrays),
        device=side("device"),
        host=side("host"),
        computation=number("computation"),
        memory=number("memory"),
        in_shapes=unpack_column("in_shapes", arrays),
        out_shapes=unpack_column("out_shapes", arrays),
        in_layouts=unpack_column("in_layouts", arrays),
        in_dtypes=unpack_column("in_dtypes", arrays),
        mentions_opencl=bool(arrays["mentions_opencl"]),
    )
