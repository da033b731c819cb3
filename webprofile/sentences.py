"""Join translated sentences: with a space, in Chinese without."""

from collections.abc import Iterable

from django import template
from django.utils.translation import get_language

register = template.Library()


@register.simple_tag
def gap() -> str:
    """Return the separator of sentences in the active language."""
    return "" if (get_language() or "").startswith("zh") else " "


def sentences(texts: Iterable[str]) -> str:
    """Join sentences and skip empty ones."""
    return gap().join(filter(None, texts))
