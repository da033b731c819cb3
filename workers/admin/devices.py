"""Admin site: the list of devices with its filters, and the pages and forms of one device."""

import re
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Count, IntegerField, OuterRef, Prefetch, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.utils.decorators import method_decorator
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from accounts.audit import entries_about
from accounts.selectors import current_user
from tasks.models import Attempt, Task
from tasks.states import TaskState
from webprofile.admin.action_pages import ActionsAdmin
from webprofile.admin.actions import AdminAction, grant_words
from webprofile.admin.worker_actions import WORKER_ACTIONS
from webprofile.errors import DomainError
from webprofile.integers import parse_key
from webprofile.messages.errors import word
from workers import releases, services
from workers.admin import columns
from workers.grants import add_grants, remove_grants
from workers.heartbeats import HeartbeatStatus, heartbeat_status_is
from workers.models import HealthCheck, Pool, Worker
from workers.status import NOT_RETIRED, SERVICE_RULES, with_shut_out_at

CHECKS_SHOWN = 10
#: session key of new enrolment codes, until the page after the redirect has shown them once
CODES = "enrolment_codes"


class LabelsField(forms.CharField):
    """A text area with one label a line, as `name = value`; its value is a dict of strings."""

    widget = forms.Textarea(attrs={"rows": 4, "cols": 40, "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return "\n".join(f"{name} = {text}" for name, text in sorted(value.items()))
        return value

    def to_python(self, value: Any) -> Any:
        labels: dict[str, str] = {}
        for line in str(value or "").splitlines():
            if not line.strip():
                continue
            name, equals, text = (part.strip() for part in line.partition("="))
            if not equals:
                raise ValidationError(
                    _("“%s” is not a label. Enter each label as name = value.") % line[:60]
                )
            if name in labels:
                raise ValidationError(_("The label “%s” occurs twice.") % name)
            labels[name] = text
        try:
            services.validate_labels(labels)
        except DomainError as error:
            raise ValidationError(word(error)) from error
        return labels

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(self.prepare_value(initial), data)


class WorkerForm(forms.ModelForm):
    """Name, slots, labels and pools of a device; actions change everything else."""

    labels = LabelsField(
        label=_("Labels"),
        required=False,
        help_text=_(
            "One label per line, such as chip = Kirin 990. These labels override labels of the "
            "same name in the configuration of the device."
        ),
    )
    pools = forms.ModelMultipleChoiceField(
        label=_("Pools"),
        queryset=Pool.objects.all(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )

    class Meta:
        model = Worker
        fields = ("name", "is_public", "slots", "labels")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["pools"].initial = self.instance.pools.all()
        if "pools" in self.fields and not Pool.objects.exists():
            self.fields["pools"].help_text = _("No pools yet. Add one under “Pools”.")


class UsersForm(forms.Form):
    """E-mail addresses of users to whom a private device is granted."""

    emails = forms.CharField(
        label=_("E-mail addresses of users"),
        max_length=20_000,
        widget=forms.Textarea(attrs={"rows": 4, "cols": 50, "spellcheck": "false"}),
        help_text=_("One per line, or separated by commas."),
    )

    def clean_emails(self) -> list[str]:
        return [part for part in re.split(r"[\s,;]+", self.cleaned_data["emails"]) if part]


class HeartbeatFilter(admin.SimpleListFilter):
    title = _("heartbeat")
    parameter_name = "beat"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [*HeartbeatStatus.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        value = self.value()
        if value not in HeartbeatStatus.values:
            return queryset
        return queryset.filter(heartbeat_status_is(HeartbeatStatus(value)))


class StateFilter(admin.SimpleListFilter):
    """Filter by status; devices that are retired appear only if that status is selected."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("service", _("in service")),
            *((rule.status.value, rule.status.label) for rule in SERVICE_RULES),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        # a device has the status of the first rule that it does not meet
        meets_rules = Q()
        for rule in SERVICE_RULES:
            if self.value() == rule.status:
                return queryset.filter(meets_rules, ~rule.rows(""))
            meets_rules &= rule.rows("")
        return queryset.filter(meets_rules if self.value() == "service" else NOT_RETIRED.rows(""))


@admin.register(Worker)
class WorkerAdmin(ActionsAdmin):
    audit_noun = "worker"
    audit_fields = ("name", "is_public", "slots", "labels")
    form = WorkerForm
    list_display = (
        "name", "number", columns.heartbeat, "state", "queue", columns.current, columns.versions,
        columns.agent, "where", "groups",
    )  # fmt: skip
    list_filter = (HeartbeatFilter, StateFilter, "is_public", "pools")
    list_per_page = 50
    search_fields = ("name", "facts__hostname", "facts__ip", "facts__cpu_model", "pools__name")
    search_help_text = _("Name, host, IP address, CPU or pool")
    ordering = ("name",)

    def get_admin_actions(self) -> tuple[AdminAction, ...]:
        return (self._enrol_action(), *WORKER_ACTIONS)

    def _enrol_action(self) -> AdminAction:
        return AdminAction(
            "enrol",
            _("Enrol"),
            page=self._enrol,
            warning=_(
                "Issues an enrolment code for a new agent. The code works once, within one day; "
                "unused earlier codes become invalid. The current agent works until the code is "
                "used."
            ),
        )

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj and obj.retired_at:
            return ("name", "slots")  # read-only
        # actions make an existing device public or private
        return ("name", "slots", "labels", "pools") if obj else (*WorkerForm.Meta.fields, "pools")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        """Add queue, current tasks, versions and pools, with a constant number of queries."""
        waiting = Task.objects.filter(worker=OuterRef("pk"), state=TaskState.WAITING)
        count = waiting.order_by().values("worker").annotate(n=Count("pk")).values("n")
        live = Attempt.objects.filter(ended_at=None).select_related("task__owner")
        failed = HealthCheck.objects.filter(
            worker=OuterRef("pk"), result=HealthCheck.Result.FAILED
        ).values("reason")
        rows = with_shut_out_at(super().get_queryset(request))
        return rows.annotate(  # type: ignore[no-redef]
            waiting=Coalesce(Subquery(count, output_field=IntegerField()), 0),
            failed_check_reason=Coalesce(Subquery(failed[:1]), Value("")),
        ).prefetch_related("runtimes", "pools", Prefetch("attempts", live, to_attr="live_attempts"))

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("enrolled/", view(self.enrolled_view), name="workers_worker_enrolled"),
            path("<int:pk>/users/", view(self.users_view), name="workers_worker_users"),
            *super().get_urls(),
        ]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        # anybody may have an account on this site, so a new device is private
        return {"is_public": False} | super().get_changeform_initial_data(request)

    def audit_values(self, row: Worker) -> dict[str, Any]:
        names = list(row.pools.order_by("name").values_list("name", flat=True))
        return super().audit_values(row) | {"pools": names}

    def save_model(self, request: HttpRequest, obj: Worker, form: Any, change: bool) -> None:
        if not change:
            super().save_model(request, obj, form, change)
            return
        services.update_worker(obj, by=current_user(request), **form.cleaned_data)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        if not change:  # `update_worker` has saved and audited all of a change
            form.instance.pools.set(form.cleaned_data["pools"])
            super().save_related(request, form, formsets, change)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        retired = obj is not None and obj.retired_at is not None
        return not retired and super().has_change_permission(request, obj)

    def response_add(self, request: HttpRequest, obj: Worker, *args: Any) -> HttpResponse:
        """Show the command that enrols the new device."""
        return self._enrol(request, [obj]) or redirect(self.page_of(obj))

    def page_context(self, request: HttpRequest, row: Worker) -> dict[str, Any]:
        return {
            "worker": row,
            "title": row.name,
            "subtitle": None,
            "show_save_and_add_another": False,
            "shown": {name: getattr(columns, name)(row) for name in DETAIL_COLUMNS},
            "buttons": [] if row.retired_at else self.buttons_of(row),
            "runtimes": [
                (runtime, columns.peak_performance(runtime)) for runtime in row.runtimes.all()
            ],
            "checks": row.health_checks.all()[:CHECKS_SHOWN],
            "grant_count": row.grants.count(),
            "entries": entries_about(row),
        }

    def _enrol(self, request: HttpRequest, workers: list[Worker]) -> HttpResponse | None:
        """Issue codes, and redirect to the page that shows them once; reloading issues no more.

        Returns None if no code was issued.
        """
        codes = []
        for worker in workers:
            try:
                codes.append((worker.pk, services.enrol_worker(worker, by=current_user(request))))
            except DomainError as error:
                messages.error(request, word(error))
        if not codes:
            return None
        request.session[CODES] = codes
        return redirect("admin:workers_worker_enrolled")

    def enrolled_view(self, request: HttpRequest) -> HttpResponse:
        codes = dict(request.session.pop(CODES, []))
        workers = Worker.objects.filter(pk__in=codes)
        lines = [(worker, releases.enrolment_commands(codes[worker.pk])) for worker in workers]
        context = {"title": _("Enrol on the device"), "lines": lines}
        return self.page_below(request, "workers/admin_enrolled.html", context)

    @method_decorator(require_http_methods(["GET", "HEAD", "POST"]))
    def users_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show the users of a private device; add some by e-mail address, or remove some."""
        worker = get_object_or_404(Worker, pk=pk)
        adds = "emails" in request.POST
        form = UsersForm(request.POST if adds else None)
        if request.method == "POST" and (not adds or form.is_valid()):
            try:
                self._grant(request, worker, form.cleaned_data["emails"] if adds else None)
                return redirect("admin:workers_worker_users", pk)
            except DomainError as error:
                if adds:
                    form.add_error("emails", word(error))
                else:
                    messages.error(request, word(error))
        granted = worker.grants.select_related("user").order_by("user__email")
        context = {
            "title": _("Access"),
            "worker": worker,
            "grants": granted,
            "form": form,
        }
        return self.page_below(request, "workers/admin_users.html", context)

    def _grant(self, request: HttpRequest, worker: Worker, emails: list[str] | None) -> None:
        """Grant a device to the users with these addresses.

        emails: None to revoke the grants of the users that are selected in the form
        """
        by = current_user(request)
        if emails is None:
            users = list(filter(None, map(parse_key, request.POST.getlist("remove"))))
            count = remove_grants(users=users, workers=[worker.pk], by=by)
        else:
            count = add_grants(users=emails, workers=[worker.pk], by=by)
        add_message = messages.success if count else messages.info
        add_message(request, grant_words(count, adds=emails is not None))

    @admin.display(description="ID", ordering="pk")
    def number(self, worker: Worker) -> int:
        return worker.pk

    @admin.display(description=_("state"))
    def state(self, worker: Worker) -> str:
        return columns.both(columns.state(worker), columns.access(worker))

    @admin.display(description=_("waiting"), ordering="waiting")
    def queue(self, worker: Worker) -> int:
        return getattr(worker, "waiting", 0)

    @admin.display(description=_("address and platform"))
    def where(self, worker: Worker) -> str:
        return columns.both(columns.address(worker), columns.platform(worker))

    @admin.display(description=_("labels and pools"))
    def groups(self, worker: Worker) -> str:
        return columns.both(columns.labels(worker), columns.pools(worker))


#: functions of `columns` whose values the page of a device shows
DETAIL_COLUMNS = (
    "heartbeat", "state", "access", "scripts", "current", "versions", "agent", "address",
    "platform", "labels", "pools", "hardware",
)  # fmt: skip
