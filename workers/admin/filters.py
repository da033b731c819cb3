"""By what administrators look for devices."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from workers.heartbeats import Beat, beat_is


class BeatFilter(admin.SimpleListFilter):
    title = _("heartbeat")
    parameter_name = "beat"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [*Beat.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        value = self.value()
        return queryset.filter(beat_is(Beat(value))) if value in Beat.values else queryset


class StateFilter(admin.SimpleListFilter):
    """Retired devices are shown to who asks for them."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("service", _("in service")),
            ("drained", _("drained")),
            ("held", _("held back")),
            ("retired", _("retired")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        if self.value() == "retired":
            return queryset.filter(retired_at__isnull=False)
        rows = queryset.filter(retired_at=None)
        if self.value() == "drained":
            return rows.filter(is_enabled=False)
        if self.value() == "held":
            return rows.filter(held_at__isnull=False)
        if self.value() == "service":
            return rows.filter(is_enabled=True, held_at=None)
        return rows
