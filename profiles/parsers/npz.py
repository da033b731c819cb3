"""Keep columns as one `.npz` file: small, exact, and read without pickle or JSON."""

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.parsers.columns import NumberColumn, ProfileColumns, SideTimes, TextColumn
from profiles.parsers.errors import ProfileFormatError

VERSION = 1

_TEXT_COLUMNS = ("types", "in_shapes", "out_shapes", "in_layouts", "in_dtypes")
_NUMBER_COLUMNS = ("computation", "memory")
_SIDES = ("device", "host")

Arrays = dict[str, NDArray[Any]]

# ValueError: no npz, pickled, another version, wrong shapes, or texts that are not UTF-8
_DAMAGE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
)


def to_npz(columns: ProfileColumns) -> bytes:
    """Return the columns as bytes; equal columns give equal bytes."""
    arrays: Arrays = {
        "version": np.array(VERSION),
        "id_numbers": columns.id_numbers,
        "mentions_opencl": np.array(columns.mentions_opencl),
        **_pack("names", columns.names),
        **_pack("ids", columns.ids),
    }
    for name in _TEXT_COLUMNS:
        text: TextColumn = getattr(columns, name)
        arrays |= {f"{name}.codes": text.codes, **_pack(name, text.values)}
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
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def from_npz(data: bytes) -> ProfileColumns:
    """Return the columns that `to_npz` wrote. `data` must be our own: its size is not limited.

    Raises ProfileFormatError (`bad_columns`) if it is damaged or of another version.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays: Arrays = {name: file[name] for name in file.files}
        return _columns(arrays)
    except _DAMAGE as error:
        raise ProfileFormatError("bad_columns", f"The columns are damaged: {error}.") from error


def _columns(arrays: Mapping[str, NDArray[Any]]) -> ProfileColumns:
    if arrays["version"] != VERSION:
        raise ValueError(f"their version is {arrays['version']}, not {VERSION}")
    names = _unpack("names", arrays)
    for name, array in arrays.items():
        per_row = name.endswith((".codes", ".values", ".present", "_s")) or name == "id_numbers"
        if per_row and array.shape != (len(names),):
            raise ValueError(f"{name} has the shape {array.shape}, not ({len(names)},)")

    def text(name: str) -> TextColumn:
        return TextColumn(arrays[f"{name}.codes"], _unpack(name, arrays))

    def number(name: str) -> NumberColumn:
        return NumberColumn(arrays[f"{name}.values"], arrays[f"{name}.present"])

    def side(name: str) -> SideTimes:
        times = (arrays[f"{name}.{field}"] for field in ("present", "end_s", "kern_s"))
        return SideTimes(*times)

    return ProfileColumns(
        names=names,
        ids=_unpack("ids", arrays),
        id_numbers=arrays["id_numbers"],
        types=text("types"),
        device=side("device"),
        host=side("host"),
        computation=number("computation"),
        memory=number("memory"),
        in_shapes=text("in_shapes"),
        out_shapes=text("out_shapes"),
        in_layouts=text("in_layouts"),
        in_dtypes=text("in_dtypes"),
        mentions_opencl=bool(arrays["mentions_opencl"]),
    )


def _pack(name: str, texts: Sequence[str]) -> Arrays:
    """Join texts: numpy's own text arrays pad each to the longest and drop trailing NULs."""
    encoded = [text.encode() for text in texts]
    return {
        f"{name}.utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        f"{name}.ends": np.cumsum([len(text) for text in encoded], dtype=np.int64),
    }


def _unpack(name: str, arrays: Mapping[str, NDArray[Any]]) -> tuple[str, ...]:
    joined = arrays[f"{name}.utf8"].tobytes()
    ends = arrays[f"{name}.ends"].tolist()
    return tuple(
        joined[start:end].decode() for start, end in zip([0, *ends][:-1], ends, strict=True)
    )
