"""Filters of the lists of results and imports."""

from typing import Any

import django_filters
from django.db.models import Exists, OuterRef, Q, QuerySet

from profiles.models import Profile, ProfileUpload
from tasks.models import TaskFile
from webprofile.filters import KeyFilter, MomentFilter, TextFilter

_SHOWN = [choice for choice in ProfileUpload.State.choices if choice[0] != "deleted"]


class ProfileFilters(django_filters.FilterSet):
    """Filters are combined: a result must match all of them."""

    origin = django_filters.ChoiceFilter(
        choices=[("task", "of a task"), ("opened", "imported from files")],
        method="with_origin",
        help_text="Results of tasks, or imports.",
    )
    task = KeyFilter(field_name="attempt__task_id", help_text="The result of this task.")
    opened = KeyFilter(field_name="upload_id", help_text="The result of this imported profile.")
    worker_name = TextFilter(
        field_name="attempt__task__worker__name", max_length=60, help_text="Name of the device."
    )
    version = TextFilter(
        field_name="attempt__task__runtime_version", max_length=40, help_text="MegEngine's."
    )
    title = TextFilter(
        method="with_title", max_length=300, help_text="Part of the name of the model or import."
    )
    owner = TextFilter(
        method="with_owner", max_length=254, help_text="Part of the owner's e-mail address."
    )
    built_after = MomentFilter(
        field_name="built_at", lookup_expr="gte", help_text="Created at this time or later."
    )
    built_before = MomentFilter(
        field_name="built_at", lookup_expr="lt", help_text="Created before this time."
    )

    class Meta:
        model = Profile
        fields: tuple[str, ...] = ()

    def with_origin(self, rows: QuerySet[Profile], name: str, value: str) -> Any:
        return rows.filter(attempt__isnull=value == "opened")

    def with_owner(self, rows: QuerySet[Profile], name: str, value: str) -> Any:
        of_task = Q(attempt__task__owner__email__icontains=value)
        return rows.filter(of_task | Q(upload__owner__email__icontains=value))

    def with_title(self, rows: QuerySet[Profile], name: str, value: str) -> Any:
        models = TaskFile.objects.filter(
            task=OuterRef("attempt__task"), kind=TaskFile.Kind.MODEL, name__icontains=value
        )
        return rows.filter(Q(Exists(models)) | Q(upload__name__icontains=value))


class OpenedFilters(django_filters.FilterSet):
    """Filters by state, name and owner."""

    state = django_filters.ChoiceFilter(choices=_SHOWN, help_text="In this state.")
    name = TextFilter(lookup_expr="icontains", max_length=255, help_text="Part of the name.")
    owner = TextFilter(
        field_name="owner__email",
        lookup_expr="icontains",
        max_length=254,
        help_text="Part of the owner's e-mail address.",
    )

    class Meta:
        model = ProfileUpload
        fields: tuple[str, ...] = ()
