"""By what a list of devices may be narrowed."""

from typing import Any

import django_filters
from django.db.models import QuerySet

from webprofile.filters import TextFilter
from workers.models import Worker
from workers.status import ONLINE


class WorkerFilters(django_filters.FilterSet):
    """Filters hold together: a device must fit all of them."""

    online = django_filters.ChoiceFilter(
        choices=[("true", "connected"), ("false", "not connected")],
        method="with_online",
        help_text="Whether it is connected now.",
    )
    pool = TextFilter(field_name="pools__name", max_length=60, help_text="Name of a pool.")
    version = TextFilter(
        method="with_version", max_length=40, help_text="It has this MegEngine, and it works."
    )
    name = TextFilter(lookup_expr="icontains", max_length=60, help_text="A part of its name.")

    class Meta:
        model = Worker
        fields: tuple[str, ...] = ()

    def with_online(self, rows: QuerySet[Worker], name: str, value: str) -> Any:
        online = ONLINE.rows("")
        return rows.filter(online) if value == "true" else rows.exclude(online)

    def with_version(self, rows: QuerySet[Worker], name: str, value: str) -> Any:
        return rows.filter(runtimes__version=value, runtimes__problem="").distinct()
