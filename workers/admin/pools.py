"""Admin site: pools, named sets of devices that a task's target may require."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from webprofile.admin.audited import AuditedAdmin
from workers.models import Pool, Worker


class PoolForm(forms.ModelForm):
    """A pool, with a checkbox for each device in service."""

    # not Django's FilteredSelectMultiple, which needs JavaScript and whose texts are English where
    # the translations of Django lag behind
    workers = forms.ModelMultipleChoiceField(
        label=_("Devices"),
        queryset=Worker.objects.filter(retired_at=None).order_by("name"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )

    class Meta:
        model = Pool
        fields = ("name", "description", "workers")


@admin.register(Pool)
class PoolAdmin(AuditedAdmin):
    audit_noun = "pool"
    audit_fields = ("name", "description")
    may_delete = True
    list_display = ("name", "description", "size")
    search_fields = ("name", "description", "workers__name")
    fields = ("name", "description", "workers")
    form = PoolForm

    def get_queryset(self, request: HttpRequest) -> QuerySet[Pool]:
        pools: QuerySet[Pool] = super().get_queryset(request)
        return pools.annotate(worker_count=Count("workers"))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        """List the pools without their relationships to devices, which remain."""
        rows, counts, needed, protected = super().get_deleted_objects(objs, request)
        counts.pop(str(Pool.workers.through._meta.verbose_name_plural), None)
        return [row for row in rows if not isinstance(row, list)], counts, needed, protected

    def audit_values(self, row: Pool) -> dict[str, Any]:
        names = list(row.workers.order_by("name").values_list("name", flat=True))
        return super().audit_values(row) | {"workers": names}

    @admin.display(description=_("devices"), ordering="worker_count")
    def size(self, pool: Pool) -> int:
        return getattr(pool, "worker_count", 0)
