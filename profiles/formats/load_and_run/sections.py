"""Intermediate form of a profile between decoding and columns, shared by both readers.

Numbers and shapes are validated here, with errors that name the operator.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from profiles.formats.columns import MISSING, NumberColumn, SideTimes, TextColumn
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.profile_json import quoted

Value = TypeVar("Value", bound=Hashable)

# MegEngine writes values that JSON lacks as these strings (`src/core/impl/utils/json.cpp`);
# `profile_analyze` does not support them and crashes.
_SPELLED = {
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
    "-nan": float("nan"),
}

# A tensor of MegEngine has at most 7 axes. The limit keeps a single absurd value from widening all
# rows of a printed table.
MAX_TENSOR_CHARS = 1_000
#: tensors per operator; the operator that holds all parameters of a large model has some thousands
MAX_TENSORS = 20_000


@dataclass(frozen=True, eq=False)
class Sections:
    """The n operators that have times or a footprint, in the order of `graph_exec.operator`.

    costs: (n,) index of each operator's footprint among k footprints
    in_shapes, out_shapes, in_layouts: k JSON values as in the file, empty if the key is missing
    The other fields are as in `ProfileColumns`.
    """

    names: Sequence[str]
    ids: Sequence[str]
    types: Sequence[str]
    device: SideTimes
    host: SideTimes
    computation: NumberColumn
    memory: NumberColumn
    costs: NDArray[np.intp]
    in_shapes: Sequence[bytes]
    out_shapes: Sequence[bytes]
    in_layouts: Sequence[bytes]
    in_dtypes: TextColumn


def largest(values: NDArray[np.float64], counts: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return (n,) the maximum of each group of `counts` consecutive values, nan if it is empty.

    values: (counts.sum(),) float64; a nan in a group makes its maximum nan, as with numpy.max
    counts: (n,) intp
    """
    maxima = np.full(len(counts), np.nan)
    if values.size:
        firsts = np.cumsum(counts) - counts
        present = counts > 0
        maxima[present] = np.maximum.reduceat(values, firsts[present])
    return maxima


def dictionary_encode(values: Sequence[Value]) -> tuple[NDArray[np.intp], list[Value]]:
    """Return (n,) codes of repeating values, and the distinct values in order of appearance."""
    # assigns the next code to each new value
    code: defaultdict[Value, int] = defaultdict(count().__next__)
    return np.fromiter(map(code.__getitem__, values), np.intp, len(values)), list(code)


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


def tensor_text(axes: Any) -> str:
    """Return the numbers of one shape or layout, joined: `1,3,224,224`.

    As in `profile_analyze`, any iterable is accepted: a text counts as a list of characters.
    """
    return ",".join(map(str, axes))


def shape_column(
    raws: Sequence[bytes], field: str, ids: Sequence[str], costs: NDArray[np.intp], *, checked: bool
) -> TextColumn:
    """Return n lists of shapes (or layouts) as compact JSON.

    raws: the JSON values of k footprints as in the file, empty if the key is missing
    field, ids: key of the values, and n operators' ids, for error messages
    costs: (n,) index of each operator's footprint
    checked: whether every value must be a list of lists within the limits

    Raises ProfileFormatError (`bad_value`) if a value cannot be decoded or is invalid.
    """
    codes, different = dictionary_encode(raws)
    final: dict[str, int] = {}
    renumber = np.full(len(different), MISSING, dtype=np.int32)
    for code, raw in enumerate(different):
        if not raw:
            continue
        try:
            text = _compact(raw, checked=checked, gaps=field == "in_layouts")
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            first = int(np.argmax((codes == code)[costs]))
            raise ProfileFormatError(
                "bad_value",
                f"Wrong data at `profiler.opr_footprint` entry {quoted(ids[first])}, "
                f"`{field}`: {error}.",
            ) from None
        renumber[code] = final.setdefault(text, len(final))
    return TextColumn(renumber[codes][costs], tuple(final))


def _compact(raw: bytes, *, checked: bool, gaps: bool) -> str:
    value = msgspec.json.decode(raw)
    if checked and value is not None:
        _check(value, gaps=gaps)
    return msgspec.json.encode(value).decode()


class _WrongShapesError(ValueError):
    """Invalid shapes; the message describes the cause."""


def _check(value: object, *, gaps: bool) -> None:
    if not isinstance(value, list | str | dict):
        raise _WrongShapesError(f"{quoted(value)} is not a list of lists")
    if len(value) > MAX_TENSORS:
        raise _WrongShapesError(f"{len(value)} tensors are too many")
    for axes in value:
        if gaps and not axes:  # the layout of a contiguous tensor
            continue
        if not isinstance(axes, list | str | dict):
            raise _WrongShapesError(f"{quoted(axes)} is not a list")
        if len(tensor_text(axes)) > MAX_TENSOR_CHARS:
            raise _WrongShapesError("a tensor is too long")
