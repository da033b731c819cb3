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
from profiles import storage
from tasks import services
from tasks.forms import option_fields, read_task_body
from tasks.models import Task, TaskFile
from tasks.reasons import wording_of
from tasks.selectors import events_after, last_attempt, queue_position, tasks_visible_to
from tasks.states import TaskState
from webprofile.errors import DomainError
from webprofile.middleware import wants_json
from workers.models import Worker
from workers.selectors import workers_visible_to

PAGE_SIZE = 25


class TaskListView(LoginRequiredMixin, View):
    """GET: the list. POST (JSON): a new task, answered with one presigned PUT for each file."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return render(request, "tasks/list.html", _list_context(request))

    def post(self, request: HttpRequest) -> JsonResponse:
        body = read_task_body(request.body)
        worker = Worker.objects.filter(pk=body.worker).first()
        if worker is None:
            raise DomainError("worker_unknown", field="worker")
        task = services.task_create(
            owner=reader_of(request),
            worker=worker,
            runtime_version=body.runtime,
            options=body.options,
            files=[file.as_request() for file in body.files],
        )
        answer = {
            "id": task.pk,
            "url": reverse("tasks:detail", args=[task.pk]),
            "uploads": _upload_targets(task),
        }
        return JsonResponse(answer, status=201)


@login_required
@never_cache
def rows(request: HttpRequest) -> HttpResponse:
    """The list's body alone, which the page fetches when a task changed."""
    return render(request, "tasks/_rows.html", _list_context(request))


@login_required
@require_GET
def new(request: HttpRequest) -> HttpResponse:
    workers = list(workers_visible_to(reader_of(request)))
    context = {
        "workers": workers,
        "options": option_fields(),
        "limits": {
            "model": settings.MODEL_SIZE_LIMIT_BYTES,
            "data": settings.DATA_SIZE_LIMIT_BYTES,
            "files": settings.DATA_FILES_LIMIT,
        },
    }
    return render(request, "tasks/new.html", context)


@login_required
@never_cache
def detail(request: HttpRequest, task_id: int) -> HttpResponse:
    return render(request, "tasks/detail.html", _detail_context(_task(request, task_id)))


@login_required
@never_cache
def status(request: HttpRequest, task_id: int) -> HttpResponse:
    """The changing part of a task's page, which the page fetches after each event."""
    return render(request, "tasks/_status.html", _detail_context(_task(request, task_id)))


@login_required
@require_POST
def uploads(request: HttpRequest, task_id: int) -> JsonResponse:
    """Fresh presigned PUTs, for an upload that broke or took longer than they live."""
    task = _task(request, task_id)
    if task.state != TaskState.INITIATED:
        raise DomainError("not_initiated", status=409)
    return JsonResponse({"uploads": _upload_targets(task)})


@login_required
@require_POST
def submit(request: HttpRequest, task_id: int) -> JsonResponse:
    """Confirm that all files are stored; the task then waits for its device."""
    task = _task(request, task_id)
    stored = {file.pk: _stored(file) for file in task.files.all()}
    services.task_submit(task, stored)
    return JsonResponse(
        {"status": task.status.value, "url": reverse("tasks:detail", args=[task.pk])}
    )


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


def _task(request: HttpRequest, task_id: int) -> Task:
    """The task, if the reader may see it; to others it does not exist."""
    task = tasks_visible_to(reader_of(request)).filter(pk=task_id).first()
    if task is None:
        raise Http404
    return task


def _stored(file: TaskFile) -> services.StoredObject | None:
    found = storage.head(file.object_key)
    return None if found is None else services.StoredObject(*found)


def _upload_targets(task: Task) -> list[dict[str, Any]]:
    targets = []
    for file in task.files.all():
        url, headers = storage.presign_put(file.object_key, size_bytes=file.size_bytes)
        targets.append({"file": file.pk, "name": file.name, "url": url, "headers": headers})
    return targets


def _list_context(request: HttpRequest) -> dict[str, Any]:
    tasks = tasks_visible_to(reader_of(request))
    page = Paginator(tasks, PAGE_SIZE).get_page(request.GET.get("page"))
    return {"page": page, "tasks": page.object_list}


def _detail_context(task: Task) -> dict[str, Any]:
    attempt = last_attempt(task)
    return {
        "task": task,
        "attempt": attempt,
        "artifacts": list(attempt.artifacts.all()) if attempt else [],
        "wording": wording_of(task.reason),
        "events": list(events_after(task, 0)),
        "ahead": queue_position(task) if task.state == TaskState.WAITING else 0,
    }
