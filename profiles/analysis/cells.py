"""Cells of several lines: names and shapes as `profile_analyze` prints them."""

import re
import textwrap
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import msgspec

from profiles.analysis.errors import AnalysisError
from profiles.formats.load_and_run.shapes import tensor_text

_WIDTH = 30
# Python 3.10 and newer also break a too long word after a hyphen; older ones do not
_WRAPPER = textwrap.TextWrapper(width=_WIDTH)
#: what is never broken but at the width
_ONE_WORD = re.compile(r"[^\s-]+")

#: what a cell of shapes says where there are none, as for a group
NO_SHAPES = "None"


def info_lines(texts: Iterable[str]) -> tuple[str, ...]:
    """Wrap each text at 30 characters; continuation lines start with `-  `.

    An empty text is one empty line.
    """
    lines: list[str] = []
    for text in texts:
        first, *others = _wrapped(text)
        lines.append(first)
        lines += [f"-  {line}" for line in others]
    return tuple(lines)


def _wrapped(text: str) -> list[str]:
    if _ONE_WORD.fullmatch(text):
        # as the wrapper does it, which takes ten times as long
        return [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
    return _WRAPPER.wrap(text) or [""]


def shape_lines(shapes: str | None, layouts: str | None = None) -> tuple[str, ...]:
    """Return one line a tensor, `{1,3,224,224}`, after it `-[strides]` if it has a layout.

    shapes, layouts: compact JSON as in `ProfileColumns`, None if the file has no such key.
    Where there are fewer layouts than shapes, the shapes left over are dropped: so does the
    original.
    """
    return tuple(shape_text(shapes, layouts, separator="\n", margin="").split("\n"))


def shape_text(
    shapes: str | None, layouts: str | None = None, *, separator: str = ", ", margin: str = " "
) -> str:
    """Return the same in one text: tensors are separated, strides stand in a line of their own.

    margin: what stands before strides

    Raises AnalysisError (`bad_shapes`) for what was read unchecked and is no list of lists.
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
