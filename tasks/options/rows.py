"""Rows for load_and_run's options in the form for a new task and on the page of options."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.utils import translation

from agent.protocol.option_table import Option, OptionGroup
from agent.protocol.options import OPTIONS
from tasks.options.help import OPTION_HELP
from tasks.options.words import (
    GROUP_TITLES,
    KIND_WORDS,
    conditions_of,
    default_words,
    range_words,
)

#: the options that most tasks set, which the form shows first and outside of the groups
COMMON = ("iter", "warmup_iter", "batch_size", "fast_run", "optimize_for_inference", "cpu_default")


def common_rows() -> list[dict[str, Any]]:
    return [row_of(OPTIONS[name]) for name in COMMON]


def form_groups(caches: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the options that users may set, except the common ones, grouped as in the table.

    caches: artifacts of earlier tasks that may be the file of an option, by option
    """
    groups = _groups(o for o in OPTIONS.values() if o.kind != "agent" and o.name not in COMMON)
    for group in groups:
        for row in group["options"]:
            row["caches"] = caches.get(row["name"], ())
    return groups


def all_groups() -> list[dict[str, Any]]:
    """Return all options that users may set, by group."""
    return _groups(option for option in OPTIONS.values() if option.kind != "agent")


def row_of(option: Option) -> dict[str, Any]:
    """Return the template context for one option."""
    return {
        "name": option.name,
        "kind": option.kind,
        "type": option.type,
        "kind_words": KIND_WORDS[option.kind],
        "default": default_words(option),
        "is_on": option.default is True,
        "range": range_words(option),
        "minimum": option.minimum,
        "maximum": option.maximum,
        "choices": [choice for choice in option.choices if choice != option.default],
        "file_taken": option.file_taken or option.kind == "file",
        "help": OPTION_HELP[option.name],
        "search": _search_text(option),
        "conditions": list(conditions_of(option)),
    }


def _search_text(option: Option) -> str:
    """Return the text that the form's search matches: name and help in every language."""
    texts = [option.name, option.name.replace("_", " ")]
    for language, _ in settings.LANGUAGES:
        with translation.override(language):
            texts.append(str(OPTION_HELP[option.name]))
    return " ".join(texts).lower()


def _groups(options: Iterable[Option]) -> list[dict[str, Any]]:
    rows_by_group: dict[OptionGroup, list[dict[str, Any]]] = {}
    for option in options:
        rows_by_group.setdefault(option.group, []).append(row_of(option))
    return [
        {"key": group.value, "title": GROUP_TITLES[group], "options": rows}
        for group, rows in rows_by_group.items()
    ]
