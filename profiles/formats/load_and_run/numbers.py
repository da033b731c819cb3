"""Numbers of the profile's JSON as float64, with the place of one that is none."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.profile_json import shown

# MegEngine's writer spells what JSON cannot (`src/core/impl/utils/json.cpp`); `profile_analyze`
# does not know these and crashes.
_SPELLED = {
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
    "-nan": float("nan"),
}


def to_float64(values: Sequence[Any], place: Callable[[int], str]) -> NDArray[np.float64]:
    """Return (n,) float64.

    values: n numbers, or "inf", "-inf", "nan", as msgspec decoded them
    place: says where the value at an index stands, called only for an error

    Raises ProfileFormatError: `missing_key` for UNSET, `bad_value` for anything else.
    """
    # numpy alone would take True, None and "12" for numbers too
    if not set(map(type, values)) <= {float, int}:
        values = [_number(value, place, i) for i, value in enumerate(values)]
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        raise ProfileFormatError(
            "bad_value", f"An integer near {place(0)} does not fit a float64."
        ) from None


def _number(value: Any, place: Callable[[int], str], index: int) -> float:
    if type(value) in (float, int):
        return float(value)
    if isinstance(value, str) and value in _SPELLED:
        return _SPELLED[value]
    if value is UNSET:
        raise ProfileFormatError("missing_key", f"Wrong data: {place(index)} is missing.")
    raise ProfileFormatError(
        "bad_value", f"Wrong data: {place(index)} is {shown(value)}, not a number."
    )
