"""Sentences that follow each other: with a space between them, in Chinese without."""

from collections.abc import Iterable

from django import template
from django.utils.translation import get_language

register = template.Library()


@register.simple_tag
def gap() -> str:
    """What stands between two sentences in the reader's language."""
    return "" if (get_language() or "").startswith("zh") else " "


def sentences(texts: Iterable[str]) -> str:
    """Join sentences; empty ones are left out."""
    return gap().join(filter(None, texts))
