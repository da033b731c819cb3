"""Selection of tasks for management commands: by id, and by the filters of the API."""

import argparse
from typing import Any

from django.core.management.base import CommandError
from django.db.models import QuerySet
from django.http import QueryDict

from tasks.filters import TaskFilters
from tasks.models import Purpose, Task, TaskKind
from tasks.states import Status
from webprofile.terminal.exit_codes import USAGE

#: filters of the API, to which the arguments of a command are parsed
FILTERS = (
    "status", "kind", "owner", "worker_name", "version", "model_name", "title", "created_after",
    "created_before",
)  # fmt: skip


def is_narrowed(options: dict[str, Any]) -> bool:
    """Whether any task or filter was given; otherwise all tasks would be selected."""
    return bool(options["ids"]) or any(options[name] for name in FILTERS)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add arguments for ids and filters, which are combined with AND."""
    add = parser.add_argument
    add("ids", nargs="*", type=int, metavar="TASK", help="task numbers, subject to the filters")
    add("--status", action="append", choices=Status.values, help="status; may be repeated")
    add("--kind", choices=TaskKind.values, help="tasks that profile a model, or a script")
    add("--owner", metavar="E-MAIL", help="tasks of this user")
    add("--worker", dest="worker_name", metavar="NAME", help="tasks on this device")
    add("--megengine", dest="version", metavar="VERSION", help="tasks with this version")
    text = "part of the file name of the model or script"
    add("--model", dest="model_name", metavar="TEXT", help=text)
    add("--title", metavar="TEXT", help="part of the title")
    add("--created-after", metavar="TIME", help="ISO 8601, such as 2026-11-21T10:00+08:00")
    add("--created-before", metavar="TIME", help="ISO 8601")


def filtered_tasks(options: dict[str, Any]) -> QuerySet[Task]:
    """Return the tasks that match all filters, newest first.

    Health checks are among them only if their numbers are given. Raises CommandError for bad
    values.
    """
    params = QueryDict(mutable=True)
    for name in FILTERS:
        if value := options[name]:
            params.setlist(name, value if isinstance(value, list) else [value])
    rows = Task.objects.select_related("worker", "owner").prefetch_related("files")
    filters = TaskFilters(params, queryset=rows.order_by("-pk"))
    if not filters.is_valid():
        text = "; ".join(f"{name}: {' '.join(texts)}" for name, texts in filters.errors.items())
        raise CommandError(text, returncode=USAGE)
    tasks: QuerySet[Task] = filters.qs
    chosen = {"pk__in": options["ids"]} if options["ids"] else {"purpose": Purpose.USER}
    return tasks.filter(**chosen)
