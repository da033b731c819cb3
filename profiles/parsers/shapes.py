"""Lists of shapes and of layouts as the profile's JSON holds them, checked and made compact."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from profiles.parsers.columns import MISSING, TextColumn
from profiles.parsers.errors import ProfileFormatError
from profiles.parsers.profile_json import shown

# A tensor of MegEngine has at most 7 axes. The limit keeps one absurd cell from making every
# line of a table as wide.
MAX_TENSOR_CHARS = 1_000


def tensor_text(axes: Any) -> str:
    """Return the numbers of one shape or layout, joined: `1,3,224,224`.

    Any iterable will do, as in `profile_analyze`: a text is a shape of single letters.
    """
    return ",".join(map(str, axes))


def shape_column(raws: Sequence[bytes], keys: Sequence[str], field: str) -> TextColumn:
    """Return n lists of shapes (or layouts) as compact JSON.

    raws: n JSON values as in the file, empty where the key is missing
    keys: n keys of `opr_footprint`, to name a place

    Raises ProfileFormatError (`bad_value`) if a value cannot be printed as a list of shapes.
    """
    known: dict[bytes, int] = {}
    first_codes = [known.setdefault(raw, len(known)) for raw in raws]
    firsts = dict(zip(reversed(first_codes), range(len(raws) - 1, -1, -1), strict=True))
    final: dict[str, int] = {}
    renumber = np.full(len(known), MISSING, dtype=np.int32)
    for raw, code in known.items():
        if raw:
            place = f"`profiler.opr_footprint` entry {shown(keys[firsts[code]])}, `{field}`"
            renumber[code] = final.setdefault(_compact(raw, place, field), len(final))
    return TextColumn(renumber[np.array(first_codes, dtype=np.intp)], tuple(final))


def _compact(raw: bytes, place: str, field: str) -> str:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProfileFormatError("bad_value", f"Wrong data at {place}: {error}.") from None
    if value is not None:
        _check(value, place, gaps=field == "in_layouts")
    return msgspec.json.encode(value).decode()


def _check(value: object, place: str, *, gaps: bool) -> None:
    if not isinstance(value, list | str | dict):
        raise ProfileFormatError(
            "bad_value", f"Wrong data at {place}: {shown(value)} is not a list of lists."
        )
    for axes in value:
        if gaps and not axes:  # the layout of a contiguous tensor
            continue
        if not isinstance(axes, list | str | dict):
            raise ProfileFormatError(
                "bad_value", f"Wrong data at {place}: {shown(axes)} is not a list."
            )
        if len(tensor_text(axes)) > MAX_TENSOR_CHARS:
            raise ProfileFormatError("bad_value", f"Wrong data at {place}: a tensor is too long.")
