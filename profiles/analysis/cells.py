"""Cells of several lines: names and shapes as `profile_analyze` prints them."""

import textwrap
from collections.abc import Iterable
from itertools import repeat

import msgspec

from profiles.parsers.shapes import tensor_text

# Python 3.10 and newer also break a too long word after a hyphen; older ones do not
_WRAPPER = textwrap.TextWrapper(width=30)


def info_lines(texts: Iterable[str]) -> tuple[str, ...]:
    """Wrap each text at 30 characters; continuation lines start with `-  `.

    An empty text is one empty line.
    """
    lines: list[str] = []
    for text in texts:
        first, *others = _WRAPPER.wrap(text) or [""]
        lines.append(first)
        lines += [f"-  {line}" for line in others]
    return tuple(lines)


def shape_lines(shapes: str | None, layouts: str | None = None) -> tuple[str, ...]:
    """Return one line a tensor, `{1,3,224,224}`, after it `-[strides]` if it has a layout.

    shapes, layouts: compact JSON as in `ProfileColumns`, None if the file has no such key.
    Where there are fewer layouts than shapes, the shapes left over are dropped: so does the
    original.
    """
    if shapes is None:
        return ("N/A",)
    tensors = msgspec.json.decode(shapes)
    if tensors is None:
        return ("None",)
    strides = None if layouts is None else msgspec.json.decode(layouts)
    lines = []
    for axes, layout in zip(tensors, repeat(None) if strides is None else strides, strict=False):
        lines.append(f"{{{tensor_text(axes)}}}")
        if layout:
            lines.append(f"-[{tensor_text(layout)}]")
    return tuple("\n".join(lines).split("\n"))
