"""Table cells of several lines: names and shapes as `profile_analyze` prints them."""

import re
import textwrap
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import msgspec

from profiles.analysis.errors import AnalysisError
from profiles.formats.load_and_run.sections import tensor_text

_WIDTH = 30
# Python 3.10 and newer also break an overlong word after a hyphen; older versions do not
_WRAPPER = textwrap.TextWrapper(width=_WIDTH)
#: text that can only be broken at the full width
_ONE_WORD = re.compile(r"[^\s-]+")

#: text of a shapes cell without shapes, for example of a group
NO_SHAPES = "None"


def info_lines(texts: Iterable[str]) -> tuple[str, ...]:
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


def shape_lines(shapes: str | None, layouts: str | None = None) -> tuple[str, ...]:
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
