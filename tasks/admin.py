"""Admin pages of tasks: all users' tasks, with the queue as one of their statuses.

The row of a task links to its page, which shows its state and result to administrators, too.
"""

from typing import Any

from django.contrib import admin
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy
from django_dramatiq.models import Task as DramatiqMessage

from tasks.lifecycle.cancel import CANCELLABLE, cancel_and_check
from tasks.lifecycle.reasons import wording_for
from tasks.models import Task, TaskFile
from tasks.pagination import has_status
from tasks.states import Status
from webprofile.admin.action_pages import ActionsAdmin
from webprofile.admin.actions import AdminAction
from webprofile.templatetags.moments import moment

# labelled “Tasks”, too, and its table is always empty here
if admin.site.is_registered(DramatiqMessage):
    admin.site.unregister(DramatiqMessage)


CANCEL = AdminAction(
    "cancel",
    _("Cancel"),
    cancel_and_check,
    done=ngettext_lazy("Cancelled: %(names)s.", "Cancelled: %(names)s.", "count"),
    unchanged=ngettext_lazy("%(names)s had ended.", "%(names)s had ended.", "count"),
    warning=_("The tasks end without a result. Running tasks are stopped on their devices."),
    is_dangerous=True,
    fits=lambda task: task.state in CANCELLABLE,
)


class StatusFilter(admin.SimpleListFilter):
    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [*Status.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        value = self.value()
        return queryset.filter(has_status([Status(value)])) if value in Status.values else queryset


@admin.register(Task)
class TaskAdmin(ActionsAdmin):
    list_display = (
        "number", "model_name", "owner", "device", "runtime_version", "current", "why", "priority",
        "submitted", "updated",
    )  # fmt: skip
    list_display_links = None
    may_edit = False
    list_filter = (StatusFilter, "worker")
    list_select_related = ("owner", "worker")
    list_per_page = 50
    #: counting all tasks takes longer than loading one page
    show_full_result_count = False
    search_fields = ("=id", "title", "owner__email", "worker__name", "files__name")
    search_help_text = _("Number, title, user, device or file")

    def get_admin_actions(self) -> tuple[AdminAction, ...]:
        return (CANCEL,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        models = TaskFile.objects.filter(kind=TaskFile.Kind.MODEL)
        return (
            super()
            .get_queryset(request)
            .prefetch_related(Prefetch("files", models, to_attr="models"))
        )

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Return the newest first, or of waiting tasks the one that has waited longest."""
        is_queue = request.GET.get(StatusFilter.parameter_name) == Status.WAITING
        return ("submitted_at", "id") if is_queue else ("-id",)

    def page_of(self, row: Task) -> str:
        return reverse("tasks:detail", args=[row.pk])

    def change_view(self, request: HttpRequest, object_id: str, *args: Any) -> HttpResponse:
        """Redirect to the page of the task; actions are the only changes."""
        task = self.get_object(request, object_id)
        return redirect(self.page_of(task) if task else "admin:tasks_task_changelist")

    @admin.display(description=_("task"), ordering="id")
    def number(self, task: Task) -> SafeString:
        return format_html('<a href="{}">#{}</a>', self.page_of(task), task.pk)

    @admin.display(description=_("device"), ordering="worker__name")
    def device(self, task: Task) -> str:
        return task.worker.name

    @admin.display(description=_("model"))
    def model_name(self, task: Task) -> str:
        names = [file.name for file in getattr(task, "models", ())]
        return " · ".join(filter(None, [*names, task.title])) or "–"

    @admin.display(description=_("status"))
    def current(self, task: Task) -> Any:
        return task.status.label

    @admin.display(description=_("reason"))
    def why(self, task: Task) -> str:
        wording = wording_for(task)
        return str(wording.title) if wording else ""

    @admin.display(description=_("submitted"), ordering="submitted_at")
    def submitted(self, task: Task) -> str:
        return moment(task.submitted_at, "seconds") or "–"

    @admin.display(description=_("updated"), ordering="updated_at")
    def updated(self, task: Task) -> str:
        return moment(task.updated_at, "seconds") or "–"
