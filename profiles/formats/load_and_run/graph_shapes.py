"""Shapes of a graph's variables, from whoever knows them, and JSON written compactly."""

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
    """Return the shape of each variable as compact JSON, None if nobody knows it.

    known: v shapes of the memory plan or inferred before the run, as in the file; empty for none
    reads, makes: for each operator the variables that it reads or makes, and the list of shapes
        in its footprint. What reads a variable knows more than what makes it: the shape of what
        is fed to a graph stands only there.
    """
    texts: dict[bytes, str | None] = {b"": None}

    def compact(raw: Raw) -> str | None:
        text = bytes(raw)
        if text not in texts:
            texts[text] = _axes(_decoded(raw))
        return texts[text]

    shapes = [compact(raw) for raw in known]
    for links, told in (reads, makes):
        for variables, raw in zip(links, told, strict=True):
            places = variables.tolist()
            if not bytes(raw) or all(shapes[place] is not None for place in places):
                continue
            lists = _decoded(raw)
            for place, axes in zip(places, lists if isinstance(lists, list) else (), strict=False):
                shapes[place] = shapes[place] or _axes(axes)
    return shapes


def compact_column(raws: Sequence[Raw]) -> TextColumn:
    """Return JSON values without blanks; missing where there is none or it is damaged."""
    known: dict[bytes, str | None] = {b"": None}
    texts = []
    for raw in raws:
        text = bytes(raw)
        if text not in known:
            known[text] = _encoded(_decoded(raw))
        texts.append(known[text])
    return TextColumn.from_texts(texts)


def _decoded(raw: Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except _DAMAGE:
        return None


def _encoded(value: Any) -> str | None:
    try:
        return msgspec.json.encode(value).decode()
    except (OverflowError, RecursionError):
        return None


def _axes(value: Any) -> str | None:
    if isinstance(value, list) and all(type(axis) is int for axis in value):
        return _encoded(value)
    return None
