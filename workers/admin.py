"""Devices in the administration pages: hardware, runtimes, who may use them, enrolment."""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from tasks.announce import workers_revoked
from workers.models import Grant, Runtime, Worker
from workers.services import worker_revoke
from workers.tokens import code_issue


class RuntimeInline(admin.TabularInline):
    """What the agent reported; nothing to edit."""

    model = Runtime
    extra = 0
    fields = readonly_fields = (
        "version", "kind", "python", "built_with", "listed_libraries", "known_options",
        "limits", "problem",
    )  # fmt: skip
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description=_("built with"))
    def built_with(self, runtime: Runtime) -> str:
        return ", ".join(runtime.builds) or "–"

    @admin.display(description=_("operator libraries"))
    def listed_libraries(self, runtime: Runtime) -> str:
        return ", ".join(runtime.libraries) or "–"

    @admin.display(description=_("measured limits"))
    def limits(self, runtime: Runtime) -> str:
        return "; ".join(map(_limits, runtime.roofs)) or "–"

    @admin.display(description=_("known options"))
    def known_options(self, runtime: Runtime) -> str:
        return str(len(runtime.flags)) if runtime.flags else str(_("all"))


def _limits(roofs: dict[str, Any]) -> str:
    peaks = [f"{name} {flops / 1e9:.4g}" for name, flops in roofs["peak_flops"].items()]
    return f"{roofs['device']}: {', '.join(peaks)} GFLOP/s, {roofs['copy_bytes_s'] / 1e9:.4g} GB/s"


class GrantInline(admin.TabularInline):
    model = Grant
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(Worker)
class WorkerAdmin(admin.ModelAdmin):
    list_display = (
        "name",
        "online",
        "is_public",
        "is_enabled",
        "cpu",
        "cores",
        "memory",
        "last_seen_at",
    )
    list_filter = ("is_public", "is_enabled")
    search_fields = ("name",)
    fields = (
        "name", "is_public", "is_enabled", "slots",
        "online", "last_seen_at", "agent_version", "hostname", "address", "platform",
        "cpu", "cores", "memory", "gpus",
    )  # fmt: skip
    readonly_fields = (
        "online", "last_seen_at", "agent_version", "hostname", "address", "platform",
        "cpu", "cores", "memory", "gpus",
    )  # fmt: skip
    inlines = (RuntimeInline, GrantInline)
    actions = ("issue_codes", "revoke_tokens")
    change_form_template = "workers/admin_change_form.html"

    def save_model(self, request: HttpRequest, obj: Worker, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            self._show_code(request, obj)

    @admin.action(description=_("Issue an enrolment code"))
    def issue_codes(self, request: HttpRequest, queryset: Any) -> None:
        for worker in queryset:
            self._show_code(request, worker)

    @admin.action(description=_("Revoke the agent's token"))
    def revoke_tokens(self, request: HttpRequest, queryset: Any) -> None:
        for worker in queryset:
            worker_revoke(worker)
            workers_revoked(worker.pk)
        count = len(queryset)
        text = ngettext("%d device was shut out.", "%d devices were shut out.", count) % count
        messages.success(request, text)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        # everybody may register here: a new device is for those who are granted it
        return {"is_public": False} | super().get_changeform_initial_data(request)

    def response_change(self, request: HttpRequest, obj: Worker) -> HttpResponse:
        for name, act in (("_issue_code", self.issue_codes), ("_revoke", self.revoke_tokens)):
            if name in request.POST:
                act(request, Worker.objects.filter(pk=obj.pk))
                return redirect(request.path)
        return super().response_change(request, obj)

    def _show_code(self, request: HttpRequest, worker: Worker) -> None:
        text = format_html(
            "{} <code>python -m agent enrol --server {} --code {} --config agent.toml "
            "--runtime-python /path/to/python-with-megengine</code> {}",
            _("Run this once on %(name)s within a day; the code is not shown again:")
            % {"name": worker.name},
            settings.SITE_URL,
            code_issue(worker),
            _("The README, “Add a device”, tells what the device needs before."),
        )
        messages.info(request, text)

    @admin.display(description=_("online"), boolean=True)
    def online(self, worker: Worker) -> bool:
        return worker.is_online

    @admin.display(description=_("host name"))
    def hostname(self, worker: Worker) -> str:
        return str(worker.facts.get("hostname", ""))

    @admin.display(description=_("IP address"))
    def address(self, worker: Worker) -> str:
        return str(worker.facts.get("ip", ""))

    @admin.display(description=_("platform"))
    def platform(self, worker: Worker) -> str:
        return str(worker.facts.get("platform", ""))

    @admin.display(description=_("CPU"))
    def cpu(self, worker: Worker) -> str:
        return str(worker.facts.get("cpu_model", ""))

    @admin.display(description=_("cores"))
    def cores(self, worker: Worker) -> str:
        return str(worker.facts.get("cores", ""))

    @admin.display(description=_("memory"))
    def memory(self, worker: Worker) -> str:
        size = worker.facts.get("memory_bytes")
        return f"{size / 1024**3:.1f} GiB" if size else ""

    @admin.display(description=_("GPUs"))
    def gpus(self, worker: Worker) -> str:
        return ", ".join(gpu["name"] for gpu in worker.facts.get("gpus", ())) or "–"
