"""Selection of tasks for management commands: by id, and by the filters of the API."""

import argparse
from typing import Any

from django.core.management.base import CommandError
from django.db.models import QuerySet
from django.http import QueryDict

from tasks.filters import TaskFilters
from tasks.models import Purpose, Task
from tasks.states import Status
from webprofile.terminal.arguments import TASK_FILTERS, add_task_filters
from webprofile.terminal.exit_codes import USAGE


def is_narrowed(options: dict[str, Any]) -> bool:
    """Whether any task or filter was given; otherwise all tasks would be selected."""
    return bool(options["ids"]) or any(options[name] for name in TASK_FILTERS)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add arguments for ids and filters, which are combined with AND."""
    parser.add_argument(
        "ids", nargs="*", type=int, metavar="TASK", help="task numbers, subject to the filters"
    )
    add_task_filters(parser, Status.values)


def filtered_tasks(options: dict[str, Any]) -> QuerySet[Task]:
    """Return the tasks that match all filters, newest first.

    Health checks are among them only if their numbers are given. Raises CommandError for bad
    values.
    """
    params = QueryDict(mutable=True)
    for name in TASK_FILTERS:
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
