"""Descriptions of the fields of answers, from which the schema of the API is derived."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from msgspec import Meta


def means(text: str) -> Meta:
    """Describe a field of a typed dictionary or struct: `Annotated[int, means("...")]`."""
    return Meta(description=text)


def unknown(text: str) -> Meta:
    """Describe numbers that a profile may lack; nan and infinity are null too."""
    return means(f"{text} Null: unknown.")


class ChartText(TypedDict):
    """The sentence and notes that are shown with a chart."""

    sentence: Annotated[str, means("What the chart shows, in the reader's words.")]
    notes: Annotated[Sequence[str], means("What one must know of it, in the reader's words.")]
