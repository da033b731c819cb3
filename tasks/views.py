"""Pages and requests about tasks: load by id, call one service, render."""

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from accounts.selectors import reader_of
from agent.protocol.input_rules import ALL_DTYPES
from agent.protocol.options import OPTIONS
from agent.protocol.options_json import describe
from profiles import storage
from profiles.selectors import (
    artifacts_of,
    dump_of,
    dumps_beside,
    measurement_of,
    measurement_view,
    plan_title,
)
from tasks import api, option_rows, services
from tasks.copying import form_data
from tasks.inspection import bytes_wanted
from tasks.measuring import plan_fields, plan_rows
from tasks.models import Task, TaskFile
from tasks.option_words import NEVER_TAKEN
from tasks.reasons import wording_of
from tasks.selectors import events_after, last_attempt, queue_position, tasks_visible_to
from tasks.states import TaskState
from webprofile.errors import DomainError
from webprofile.middleware import wants_json
from workers.selectors import workers_visible_to

PAGE_SIZE = 25


class TaskListView(LoginRequiredMixin, View):
    """GET: the list. POST (JSON): a new task, answered with one presigned PUT for each file."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return render(request, "tasks/list.html", _list_context(request))

    def post(self, request: HttpRequest) -> JsonResponse:
        return api.create(request)


@login_required
@never_cache
def rows(request: HttpRequest) -> HttpResponse:
    """The list's body alone, which the page fetches when a task changed."""
    return render(request, "tasks/_rows.html", _list_context(request))


@login_required
@require_GET
def new(request: HttpRequest) -> HttpResponse:
    reader = reader_of(request)
    wanted = request.GET.get("from", "")
    origin = tasks_visible_to(reader).filter(pk=int(wanted)).first() if _is_key(wanted) else None
    context = {
        "workers": list(workers_visible_to(reader)),
        "origin": origin.pk if origin else None,
        "common": option_rows.common_rows(),
        "groups": option_rows.form_groups(api.cache_choices(reader)),
        "option_count": len(OPTIONS),
        "plans": plan_rows(),
        "plan_fields": plan_fields(),
        "dtypes": ALL_DTYPES,
        "limits": {
            "model": settings.MODEL_SIZE_LIMIT_BYTES,
            "data": settings.DATA_SIZE_LIMIT_BYTES,
            "files": settings.DATA_FILES_LIMIT,
        },
    }
    return render(request, "tasks/new.html", context)


@require_GET
def options(request: HttpRequest) -> HttpResponse:
    """The table of options, for readers and (`?format=json`) for programs."""
    if request.GET.get("format") == "json" or not request.accepts("text/html"):
        return JsonResponse({"options": describe()})
    context = {
        "groups": option_rows.all_groups(),
        "never": NEVER_TAKEN.items(),
        "count": len(OPTIONS),
    }
    return render(request, "tasks/options.html", context)


@login_required
@never_cache
def detail(request: HttpRequest, task_id: int) -> HttpResponse:
    return render(request, "tasks/detail.html", _detail_context(request, task_id))


@login_required
@never_cache
def status(request: HttpRequest, task_id: int) -> HttpResponse:
    """The changing part of a task's page, which the page fetches after each event."""
    return render(request, "tasks/_status.html", _detail_context(request, task_id))


@login_required
@require_POST
def uploads(request: HttpRequest, task_id: int) -> JsonResponse:
    """Fresh presigned PUTs, for an upload that broke or took longer than they live."""
    task = _task(request, task_id)
    if task.state != TaskState.INITIATED:
        raise DomainError("not_initiated", status=409)
    return JsonResponse({"uploads": api.upload_targets(task)})


@login_required
@require_POST
def submit(request: HttpRequest, task_id: int) -> JsonResponse:
    """Confirm that all files are stored; the task then waits for its device."""
    task = _task(request, task_id)
    try:
        _submit(task)
    except DomainError as error:
        if error.code.startswith("input_"):
            # the file will not get better: what is wanted is another task
            api.end_refused(task, error)
        raise
    return JsonResponse(
        {"status": task.status.value, "url": reverse("tasks:detail", args=[task.pk])}
    )


@login_required
@require_POST
def rerun(request: HttpRequest, task_id: int) -> HttpResponse:
    """The same once more, at once: device, version, options, plan, inputs, seed and files."""
    task = _task(request, task_id)
    copy, asked = services.task_rerun(task, owner=reader_of(request))
    if asked is not None:
        api.copy_sources(copy, asked.files)
        try:
            _submit(copy)
        except Exception as error:
            api.end_copy(copy, error)
            raise
    if wants_json(request):
        return JsonResponse({"id": copy.pk, "url": reverse("tasks:detail", args=[copy.pk])})
    return redirect("tasks:detail", copy.pk)


@login_required
@require_GET
@never_cache
def copy_data(request: HttpRequest, task_id: int) -> JsonResponse:
    """What the form needs to ask for this task once more, with changes."""
    return JsonResponse(form_data(_task(request, task_id)))


@login_required
@require_POST
def cancel(request: HttpRequest, task_id: int) -> HttpResponse:
    task = _task(request, task_id)
    services.task_cancel(task)
    if wants_json(request):
        return JsonResponse({"status": task.status.value})
    return redirect("tasks:detail", task.pk)


@login_required
@require_GET
def file(request: HttpRequest, task_id: int, file_id: int) -> HttpResponse:
    """Send the reader to storage for a file that belongs to the task."""
    found = _task(request, task_id).files.filter(pk=file_id, purged_at=None).first()
    if found is None or found.stored_at is None:
        raise Http404
    return redirect(storage.presign_get(found.object_key, filename=found.name))


def _is_key(text: str) -> bool:
    """Whether a text from an address can be the number of a row."""
    return text.isascii() and text.isdigit() and len(text) < 19


def _task(request: HttpRequest, task_id: int) -> Task:
    """The task, if the reader may see it; to others it does not exist."""
    task = tasks_visible_to(reader_of(request)).filter(pk=task_id).first()
    if task is None:
        raise Http404
    return task


def _stored(file: TaskFile) -> services.StoredObject | None:
    found = storage.head(file.object_key)
    return None if found is None else services.StoredObject(*found)


def _submit(task: Task) -> None:
    stored = {file.pk: _stored(file) for file in task.files.all()}
    services.task_submit(task, stored, _heads(task, stored))


def _heads(task: Task, stored: dict[int, services.StoredObject | None]) -> dict[int, bytes]:
    """The first bytes of the data files that arrived whole, as far as they are looked into."""
    heads = {}
    for file in task.files.filter(kind=TaskFile.Kind.DATA):
        wanted = bytes_wanted(file.name, file.size_bytes)
        whole = stored[file.pk] == services.StoredObject(file.size_bytes, file.md5)
        if task.state == TaskState.INITIATED and whole and wanted:
            heads[file.pk] = storage.read_start(file.object_key, size_bytes=wanted)
    return heads


def _list_context(request: HttpRequest) -> dict[str, Any]:
    tasks = tasks_visible_to(reader_of(request))
    page = Paginator(tasks, PAGE_SIZE).get_page(request.GET.get("page"))
    return {"page": page, "tasks": page.object_list}


def _detail_context(request: HttpRequest, task_id: int) -> dict[str, Any]:
    task = _task(request, task_id)
    dump = dump_of(task)
    return {
        "task": task,
        "attempt": last_attempt(task),
        "plan": plan_title(task),
        "measured": measurement_view(measurement_of(task)),
        "artifacts": artifacts_of(task),
        "others": dumps_beside(task, reader_of(request)) if dump else None,
        "may_copy": all(f.stored_at and not f.purged_at for f in task.files.all()),
        "wording": wording_of(task.reason),
        "events": list(events_after(task, 0)),
        "ahead": queue_position(task) if task.state == TaskState.WAITING else 0,
    }
