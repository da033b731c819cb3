"""By what administrators look for devices."""

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from workers.heartbeats import Beat, beat_is
from workers.status import NOT_RETIRED, SERVICE_RULES


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
            *((rule.status.value, rule.status.label) for rule in SERVICE_RULES),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        before = Q()
        for rule in SERVICE_RULES:
            if self.value() == rule.status:
                return queryset.filter(before, ~rule.rows(""))
            before &= rule.rows("")
        return queryset.filter(before if self.value() == "service" else NOT_RETIRED.rows(""))
