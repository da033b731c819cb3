"""The generated pages of docs/reference, one function each.

`python -m webprofile.tests.reference_pages` (`make reference`) writes them.
"""

import os
import tomllib
from collections.abc import Callable

import django
from django.utils import translation
from prometheus_client import Metric

from webprofile.tests.deployment.environment_names import ROOT, read_by_settings
from webprofile.tests.permission_page import markdown_table, permissions

FOLDER = ROOT / "docs" / "reference"
SETTINGS = ROOT / "webprofile" / "settings" / "reference.toml"
_OPTIONS = """\
# Options of load_and_run

A task accepts these options of load_and_run 1.13. The form for a new task, the API and the command
line check values against the same table. The site shows it at `/docs/options/`, in English or
Chinese.
"""
_ERRORS = """\
# Error codes

Every error of the API is a problem detail (RFC 9457) with one of these codes in `code`. Codes are
stable; `detail` is the text, in the language of the request. Where the error occurs, values replace
the names in braces. `/api/v1/problems/` returns the same list as JSON, in English or Chinese.
"""
_METRICS = """\
# Metrics

Names end in their unit. Labels have few values, all of them known beforehand: no user, task, device
or address is one. [Monitoring](../monitoring.md) explains who may read `/metrics`, the dashboard
and the alerts.
"""
_METRICS_READ = """\
## Read from the database

Every web process shows the same values, which it reads at most every 5 s. Aggregate them with
`max by (...)`, never with `sum`. The connection pool, the disk and the versions are those of the
process.
"""
_METRICS_COUNTED = """\
## Counted by each process

Each process counts its own work. Aggregate these with `sum`. A histogram has the series `_bucket`,
`_sum` and `_count`.
"""
_SETTINGS = """\
# Settings

A process reads its settings from environment variables, once, when it starts. A setting marked
*file* may also be given as `NAME_FILE`, the path of a file with the value. Names end in their unit:
`_S` is seconds. A number must not be negative; a time is at most 3650 days, a size at most
1 PiB. A process does not start with a value that it cannot read; `manage.py check --deploy`
reports wrong combinations. The [deployment guide](../deploy.md) explains where a site sets them.
"""


def options() -> str:
    """Return the page of the options of load_and_run."""
    from tasks.options import NEVER_TAKEN, all_groups

    titles = ["option", "value", "default", "description"]
    parts = [
        _head("agent/protocol/options.json and tasks/options.py"),
        _OPTIONS,
    ]
    for group in all_groups():
        rows = [
            [
                f"`{row['name']}`",
                str(row["kind_words"]) + (f", {_value(row['range'])}" if row["range"] else ""),
                row["default"],
                " ".join([str(row["help"]), *row["conditions"]]),
            ]
            for row in group["options"]
        ]
        parts += [f"## {group['title']}\n", markdown_table(titles, rows)]
    refused = [[_names(names), str(reason)] for names, reason in NEVER_TAKEN.items()]
    parts += [
        "## Options that a task cannot set\n",
        markdown_table(["option", "reason"], refused),
    ]
    return "\n".join(parts)


def _value(text: str) -> str:
    """Return the range of an option with its regular expression, if it is one, as code."""
    word, _, pattern = text.partition("matches ")
    return f"matches `{pattern}`" if pattern and not word else text


def _names(text: str) -> str:
    return ", ".join(f"`{name}`" for name in text.split(", "))


def errors() -> str:
    """Return the page of error codes, with the texts and values of `/api/v1/problems/`."""
    from webprofile.messages.errors import WORDINGS
    from webprofile.messages.values import template, values_in

    rows = [
        [
            f"`{code}`",
            template(text),
            "; ".join(f"`{value.name}`: {value.meaning}" for value in values_in(code, text)),
        ]
        for code, text in sorted(WORDINGS.items())
    ]
    return "\n".join(
        [
            _head("webprofile/messages"),
            _ERRORS,
            markdown_table(["code", "text", "values"], rows),
        ]
    )


def metrics() -> str:
    """Return the page of metrics, from the documentation strings of the registries."""
    from prometheus_client.metrics import MetricWrapperBase

    from webprofile.observability import counters
    from webprofile.observability.exposition import build_registry
    from webprofile.operations.metrics import DESCRIPTIONS

    # the labels of a family without samples are in no public attribute
    counted = [
        (_full_name(family), family.type, ", ".join(metric._labelnames), family.documentation)
        for metric in vars(counters).values()
        if isinstance(metric, MetricWrapperBase)
        for family in metric.describe()
    ]
    (build,) = build_registry().collect()
    read = [
        (name, "counter" if name.endswith("_total") else "gauge", label, text)
        for name, (text, label) in DESCRIPTIONS.items()
    ]
    read.append(
        (_full_name(build), "info", ", ".join(build.samples[0].labels), build.documentation)
    )
    titles = ["metric", "type", "labels", "description"]
    tables = [
        markdown_table(titles, [[f"`{name}`", *cells] for name, *cells in rows])
        for rows in (read, counted)
    ]
    return "\n".join(
        [
            _head("webprofile/operations/metrics.py and webprofile/observability/counters.py"),
            _METRICS,
            _METRICS_READ,
            tables[0],
            _METRICS_COUNTED,
            tables[1],
        ]
    )


def settings() -> str:
    """Return the page of settings; the settings modules say which of them may be files."""
    data = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))
    names = read_by_settings()
    titles = ["setting", "meaning", "default"]
    parts = [_head("webprofile/settings/reference.toml"), _SETTINGS]
    for group in data["group"]:
        rows = [
            [
                f"`{name}`" + (" (file)" if f"{name}_FILE" in names else ""),
                setting["meaning"],
                setting.get("default", "must be set"),
            ]
            for name, setting in group["settings"].items()
        ]
        parts += [f"## {group['title']}\n", markdown_table(titles, rows)]
    return "\n".join(parts)


def _full_name(family: Metric) -> str:
    """Return the name of a family as Prometheus stores it."""
    return family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")


def _head(source: str) -> str:
    return f"<!-- Generated by `make reference` from {source}. Do not edit. -->\n"


PAGES: dict[str, Callable[[], str]] = {
    "permissions": permissions,
    "options": options,
    "errors": errors,
    "metrics": metrics,
    "settings": settings,
}


def page_of(name: str) -> str:
    """Return a page of docs/reference as Markdown, in English."""
    with translation.override("en"):
        return PAGES[name]()


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webprofile.settings.dev")
    django.setup()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        (FOLDER / f"{name}.md").write_text(page_of(name), encoding="utf-8")


if __name__ == "__main__":
    main()
