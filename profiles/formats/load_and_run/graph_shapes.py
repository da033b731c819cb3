"""Shapes of a graph's variables, collected from several sections of the file, as compact JSON."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from profiles.formats.columns import TextColumn
from profiles.formats.load_and_run.graph import Links

_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def variable_shapes(
    known: Sequence[Raw], *, reads: tuple[Links, Sequence[Raw]], makes: tuple[Links, Sequence[Raw]]
) -> list[str | None]:
    """Return the shape of each variable as compact JSON, None if it is unknown.

    known: v shapes from the memory plan or inferred before the run, as in the file; empty if absent
    reads, makes: for each operator, the variables that it reads or produces, and the list of shapes
        in its footprint. `reads` takes precedence, since only it has the shapes of graph inputs.
    """
    texts: dict[bytes, str | None] = {b"": None}

    def compact(raw: Raw) -> str | None:
        text = bytes(raw)
        if text not in texts:
            texts[text] = _axes(_decode(raw))
        return texts[text]

    shapes = [compact(raw) for raw in known]
    for links, raw_lists in (reads, makes):
        for variables, raw in zip(links, raw_lists, strict=True):
            rows = variables.tolist()
            if not bytes(raw) or all(shapes[row] is not None for row in rows):
                continue
            lists = _decode(raw)
            for row, axes in zip(rows, lists if isinstance(lists, list) else (), strict=False):
                shapes[row] = shapes[row] or _axes(axes)
    return shapes


def compact_column(raws: Sequence[Raw]) -> TextColumn:
    """Return JSON values without whitespace; missing where a value is absent or damaged."""
    known: dict[bytes, str | None] = {b"": None}
    texts = []
    for raw in raws:
        text = bytes(raw)
        if text not in known:
            known[text] = _encode(_decode(raw))
        texts.append(known[text])
    return TextColumn.from_texts(texts)


def _decode(raw: Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except _DAMAGE:
        return None


def _encode(value: Any) -> str | None:
    try:
        return msgspec.json.encode(value).decode()
    except (OverflowError, RecursionError):
        return None


def _axes(value: Any) -> str | None:
    if isinstance(value, list) and all(type(axis) is int for axis in value):
        return _encode(value)
    return None
