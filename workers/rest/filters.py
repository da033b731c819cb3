"""By what a list of devices may be narrowed."""

from typing import Any

import django_filters
from django.db.models import Q, QuerySet
from drf_spectacular.drainage import set_override
from rest_framework.exceptions import ErrorDetail

from webprofile.rest.filtering import TextFilter, YesFilter
from webprofile.rest.problems import QueryInvalid
from workers.labels import labels_of
from workers.models import HealthCheck, Worker, online_since
from workers.searching import workers_saying

MOST_LABELS = 10
LABEL_LIMIT = 201


class LabelFilter(django_filters.CharFilter):
    """`name:value`, perhaps repeated; the method reads all of them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_override(
            self,
            "field",
            {
                "type": "string",
                "maxLength": LABEL_LIMIT,
                "pattern": r"^[^\x00:]+:[^\x00]+$",
                "description": kwargs["help_text"],
            },
        )


class WorkerFilters(django_filters.FilterSet):
    """Filters hold together: a device must fit all of them."""

    online = YesFilter(method="with_online", help_text="Whether it is connected now.")
    enabled = YesFilter(field_name="is_enabled", help_text="Whether it gets new tasks.")
    label = LabelFilter(
        method="with_labels", help_text="A label as `name:value`; may be repeated: it has all."
    )
    pool = TextFilter(field_name="pools__name", max_length=60, help_text="Name of a pool.")
    version = TextFilter(
        method="with_version", max_length=40, help_text="It has this MegEngine, and it works."
    )
    name = TextFilter(lookup_expr="icontains", max_length=60, help_text="A part of its name.")
    search = TextFilter(
        method="with_text",
        max_length=100,
        help_text="A part of name, processor, GPUs or platform, or how a MegEngine version begins.",
    )

    class Meta:
        model = Worker
        fields: tuple[str, ...] = ()

    def with_online(self, rows: QuerySet[Worker], name: str, value: bool) -> Any:
        online = Q(pulse__last_seen_at__gte=online_since())
        return rows.filter(online) if value else rows.exclude(online)

    def with_version(self, rows: QuerySet[Worker], name: str, value: str) -> Any:
        return rows.filter(runtimes__version=value, runtimes__problem="").distinct()

    def with_text(self, rows: QuerySet[Worker], name: str, value: str) -> Any:
        return workers_saying(rows, value)

    def with_labels(self, rows: QuerySet[Worker], name: str, value: str) -> Any:
        wanted = [_label(text) for text in self.data.getlist("label")[:MOST_LABELS]]
        # a label may be the device's own or set here, and the values are free: few rows, so Python
        fitting = [
            worker.pk
            for worker in rows.select_related(None).prefetch_related(None).only("labels", "facts")
            if (labels := labels_of(worker)) and all(labels.get(n) == v for n, v in wanted)
        ]
        return rows.filter(pk__in=fitting)


class HealthFilters(django_filters.FilterSet):
    """By result and cause."""

    result = django_filters.ChoiceFilter(
        choices=[each for each in HealthCheck.Result.choices if each[0]],
        help_text="How it ended.",
    )
    cause = django_filters.ChoiceFilter(choices=HealthCheck.Cause.choices, help_text="Why.")

    class Meta:
        model = HealthCheck
        fields: tuple[str, ...] = ()


def _label(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not (colon and name and value) or len(text) > LABEL_LIMIT:
        detail = ErrorDetail("name:value", "invalid")
        raise QueryInvalid({"label": [detail]})
    return name, value
