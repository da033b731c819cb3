"""Pages show times in the user's zone: no template prints a stored time directly."""

import re

import pytest
from django.apps import apps
from django.conf import settings
from django.db.models import DateTimeField

TEMPLATES = sorted((settings.BASE_DIR / "templates").rglob("*.html"))
#: names of all columns that hold a moment, and of what services make of them
MOMENTS = {
    field.name
    for model in apps.get_models()
    for field in model._meta.get_fields()
    if isinstance(field, DateTimeField)
} | {"at", "since", "until", "expires"}
#: filters that say it in the reader's zone, which `ReaderMiddleware` sets; an <option> holds no tag
LOCAL = ("date:", "time:")


def printed_moments(text: str) -> list[str]:
    """The places that print a moment without the tag `moment`, and with no filter for dates."""
    places = []
    for printed in re.findall(r"\{\{\s*(.*?)\s*\}\}", text):
        path, *filters = (part.strip() for part in printed.split("|"))
        is_told = any(name.startswith(LOCAL) for name in filters)
        if path.rpartition(".")[2] in MOMENTS and not is_told:
            places.append(printed)
    return places


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_prints_a_moment_bare(template):
    assert printed_moments(template.read_text(encoding="utf-8")) == []


def test_a_bare_moment_would_be_found():
    assert "created_at" in MOMENTS
    bare = "{{ task.created_at }} {% moment task.created_at %} {{ task.created_at|date:'H:i' }}"
    assert printed_moments(bare) == ["task.created_at"]
