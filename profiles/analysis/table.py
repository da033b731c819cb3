"""The rows of a selection as numbers and texts by name; every table formats its cells from them."""

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from profiles.analysis.errors import AnalysisError
from profiles.analysis.select import Selection
from profiles.formats.columns import MISSING, ProfileColumns
from profiles.formats.load_and_run.sections import tensor_text

_WIDTH = 30
# Python 3.10 and newer also break an overlong word after a hyphen; older versions do not
_WRAPPER = textwrap.TextWrapper(width=_WIDTH)
#: text that can only be broken at the full width
_ONE_WORD = re.compile(r"[^\s-]+")

#: text of a shapes cell without shapes, for example of a group
NO_SHAPES = "None"

Lines = tuple[str, ...]
Number = float | None
Numbers = tuple[float, float, float, float, Number, Number, Number, Number]


@dataclass(frozen=True, slots=True)
class TableRow:
    """One operator or one group of operators.

    None stands for `N/A` of `profile_analyze`; numbers may be inf or nan.

    place: index in the selection, from 0
    operator: row of the columns, MISSING for a group
    name, id: of the operator; for a group, the type and `N/A`
    count: number of operators in the row
    ratio: self time / total of the side (1 is all of it); nan if that total is 0
    cumulative_s, cumulative_ratio: running sum over this row and those above it
    flops: operations per second
    bandwidth_bytes_per_s: memory / self time
    in_shapes, out_shapes: one line per tensor, and one for its strides (`shape_lines`)
    """

    place: int
    operator: int
    name: str
    type: str
    id: str
    count: int
    self_s: float
    ratio: float
    cumulative_s: float
    cumulative_ratio: float
    computation_flo: float | None
    flops: float | None
    memory_bytes: float | None
    bandwidth_bytes_per_s: float | None
    in_shapes: Lines
    out_shapes: Lines


def rows(
    columns: ProfileColumns, selection: Selection, start: int = 0, stop: int | None = None
) -> tuple[TableRow, ...]:
    """Return the rows `selection[start:stop]`, with the indices of Python's slices."""
    places = range(*slice(start, stop).indices(len(selection)))
    cut = slice(places.start, max(places.start, places.stop))
    operators = selection.rows[cut]
    if selection.is_grouped:
        no_shapes: Lines = (NO_SHAPES,)
        shapes = (no_shapes,) * len(places), (no_shapes,) * len(places)
    else:
        shapes = _shapes(columns, operators)
    lines = zip(
        places,
        operators.tolist(),
        selection.types.codes[cut].tolist(),
        selection.counts[cut].tolist(),
        _numbers(selection, cut),
        *shapes,
        strict=True,
    )
    made = []
    numbers: Numbers
    for place, operator, code, count, numbers, in_lines, out_lines in lines:
        kind = selection.types.values[code] if code != MISSING else ""
        if selection.is_grouped:
            name, identity = kind, "N/A"
        else:
            name, identity = columns.names[operator], columns.ids[operator]
        made.append(
            TableRow(place, operator, name, kind, identity, count, *numbers, in_lines, out_lines)
        )
    return tuple(made)


def _numbers(selection: Selection, cut: slice) -> Iterator[Numbers]:
    """Yield the eight numbers of each row, from the self time to the bandwidth."""
    return zip(
        selection.self_s[cut].tolist(),
        selection.ratio[cut].tolist(),
        selection.cumulative_s[cut].tolist(),
        selection.cumulative_ratio[cut].tolist(),
        selection.computation.optional(cut),
        selection.flops.optional(cut),
        selection.memory.optional(cut),
        selection.bandwidth.optional(cut),
        strict=True,
    )


def _shapes(
    columns: ProfileColumns, operators: NDArray[np.intp]
) -> tuple[tuple[Lines, ...], tuple[Lines, ...]]:
    """Return the lines of in_shapes and of out_shapes; equal cells are formatted once."""
    known: dict[tuple[str | None, str | None], Lines] = {}

    def lines(shapes: str | None, layouts: str | None) -> Lines:
        key = (shapes, layouts)
        if key not in known:
            known[key] = shape_lines(shapes, layouts)
        return known[key]

    return (
        tuple(lines(columns.in_shapes[row], columns.in_layouts[row]) for row in operators),
        tuple(lines(columns.out_shapes[row], None) for row in operators),
    )


def info_lines(texts: Iterable[str]) -> Lines:
    """Wrap each text at 30 characters; continuation lines start with `-  `.

    An empty text is one empty line.
    """
    lines: list[str] = []
    for text in texts:
        first, *others = _wrap(text)
        lines.append(first)
        lines += [f"-  {line}" for line in others]
    return tuple(lines)


def _wrap(text: str) -> list[str]:
    if _ONE_WORD.fullmatch(text):
        # the same result as `_WRAPPER`, which is ten times slower
        return [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
    return _WRAPPER.wrap(text) or [""]


def shape_lines(shapes: str | None, layouts: str | None = None) -> Lines:
    """Return one line per tensor, `{1,3,224,224}`, followed by `-[strides]` if it has a layout.

    shapes, layouts: compact JSON as in `ProfileColumns`; None if the file has no such key

    If there are fewer layouts than shapes, the remaining shapes are dropped, as in
    `profile_analyze`.
    """
    return tuple(shape_text(shapes, layouts, separator="\n", margin="").split("\n"))


def shape_text(
    shapes: str | None, layouts: str | None = None, *, separator: str = ", ", margin: str = " "
) -> str:
    """Return the shapes of all tensors as one text, with the strides of a tensor on a line of their
    own.

    separator: between two tensors
    margin: in front of the strides

    Raises AnalysisError (`bad_shapes`) if the shapes, which parsers do not check, are not a list of
    lists.
    """
    if shapes is None:
        return "N/A"
    tensors = msgspec.json.decode(shapes)
    if tensors is None:
        return NO_SHAPES
    strides = None if layouts is None else msgspec.json.decode(layouts)
    try:
        pairs = zip(tensors, repeat(None) if strides is None else strides, strict=False)
        return separator.join(_tensor(axes, layout, margin) for axes, layout in pairs)
    except TypeError:
        raise AnalysisError("bad_shapes", f"These are no shapes: {shapes[:80]}.") from None


def _tensor(axes: Any, layout: Any, margin: str) -> str:
    text = f"{{{tensor_text(axes)}}}"
    return f"{text}\n{margin}-[{tensor_text(layout)}]" if layout else text
