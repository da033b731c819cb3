"""Sizes of MegEngine's dtypes; source: `dnn/include/megdnn/dtype.h`."""

import json
from functools import lru_cache

#: bytes of one element by the name used in profiles; elements below one byte are packed
ELEMENT_BYTES = {
    "Float32": 4.0,
    "Float16": 2.0,
    "BFloat16": 2.0,
    "Int32": 4.0,
    "Int16": 2.0,
    "Uint16": 2.0,
    "Int8": 1.0,
    "Uint8": 1.0,
    "Byte": 1.0,
    "Bool": 1.0,
    "Complex64": 8.0,
    "QuantizedS32": 4.0,
    "QuantizedS16": 2.0,
    "QuantizedS8": 1.0,
    "Quantized8Asymm": 1.0,
    "QuantizedS4": 0.5,
    "Quantized4Asymm": 0.5,
    "IntB4": 0.5,
    "IntB2": 0.25,
    "IntB1": 0.125,
    "UintB4": 0.5,
    "QuantizedS1": 0.125,
}


def element_bytes(dtype: str | None) -> float | None:
    """Return the bytes of one element; None for an unknown dtype.

    Parameters of a quantised dtype, as in `QuantizedS8(scale=0.1)`, are ignored.
    """
    return None if dtype is None else ELEMENT_BYTES.get(dtype.partition("(")[0].strip())


@lru_cache(maxsize=1000)
def first_dtype(dtypes: str | None) -> str:
    """Return the first known dtype of `in_dtypes`, without parameters; empty if there is none."""
    try:
        named = json.loads(dtypes or "[]")
    except ValueError:
        return ""
    known = [str(name).partition("(")[0] for name in named if name] if named else []
    return known[0] if known else ""
