"""Convert numbers of the profile's JSON to float64, with precise errors for invalid values."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.profile_json import quoted

# MegEngine writes values that JSON lacks as these strings (`src/core/impl/utils/json.cpp`);
# `profile_analyze` does not support them and crashes.
_SPELLED = {
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
    "-nan": float("nan"),
}


def to_float64(values: Sequence[Any], place: Callable[[int], str]) -> NDArray[np.float64]:
    """Return the values as (n,) float64.

    values: n numbers, or "inf", "-inf", "nan", as msgspec decoded them
    place: describes the location of the value at an index; called only for an error

    Raises ProfileFormatError: `missing_key` for UNSET, `bad_value` for anything else.
    """
    # numpy would also accept True, None and "12"
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
        "bad_value", f"Wrong data: {place(index)} is {quoted(value)}, not a number."
    )
