"""Filters of the API's task list."""

from typing import Any

import django_filters
from django.db.models import Q, QuerySet

from accounts.models import canonical_email
from tasks.models import Task, TaskKind
from tasks.pagination import has_model, has_status
from tasks.states import Status
from webprofile.filters import KeyFilter, MomentFilter, TextFilter


class TaskFilters(django_filters.FilterSet):
    """Filters hold together: a task must fit all of them."""

    status = django_filters.MultipleChoiceFilter(
        choices=Status.choices,
        method="with_status",
        help_text="Any of these; may be repeated.",
    )
    kind = django_filters.ChoiceFilter(
        choices=TaskKind.choices, help_text="Kind of profiled program."
    )
    worker = KeyFilter(field_name="worker_id", help_text="Number of its device.")
    worker_name = TextFilter(
        field_name="worker__name", max_length=60, help_text="Name of its device."
    )
    version = TextFilter(
        field_name="runtime_version", max_length=40, help_text="Version of MegEngine."
    )
    model_name = TextFilter(
        method="with_model", max_length=300, help_text="A part of its model's file name."
    )
    search = TextFilter(
        method="with_text",
        max_length=200,
        help_text="A part of its title or of its model's file name.",
    )
    title = TextFilter(lookup_expr="icontains", max_length=200, help_text="A part of its title.")
    created_after = MomentFilter(
        field_name="created_at", lookup_expr="gte", help_text="Asked for at this moment or later."
    )
    created_before = MomentFilter(
        field_name="created_at", lookup_expr="lt", help_text="Asked for before this moment."
    )
    owner = TextFilter(
        method="with_owner",
        max_length=254,
        help_text="E-mail of who asked; administrators see others' tasks too.",
    )

    class Meta:
        model = Task
        fields: tuple[str, ...] = ()

    def with_status(self, rows: QuerySet[Task], name: str, values: list[str]) -> Any:
        return rows.filter(has_status(map(Status, values)))

    def with_owner(self, rows: QuerySet[Task], name: str, value: str) -> Any:
        return rows.filter(owner__email__iexact=canonical_email(value))

    def with_model(self, rows: QuerySet[Task], name: str, value: str) -> Any:
        return rows.filter(has_model(value))

    def with_text(self, rows: QuerySet[Task], name: str, value: str) -> Any:
        return rows.filter(Q(title__icontains=value) | Q(has_model(value)))
