"""The options as rows of the form and of the page of options."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.utils import translation

from agent.protocol.option import Group, Option
from agent.protocol.options import OPTIONS
from tasks.options.help import OPTION_HELP
from tasks.options.words import (
    GROUP_TITLES,
    KIND_WORDS,
    conditions_of,
    default_words,
    range_words,
)

#: what most tasks touch: shown at the top of the form, outside of the groups
COMMON = ("iter", "warmup_iter", "batch_size", "fast_run", "optimize_for_inference", "cpu_default")


def common_rows() -> list[dict[str, Any]]:
    return [row_of(OPTIONS[name]) for name in COMMON]


def form_groups(caches: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """The other options that users may set, in the groups and the order of the table.

    `caches` are the artifacts of earlier tasks that an option may take as its content.
    """
    groups = _groups(o for o in OPTIONS.values() if o.kind != "agent" and o.name not in COMMON)
    for group in groups:
        for row in group["options"]:
            row["caches"] = caches.get(row["name"], ())
    return groups


def all_groups() -> list[dict[str, Any]]:
    """Every option that users may set."""
    return _groups(option for option in OPTIONS.values() if option.kind != "agent")


def row_of(option: Option) -> dict[str, Any]:
    """One option in words; `placeholder` stands for a number that is not set."""
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
        "search": _searched(option),
        "conditions": list(conditions_of(option)),
    }


def _searched(option: Option) -> str:
    """What the form's search looks into: the name and the help in every language."""
    texts = [option.name, option.name.replace("_", " ")]
    for language, _ in settings.LANGUAGES:
        with translation.override(language):
            texts.append(str(OPTION_HELP[option.name]))
    return " ".join(texts).lower()


def _groups(options: Iterable[Option]) -> list[dict[str, Any]]:
    found: dict[Group, list[dict[str, Any]]] = {}
    for option in options:
        found.setdefault(option.group, []).append(row_of(option))
    return [
        {"key": group.value, "title": GROUP_TITLES[group], "options": rows}
        for group, rows in found.items()
    ]
