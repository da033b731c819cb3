"""The requests with which a page or a script asks for a task: JSON in, JSON out."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, JsonResponse, QueryDict
from django.urls import reverse
from django.utils import translation

from accounts.models import User
from accounts.selectors import reader_of
from agent.protocol.artifacts import artifact_of
from agent.protocol.options import OPTIONS
from profiles.models import Artifact
from profiles.removal import draft_discard
from profiles.task_files import sources_check, task_confirm, upload_targets
from tasks import services
from tasks.asking.admission import (
    allowed_priority,
    candidates_or_refuse,
    quota_of,
)
from tasks.asking.copying import copy_of, request_of
from tasks.asking.request import FileRequest
from tasks.forms import FileBody, read_priority, read_task_body
from tasks.models import Task, TaskFile
from tasks.queue.facts import outlook
from tasks.queue.loads import loads_of
from tasks.queue.targets import Candidate, newest_first, pools_of, read_target
from tasks.queue.turns import ANY_PRIORITY, OWN_PRIORITY
from tasks.queue.words import queue_rows
from tasks.reasons import Reason
from tasks.selectors import tasks_visible_to
from tasks.states import TaskState
from webprofile.errors import DomainError
from webprofile.integers import LARGEST_KEY, parse_int
from webprofile.storage import storage
from webprofile.wording import word
from workers.labels import labels_of
from workers.models import Runtime, Worker
from workers.selectors import workers_visible_to

#: the artifact of an earlier task that may be the content of an option
CACHES = {
    "fast_run_algo_policy": artifact_of("fast_run_algo_policy"),
    "tensorrt_cache": artifact_of("tensorrt_cache"),
    "pack_cache": artifact_of("fast_run_algo_policy"),
}
MOST_CHOICES = 50
#: how a task ends whose file is refused, by how the refusal's code begins
_UNUSABLE = {
    "input": Reason.INPUT_UNREADABLE,
    "script": Reason.SCRIPT_UNREADABLE,
    "model": Reason.MODEL_INVALID,
}


def create(request: HttpRequest) -> JsonResponse:
    """A new task, answered with one presigned PUT for each file that is to be uploaded."""
    reader = reader_of(request)
    body = read_task_body(request.body)
    worker = None
    if body.worker is not None:
        worker = Worker.objects.filter(pk=body.worker).first()
        if worker is None:
            raise DomainError("worker_unknown", field="worker")
    files = tuple(completed(file, reader) for file in body.files)
    wanted = body.as_request(files)
    if body.copied_from is not None:
        origin = tasks_visible_to(reader).filter(pk=body.copied_from).first()
        wanted = replace(wanted, copied_from=origin)
    sources_check(files)
    task = services.task_create(owner=reader, worker=worker, request=wanted)
    try:
        copy_sources(task, files)
    except DomainError:
        draft_discard(task)
        raise
    answer = {
        "id": task.pk,
        "url": reverse("tasks:detail", args=[task.pk]),
        "uploads": upload_targets(task),
    }
    return JsonResponse(answer, status=201)


def where_rows(reader: User) -> dict[str, Any]:
    """What the form offers to choose from: devices with their queues, and what they have."""
    workers = list(workers_visible_to(reader).filter(retired_at=None).prefetch_related("pools"))
    loads = loads_of(workers)
    labels: dict[str, set[str]] = {}
    for worker in workers:
        for name, value in labels_of(worker).items():
            labels.setdefault(name, set()).add(value)
    versions = {runtime.version for worker in workers for runtime in worker.runtimes.all()}
    limit = ANY_PRIORITY if reader.is_staff else OWN_PRIORITY
    return {
        "workers": [(worker, loads[worker.pk]) for worker in workers],
        "takes_scripts": any(worker.takes_scripts for worker in workers),
        "labels": [(name, sorted(values)) for name, values in sorted(labels.items())],
        "pools": sorted({name for worker in workers for name in pools_of(worker)}),
        "versions": sorted(versions, key=newest_first, reverse=True),
        "priority_limit": limit,
    }


def outlook_of(params: QueryDict, reader: User) -> dict[str, Any]:
    """What `tasks/_outlook.html` shows: the queue that a task asked for like this would enter.

    params: `worker` and `runtime`, or with `any` a target: `labels` (name=value, repeated),
    `pool`, `versions`; `priority`, and `script` for one
    """
    answer: dict[str, Any] = {"quota": quota_of(reader)}
    try:
        place = _place(params, reader)
        if place is None:
            return answer
        facts = outlook(
            place.worker,
            place.runtime.version,
            owner=reader,
            priority=allowed_priority(reader, read_priority(params.get("priority") or "0")),
            is_script=bool(params.get("script")),
        )
    except DomainError as error:
        return answer | {"problem": word(error)}
    chosen = place if params.get("any") else None
    return answer | {"queue": queue_rows(facts), "worker": place.worker, "chosen": chosen}


def _place(params: QueryDict, reader: User) -> Candidate | None:
    """The device and version that are asked for; None if none is chosen yet."""
    if params.get("any"):
        pairs = (text.partition("=") for text in params.getlist("labels"))
        labels = {name: value for name, _, value in pairs}
        target = read_target(
            {"labels": labels, **{k: params.get(k, "") for k in ("pool", "versions")}},
            scripts=bool(params.get("script")),
        )
        return candidates_or_refuse(target, user=reader)[0]
    version = params.get("runtime", "")
    wanted = parse_int(params.get("worker", ""), maximum=LARGEST_KEY)
    if wanted is None or not version.isprintable():
        return None
    found = named_runtime(reader, wanted, version[:40])
    return None if found is None else Candidate(found.worker, found)


def copy_sources(task: Task, files: tuple[FileRequest, ...]) -> None:
    """Copy what lies in storage already, for files with a source. Raises DomainError.

    `files` are those that the task was created with; whatever fails, the task ends.
    """
    rows = {(row.kind, row.position): row for row in task.files.all()}
    positions: Counter[str] = Counter()
    try:
        for file in files:
            row = rows[file.kind, positions[file.kind]]
            positions[file.kind] += 1
            if file.source:
                _, etag = storage.copy(file.source, row.object_key)
                # a copy may be in one piece where its source came in parts
                services.file_stored(row, etag=etag if file.part_bytes else "")
    except Exception as error:
        end_copy(task, error)
        raise


def task_repeat(
    task: Task, *, owner: User, keep: Callable[[Task], object] = lambda copy: None
) -> tuple[Task, bool]:
    """Ask for the same once more, with copies of its files, and put it into the queue.

    Returns the new task, and whether this call made it: a double click makes one only. `keep` gets
    it in the transaction that makes it. Raises DomainError as `sources_check`, before anything is
    made, `tasks.services.task_rerun` and `task_confirm`; whatever fails once it is made, the new
    task ends.
    """
    if task.state == TaskState.FINISHED:  # of others `task_rerun` says what is wrong
        sources_check(request_of(task).files)
    with transaction.atomic():
        copy, asked = services.task_rerun(task, owner=owner)
        keep(copy)
    if asked is not None:
        copy_sources(copy, asked.files)
        copy_confirm(copy)
    return copy, asked is not None


def copy_confirm(task: Task) -> None:
    """Put a task whose files were copied into the queue; whatever fails, it ends."""
    try:
        task_confirm(task)
    except Exception as error:
        end_copy(task, error)
        raise


def end_refused(task: Task, error: DomainError) -> None:
    """End a task one of whose files cannot be what it was sent as, in the words of what is wrong.

    The file will not get better: what is wanted is another task. Other errors change nothing.
    """
    reason = _UNUSABLE.get(error.code.partition("_")[0])
    if reason is not None:
        with translation.override("en"):  # as all details
            services.task_fail(task, reason=reason.value, detail=str(word(error)))


def end_copy(task: Task, error: Exception) -> None:
    """End a task that could not take over its files, in the words of what went wrong."""
    with translation.override("en"):  # as all details
        detail = word(error) if isinstance(error, DomainError) else ""
    services.task_copy_failed(task, detail=detail)


def cache_choices(reader: User) -> dict[str, list[Artifact]]:
    """The reader's own caches that each option may take, newest first."""
    names = set(CACHES.values())
    found = list(
        _caches(reader).filter(name__in=names).order_by("-attempt__task_id")[:MOST_CHOICES]
    )
    return {
        option: [each for each in found if each.name == name] for option, name in CACHES.items()
    }


def _caches(reader: User) -> QuerySet[Artifact]:
    own = Artifact.objects.filter(
        is_stored=True, attempt__task__owner=reader, attempt__task__state=TaskState.FINISHED
    )
    return own.select_related("attempt__task").prefetch_related("attempt__task__files")


def completed(file: FileBody, reader: User) -> FileRequest:
    """The file as it is to be stored; one from an earlier task is looked up."""
    if file.from_file is not None:
        return _taken_over(file, file.from_file, reader)
    if file.from_task is None:
        return file.as_request()
    option = file.option
    if file.kind != "option" or option not in CACHES:
        raise DomainError("option_file_unwanted", field=option, option=option)
    tasks = Task.objects.filter(pk=file.from_task, owner=reader)
    if not tasks.exists():
        # a stranger's is as unknown as one that never was
        raise DomainError("source_unknown", field=option, task=file.from_task)
    artifact = (
        _caches(reader)
        .filter(attempt__task_id=file.from_task, name=CACHES[option])
        .order_by("-attempt__number")
        .first()
    )
    if artifact is None:
        raise DomainError("source_missing", field=option, task=file.from_task, name=CACHES[option])
    return FileRequest(
        "option",
        OPTIONS[option].file,
        artifact.size_bytes,
        artifact.md5,
        option=option,
        source=artifact.object_key,
    )


def _taken_over(file: FileBody, taken: int, reader: User) -> FileRequest:
    """A file of an earlier task, for the same purpose or another variable."""
    row = TaskFile.objects.filter(
        pk=taken, kind=file.kind, task__in=tasks_visible_to(reader)
    ).first()
    if row is None:
        raise DomainError("file_unknown", field=file.option or file.kind)
    return replace(copy_of(row), input=file.input.strip() or row.input)


def named_runtime(reader: User, worker_id: int | None, version: str) -> Runtime | None:
    """This version on this device, if the reader may see it."""
    found = Runtime.objects.filter(
        worker__in=workers_visible_to(reader), worker=worker_id, version=version
    )
    return found.select_related("worker").first()
