"""Functions that create users, devices, tasks and attempts for tests."""

import contextlib
import datetime
import hashlib
import io
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx2
import numpy as np
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from accounts.models import User
from agent.protocol.messages import (
    AttemptAccepted,
    AttemptFinished,
    AttemptLog,
    AttemptStarted,
    EndReason,
    Facts,
    RuntimeInfo,
    SlowestOperators,
)
from agent.protocol.plan import PRESETS
from tasks.actors import diagnose_run
from tasks.lifecycle.attempts import assign_attempt, store_log
from tasks.lifecycle.reports import Report, apply_report, held_attempt
from tasks.models import Attempt, Task, TaskFile
from tasks.scheduling.queue_status import queue_facts
from tasks.scheduling.targets import Target
from tasks.submission import uploads
from tasks.submission.creation import create_task
from tasks.submission.request import FileRequest, TaskRequest, request_of
from workers.models import LastHeartbeat, Runtime, Worker

_numbers = itertools.count(1)
#: of `hello world`
MD5 = "5eb63bbbe01eeed093cb22bb8f5acdc3"
#: 16 bytes, which begin as a model does
MODEL = b"\x0c\0\0\0\x1c\0\0\0mgv2\0\0\0\0"
MODEL_MD5 = hashlib.md5(MODEL).hexdigest()


def make_user(name: str = "alice", **extra: Any) -> User:
    return User.objects.create_user(f"{name}@example.com", "correct horse battery", **extra)


def make_worker(
    name: str = "", *, online: bool = True, version: str = "1.13.0", **extra: Any
) -> Worker:
    worker = Worker.objects.create(name=name or f"worker-{next(_numbers)}", **extra)
    if online:
        LastHeartbeat.objects.create(worker=worker, last_seen_at=timezone.now())
    Runtime.objects.create(worker=worker, version=version, kind="wheel")
    return worker


def model_file(**changes: Any) -> FileRequest:
    fields = {"kind": "model", "name": "net.mge", "size_bytes": len(MODEL), "md5": MODEL_MD5}
    return FileRequest(**fields | changes)


def data_file(**changes: Any) -> FileRequest:
    fields = {"kind": "data", "name": "data.npy", "size_bytes": 11, "md5": MD5, "input": "data"}
    return FileRequest(**fields | changes)


def run_submit(*arguments: str, **options: Any) -> str:
    """Run `manage.py submit` for alice without waiting for the tasks; return its output."""
    out = io.StringIO()
    options = {"stdout": out, "wait": False} | options
    call_command("submit", *arguments, "--as", "alice@example.com", **options)
    return out.getvalue()


def model_bytes(content: bytes) -> bytes:
    """Return a file that begins as a model does and ends in `content`."""
    return (12 + len(content)).to_bytes(4, "little") + MODEL[4:] + content


def npy_bytes(shape: tuple[int, ...] = (1, 3), dtype: str = "float32") -> bytes:
    """Return the content of an .npy file of zeros."""
    file = io.BytesIO()
    np.save(file, np.zeros(shape, dtype), allow_pickle=False)
    return file.getvalue()


def make_task(owner: User | None = None, worker: Worker | None = None, **changes: Any) -> Task:
    """Create a task in state initiated."""
    owner = owner or User.objects.first() or make_user()
    worker = worker or Worker.objects.first() or make_worker()
    files = changes.pop("files", [model_file(), data_file()])
    request = TaskRequest(**{"runtime_version": "1.13.0", "files": tuple(files)} | changes)
    return create_task(owner=owner, worker=worker, request=request)


def cause_codes(task: Task) -> list[str]:
    """Return the codes of the causes why a task waits, as its owner sees them."""
    facts = queue_facts(task, reader=task.owner)
    assert facts is not None
    return [cause.code for cause in facts.causes]


def make_changed_copy(task: Task, **changes: Any) -> Task:
    """Create a task in state initiated that repeats another one with a changed request."""
    request = replace(request_of(task), **changes)
    return create_task(owner=task.owner, worker=task.worker, request=request)


def stored_objects(task: Task) -> dict[int, uploads.StoredObject | None]:
    """Return what storage reports of a task's files after complete uploads."""
    return {f.pk: (f.size_bytes, f.md5) for f in task.files.all()}


def make_waiting_task(*args: Any, **kwargs: Any) -> Task:
    task = make_task(*args, **kwargs)
    uploads.submit_task(task, stored_objects(task))
    return task


def _columns(row: Task | TaskFile) -> dict[str, Any]:
    """Return the columns of a row, except its key."""
    fields = (field for field in row._meta.concrete_fields if not field.primary_key)
    return {field.attname: getattr(row, field.attname) for field in fields}


def make_copies(task: Task, count: int) -> list[Task]:
    """Create tasks that equal a task, with its files, in two statements."""
    copies = Task.objects.bulk_create(Task(**_columns(task)) for _ in range(count))
    TaskFile.objects.bulk_create(
        TaskFile(**_columns(file) | {"task_id": copy.pk})
        for copy in copies
        for file in task.files.all()
    )
    return copies


def make_task_for_any_device(
    owner: User,
    labels: dict[str, str] | None = None,
    pool: str = "",
    versions: str = "",
    **changes: Any,
) -> Task:
    """Create a waiting task for any matching device."""
    request = TaskRequest(
        target=Target(labels or {}, pool, versions),
        **{"files": (model_file(), data_file())} | changes,
    )
    task = create_task(owner=owner, request=request)
    uploads.submit_task(task, stored_objects(task))
    task.refresh_from_db()
    return task


def occupy(worker: Worker, owner: User) -> Attempt:
    """Create a live attempt in the first slot of a device."""
    version = worker.runtimes.get().version
    attempt = assign_attempt(make_waiting_task(owner, worker, runtime_version=version), slot=0)
    assert attempt is not None
    return attempt


def go_offline(worker: Worker) -> None:
    two_minutes_ago = timezone.now() - datetime.timedelta(minutes=2)
    set_last_heartbeat(two_minutes_ago, worker.pk)


def set_last_heartbeat(at: datetime.datetime | None, *keys: int) -> None:
    """Set the last heartbeat of these devices, or of all. None: they never connected."""
    workers = Worker.objects.filter(pk__in=keys) if keys else Worker.objects.all()
    LastHeartbeat.objects.filter(worker__in=workers).delete()
    if at is not None:
        LastHeartbeat.objects.bulk_create(
            LastHeartbeat(worker=worker, last_seen_at=at) for worker in workers
        )


def change_worker(key: int, **columns: Any) -> None:
    """Write columns of a device; `last_seen_at` is its last heartbeat."""
    if "last_seen_at" in columns:
        set_last_heartbeat(columns.pop("last_seen_at"), key)
    if columns:
        Worker.objects.filter(pk=key).update(**columns)


def make_attempt(task: Task | None = None) -> Attempt:
    """Return a live attempt of a waiting task.

    Where transactions commit, the dispatcher has assigned it already; otherwise this assigns it.
    """
    task = task or make_waiting_task()
    attempt = task.attempts.first() or assign_attempt(task, slot=0)
    assert attempt is not None
    return attempt


FACTS = Facts(
    hostname="host-7f3a", platform="Linux", machine="x86_64", cores=2, memory_bytes=1 << 30
)
RUNTIMES = (RuntimeInfo(version="1.13.0", kind="wheel", python="3.10.13"),)


@contextlib.contextmanager
def just_before_writing(table: str, function: Callable[[], object]) -> Iterator[None]:
    """Call a function just before the first UPDATE of a table, to provoke a race."""
    is_called = False

    def intercept(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        nonlocal is_called
        if not is_called and sql.startswith(f'UPDATE "{table}"'):
            is_called = True
            function()
        return execute(sql, *args)

    with connection.execute_wrapper(intercept):
        yield
    assert is_called


def receive_report(attempt: Attempt, report: Report) -> bool:
    """Apply a report of the device to an attempt; return whether it ended the attempt."""
    with transaction.atomic():
        locked = held_attempt(Attempt.objects.filter(pk=attempt.pk))
        assert locked is not None
        is_ended = apply_report(locked, report)
    attempt.refresh_from_db(from_queryset=Attempt.objects.select_related("task"))
    return is_ended


def fail_run(attempt: Attempt, **fields: Any) -> None:
    """End an attempt whose run failed, and its task with the reason in its log."""
    receive_report(attempt, finished_report(attempt, **{"exit_code": 1} | fields))
    diagnose_run.fn(str(attempt.pk))
    attempt.task.refresh_from_db()


def store_log_chunk(attempt: Attempt, chunk: AttemptLog) -> None:
    """Store a chunk of the log of an attempt."""
    store_log(Attempt.objects.filter(pk=attempt.pk), chunk)


def accept_attempt(attempt: Attempt) -> None:
    receive_report(attempt, AttemptAccepted(attempt=attempt.pk))


TASKS = "/api/v1/tasks/"

FILES = {"net.mge": MODEL, "data.npy": npy_bytes()}


def post_json(client, url, body=None):
    return client.post(url, {} if body is None else body, content_type="application/json")


def task_request(**changes):
    """Return the body of a request that creates a task."""

    def file(kind, name, **more):
        content = FILES[name]
        digest = hashlib.md5(content).hexdigest()
        return {"kind": kind, "name": name, "size_bytes": len(content), "md5": digest} | more

    worker = None if "worker" in changes else make_worker().pk
    return {
        "worker": worker,
        "runtime_version": "1.13.0",
        "files": [file("model", "net.mge"), file("data", "data.npy", input="data")],
    } | changes


def upload_files(task):
    """Upload the files of a task; `task` is the response of the API that created it."""
    for target in task["uploads"]:
        content = FILES[target["name"]]
        answer = httpx2.put(target["url"], content=content, headers=target["headers"])
        assert answer.status_code == 200


def make_processing_attempt(task: Task | None = None, **fields: Any) -> Attempt:
    """Create an attempt that has ended; its profile, or its log if it failed, is not read yet."""
    attempt = make_attempt(task)
    receive_report(attempt, finished_report(attempt, **fields))
    return attempt


def finished_report(
    attempt: Attempt, reason: EndReason = EndReason.EXITED, **fields
) -> AttemptFinished:
    fields = {"exit_code": 0} | fields if reason == EndReason.EXITED else fields
    return AttemptFinished(attempt=attempt.pk, at=0.0, reason=reason, **fields)


def started_report(attempt: Attempt, **fields) -> AttemptStarted:
    facts = {"command": "load_and_run model.mge"} | fields
    return AttemptStarted(attempt=attempt.pk, at=0.0, **facts)


#: a plan with eight passes: three without the profiler, and five with it
STANDARD = PRESETS["standard"]
SLOWEST = SlowestOperators(
    operators=173,
    total_us=13747.0,
    types=("ConvolutionForward", "<b>Elemwise</b>"),
    rows=(("conv(data,conv1.weight)[493]", 0, 1948.0), ("<i>relu</i>[2]", 1, 1105.0)),
)


def start_run(
    owner: User, *, passes_done: int = 0, slowest: SlowestOperators | None = None, **changes: Any
) -> Attempt:
    """Return a live attempt with the plan "standard", of which passes have ended."""
    attempt = make_attempt(make_waiting_task(owner, plan=STANDARD, **changes))
    receive_report(attempt, started_report(attempt, passes=8))
    if passes_done:
        report = started_report(attempt, passes=8, passes_done=passes_done, slowest=slowest)
        receive_report(attempt, report)
    return attempt


def make_tasks(owner, count, *, worker=None, **columns):
    """Create tasks with these columns; return their ids."""
    worker = worker or make_worker()
    rows = [
        Task(owner=owner, worker=worker, runtime_version="1.13.0", timeout_s=9, **columns)
        for _ in range(count)
    ]
    return [task.pk for task in Task.objects.bulk_create(rows)]
