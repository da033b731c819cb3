"""Validate the lists of shapes and layouts in a profile's JSON and make them compact."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from profiles.formats.columns import MISSING, TextColumn
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.profile_json import quoted
from profiles.formats.load_and_run.sections import dictionary_encode

# A tensor of MegEngine has at most 7 axes. The limit keeps a single absurd value from widening all
# rows of a printed table.
MAX_TENSOR_CHARS = 1_000
#: tensors per operator; the operator that holds all parameters of a large model has some thousands
MAX_TENSORS = 20_000


class _WrongShapesError(Exception):
    """Invalid shapes; the message describes the cause."""


@dataclass(frozen=True)
class FootprintField:
    """Location of shapes for error messages: a field of the footprints, and n operators' ids."""

    field: str
    ids: Sequence[str]


def tensor_text(axes: Any) -> str:
    """Return the numbers of one shape or layout, joined: `1,3,224,224`.

    As in `profile_analyze`, any iterable is accepted: a text counts as a list of characters.
    """
    return ",".join(map(str, axes))


def shape_column(
    raws: Sequence[bytes], costs: NDArray[np.intp], field: FootprintField, *, checked: bool = True
) -> TextColumn:
    """Return n lists of shapes (or layouts) as compact JSON.

    raws: the JSON values of k footprints as in the file, empty if the key is missing
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
            text = _compact(raw, checked=checked, gaps=field.field == "in_layouts")
        except (
            _WrongShapesError,
            msgspec.DecodeError,
            UnicodeDecodeError,
            RecursionError,
        ) as error:
            first = int(np.argmax((codes == code)[costs]))
            raise ProfileFormatError(
                "bad_value",
                f"Wrong data at `profiler.opr_footprint` entry {quoted(field.ids[first])}, "
                f"`{field.field}`: {error}.",
            ) from None
        renumber[code] = final.setdefault(text, len(final))
    return TextColumn(renumber[codes][costs], tuple(final))


def _compact(raw: bytes, *, checked: bool, gaps: bool) -> str:
    value = msgspec.json.decode(raw)
    if checked and value is not None:
        _check(value, gaps=gaps)
    return msgspec.json.encode(value).decode()


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
