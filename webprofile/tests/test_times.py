"""Pages show times in the user's zone: no template prints a stored time directly."""

import re

import pytest
from django.apps import apps
from django.conf import settings
from django.db.models import DateTimeField

TEMPLATES = sorted((settings.BASE_DIR / "templates").rglob("*.html"))
#: names of all columns with a time, and of times that services compute
MOMENTS = {
    field.name
    for model in apps.get_models()
    for field in model._meta.get_fields()
    if isinstance(field, DateTimeField)
} | {"at", "since", "until", "expires"}
#: filters that print it in the zone that `ReaderMiddleware` sets, since <option> contains no tag
LOCAL = ("date:", "time:")


def printed_moments(text: str) -> list[str]:
    """Return the expressions that print a time without the tag `moment` and without a filter."""
    places = []
    for printed in re.findall(r"\{\{\s*(.*?)\s*\}\}", text):
        path, *filters = (part.strip() for part in printed.split("|"))
        is_formatted = any(name.startswith(LOCAL) for name in filters)
        if path.rpartition(".")[2] in MOMENTS and not is_formatted:
            places.append(printed)
    return places


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_templates_print_times_only_with_a_filter(template):
    assert printed_moments(template.read_text(encoding="utf-8")) == []


def test_bare_time_is_detected():
    assert "created_at" in MOMENTS
    bare = "{{ task.created_at }} {% moment task.created_at %} {{ task.created_at|date:'H:i' }}"
    assert printed_moments(bare) == ["task.created_at"]
