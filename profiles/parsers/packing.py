"""Texts and text columns as plain numpy arrays, which a `.npz` file keeps without pickle."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.parsers.columns import TextColumn

Arrays = dict[str, NDArray[Any]]


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


def pack_column(name: str, column: TextColumn) -> Arrays:
    """Return the arrays of a text column."""
    return {f"{name}.codes": column.codes, **pack_texts(name, column.values)}


def unpack_column(name: str, arrays: Mapping[str, NDArray[Any]]) -> TextColumn:
    """Return what `pack_column` packed. Raises KeyError, ValueError for damaged arrays."""
    return TextColumn(arrays[f"{name}.codes"], unpack_texts(name, arrays))
