"""Everything that changes a task. Each function is one transaction and talks to no network.

Rows are the outbox: what is announced or queued after a commit only shortens the wait, `manage.py
sweep` finds the same rows.
"""

import datetime
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import prefetch_related_objects
from django.utils import timezone

from accounts.models import User
from agent.protocol.parts import part_bytes_of
from tasks import announce
from tasks.asking.admission import admit, allowed_priority, check_quota, misfit
from tasks.asking.copying import described, request_of, script_of
from tasks.asking.inspection import inspect
from tasks.asking.measuring import script_timeout_s_of, timeout_s_of
from tasks.asking.programs import check_model, check_program
from tasks.asking.request import FileRequest, TaskRequest
from tasks.hints import assign_on_commit
from tasks.kinds import Kind
from tasks.models import Purpose, Task, TaskFile
from tasks.queue.targets import candidates, target_of
from tasks.reasons import Reason
from tasks.states import Outcome, TaskState
from tasks.transitions import transition_if, transitions_if
from webprofile import traces
from webprofile.errors import DomainError
from webprofile.saving import rows_save
from workers.models import Worker

log = structlog.get_logger()

#: a copy of the same task that is younger was asked for by the same click
DOUBLE_CLICK_S = 5


@dataclass(frozen=True)
class StoredObject:
    """What object storage says of an object."""

    size_bytes: int
    md5: str


def initiated_check(task: Task) -> None:
    """Raises DomainError not_initiated for a task whose files are on their way no more."""
    if task.state != TaskState.INITIATED:
        raise DomainError("not_initiated", status=409)


@transaction.atomic
def task_create(*, owner: User, worker: Worker | None = None, request: TaskRequest) -> Task:
    """Register a task in state initiated, with one row for each of its files.

    Without `worker` the request's target chooses the device. Raises DomainError if the request
    cannot be met (`tasks.asking.admission`), quota_reached if the owner has too many live tasks.
    """
    if request.purpose == Purpose.USER:
        check_quota(owner)
    found = admit(owner=owner, worker=worker, request=request)
    task = Task.objects.create(
        owner=owner,
        worker=found.worker,
        runtime_version=found.runtime_version,
        kind=Kind.MODEL if request.script is None else Kind.SCRIPT,
        script=None if request.script is None else request.script.model_dump(mode="json"),
        options=found.options,
        plan=request.plan.model_dump(mode="json"),
        seed=request.seed,
        inputs=[asdict(each) for each in found.inputs],
        copied_from=request.copied_from,
        target=None if request.target is None else request.target.as_json(),
        priority=request.priority,
        title=request.title.strip(),
        purpose=request.purpose,
        traceparent=traces.current.get(),
        timeout_s=_timeout_s(request),
        upload_deadline_at=_from_now(settings.UPLOAD_DEADLINE_S),
    )
    positions: Counter[str] = Counter()
    for file in request.files:
        TaskFile.objects.create(
            task=task,
            kind=file.kind,
            position=positions[file.kind],
            # what has no meaning is not kept: it was not checked either
            input=file.input if file.feeds_an_input and request.script is None else "",
            option=file.option if file.kind == TaskFile.Kind.OPTION else "",
            name=file.name,
            size_bytes=file.size_bytes,
            md5=file.md5,
            part_bytes=_part_bytes(file),
        )
        positions[file.kind] += 1
    announce.task_changed_on_commit(task)
    return task


def _timeout_s(request: TaskRequest) -> int:
    if request.script is not None:
        return script_timeout_s_of(request.script)
    return timeout_s_of(request.plan)


def _part_bytes(file: FileRequest) -> int:
    if file.part_bytes or not file.is_parted:
        return file.part_bytes
    return part_bytes_of(file.size_bytes)


def file_stored(file: TaskFile, *, md5: str = "", etag: str = "") -> None:
    """Note that storage holds a file already, so that nobody is asked to upload it.

    md5, etag: of one that came in parts
    """
    file.stored_at = timezone.now()
    file.md5, file.etag = md5 or file.md5, etag
    file.purged_at = None  # what arrived after its task ended is removed once more
    file.save(update_fields=["stored_at", "purged_at", "md5", "etag"])


@dataclass(frozen=True)
class Arrived:
    """A task whose files are said to be there.

    `stored` maps file ids to what storage holds (None: nothing), `heads` those of files that are
    looked into to their first bytes (`tasks.asking.inspection`, `programs`).
    """

    task: Task
    stored: Mapping[int, StoredObject | None]
    heads: Mapping[int, bytes] = field(default_factory=dict)


def task_submit(
    task: Task,
    stored: Mapping[int, StoredObject | None],
    heads: Mapping[int, bytes] | None = None,
) -> None:
    """Put a task into the queue, its files being what was announced. Repeating it changes nothing.

    stored, heads: see `Arrived`. Raises DomainError upload_missing or upload_damaged, naming the
    files; input_* for data that no device could use, script_* and model_* for a program or model
    that is none; not_initiated if the task ended.
    """
    if refused := tasks_submit([Arrived(task, stored, heads or {})]):
        raise refused[task.pk]


@transaction.atomic
def tasks_submit(arrived: Sequence[Arrived]) -> dict[int, DomainError]:
    """The same of several tasks, together; returns what is wrong with those that stay behind."""
    prefetch_related_objects([each.task for each in arrived], "files")
    refused, changed = dict[int, DomainError](), list[TaskFile]()
    going = defaultdict[tuple[tuple[str, Any], ...], list[Task]](list)
    for each in arrived:
        try:
            looked_into, where = _judged(each)
        except DomainError as error:
            refused[each.task.pk] = error
        else:
            changed += looked_into
            going[tuple(where.items())].append(each.task)
    rows_save(changed, ["arrays"])
    # first in line on commit: the device should not wait for what browsers are told
    assign_on_commit(
        {dict(where).get("worker_id", task.worker_id) for where in going for task in going[where]}
    )
    now, moved = timezone.now(), list[Task]()
    for columns, tasks in going.items():
        moved += transitions_if(
            tasks,
            TaskState.WAITING,
            {TaskState.INITIATED},
            submitted_at=now,
            queue_deadline_at=_from_now(settings.QUEUE_DEADLINE_S),
            **dict(columns),
        )
    TaskFile.objects.filter(task__in=moved).update(stored_at=now)
    late = (task for tasks in going.values() for task in tasks if task.state == TaskState.FINISHED)
    return refused | {task.pk: DomainError("not_initiated", status=409) for task in late}


def _judged(arrived: Arrived) -> tuple[list[TaskFile], dict[str, Any]]:
    """The files whose `arrays` are known now, and columns to change. Raises as `task_submit`."""
    task, stored = arrived.task, arrived.stored
    if task.state == TaskState.FINISHED:
        raise DomainError("not_initiated", status=409)
    files = list(task.files.all())
    missing = [file.name for file in files if stored.get(file.pk) is None]
    if missing:
        raise DomainError("upload_missing", status=409, files=", ".join(missing))
    expected = {file.pk: StoredObject(file.size_bytes, file.stored_md5) for file in files}
    damaged = [file.name for file in files if stored[file.pk] != expected[file.pk]]
    if damaged:
        raise DomainError("upload_damaged", status=409, files=", ".join(damaged))
    looked_into = _look_into(task, files, arrived.heads)
    check_feeds(task, files)
    return looked_into, _chosen_now(task, files)


def _look_into(task: Task, files: list[TaskFile], heads: Mapping[int, bytes]) -> list[TaskFile]:
    """Note what the headers of data files say, and return those; refuse what cannot be inputs.

    Refuses a model that is a program, and a program that is none.
    """
    for file in files:
        if file.kind == TaskFile.Kind.MODEL and file.pk in heads:
            _check_start(task, file, heads[file.pk])
    if task.is_script:
        return []
    data = [file for file in files if file.kind == TaskFile.Kind.DATA and file.pk in heads]
    if not data:
        return []
    runtime = task.worker.runtimes.filter(version=task.runtime_version).first()
    # with a target another device may take what this one cannot: see `_chosen_now`
    kind = runtime.kind if runtime and task.target is None else "wheel"
    for file in data:
        found = inspect(file.name, heads[file.pk], file.size_bytes, kind=kind)
        file.arrays = [array.as_row() for array in found]
    return data


def _check_start(task: Task, file: TaskFile, head: bytes) -> None:
    if script := script_of(task):
        check_program(file.name, head, file.size_bytes, entry=script.entry)
    else:
        check_model(file.name, head)


def _chosen_now(task: Task, files: list[TaskFile]) -> dict[str, Any]:
    """The columns that send a task with a target to the device that is best at this moment.

    Meanwhile the files were uploaded, which may have taken hours. If no device is there any more,
    it waits where it was; raises DomainError if none of those there can take its data.
    """
    if task.target is None or task.state != TaskState.INITIATED:
        return {}
    request = described(task)
    arrays = [array for file in files for array in file.arrays]
    refusals = []
    for each in candidates(target_of(task.target), user=task.owner):
        refusal = misfit(each, request, arrays)
        if refusal is None:
            return {"worker_id": each.worker.pk, "runtime_version": each.runtime.version}
        refusals.append(refusal)
    if refusals:
        raise refusals[0]
    return {}


def check_feeds(task: Task, files: list[TaskFile]) -> None:
    """Raise DomainError if two of files, JSON's entries and given inputs are for one variable."""
    if task.is_script:
        return  # its data feed nothing, they lie beside it
    feeds = [(given["name"], "") for given in task.inputs]
    for file in files:
        if file.kind == TaskFile.Kind.DATA:
            names = [file.input] if file.input else [array["name"] for array in file.arrays]
            feeds += [(name, file.name) for name in names]
    sources = dict[str, str]()
    for name, source in feeds:
        if name in sources:
            both = sorted({sources[name], source} - {""})
            raise DomainError("input_given_twice", field="data", input=name, files=", ".join(both))
        sources[name] = source


@transaction.atomic
def task_copy(task: Task, *, owner: User, **changes: Any) -> tuple[Task, TaskRequest]:
    """Ask for a task once more, with `changes` to its request (fields of TaskRequest).

    Returns the new task, in state initiated, and the request, whose files name the objects to copy.
    Raises DomainError as `task_create`, and as `tasks.asking.copying.request_of`.
    """
    asked = request_of(task)
    asked = replace(asked, priority=allowed_priority(owner, asked.priority))
    request = replace(asked, **changes)
    worker = task.worker if request.target is None else None
    return task_create(owner=owner, worker=worker, request=request), request


@transaction.atomic
def task_rerun(task: Task, *, owner: User) -> tuple[Task, TaskRequest | None]:
    """As `task_copy` without changes, but asked twice in a moment (a double click) it is one task.

    That task comes without a request: who made it copies its files. Raises DomainError not_ended
    while the task lives, task_gone if it was deleted meanwhile.
    """
    # two that ask at the same time do so one after the other
    row = Task.objects.select_for_update().filter(pk=task.pk).first()
    if row is None:
        raise DomainError("task_gone", status=404)
    if row.state != TaskState.FINISHED:
        raise DomainError("not_ended", status=409)
    same = Task.objects.filter(
        copied_from=task,
        owner=owner,
        created_at__gt=_from_now(-DOUBLE_CLICK_S),
    ).exclude(state=TaskState.FINISHED)
    for copy in same.order_by("-pk"):
        # another one may have been made with changes
        if _asked(copy) == _asked(task):
            return copy, None
    return task_copy(task, owner=owner)


def _asked(task: Task) -> tuple[Any, ...]:
    where = (task.worker_id, task.runtime_version) if task.target is None else task.target
    return where, task.options, task.plan, task.inputs, task.seed, task.title, task.script


@transaction.atomic
def task_copy_failed(task: Task, *, detail: str = "") -> bool:
    """End a task whose files could not be taken over from an earlier one."""
    return transition_if(
        task,
        TaskState.FINISHED,
        {TaskState.INITIATED},
        outcome=Outcome.FAILED,
        reason=Reason.COPY_FAILED.value,
        detail=detail[:1000],
    )


@transaction.atomic
def task_cancel(task: Task) -> None:
    """Ask for an end. A task that no device holds ends at once; an ended one stays as it is."""
    # between the two moves below it must not go back from a device to the queue
    Task.objects.select_for_update().filter(pk=task.pk).first()
    idle = {TaskState.INITIATED, TaskState.WAITING}
    if transition_if(
        task, TaskState.FINISHED, idle, outcome=Outcome.CANCELLED, reason="cancelled_by_user"
    ):
        return
    held = {TaskState.ASSIGNED, TaskState.RUNNING}
    if transition_if(task, TaskState.CANCELLING, held):
        announce.poke_worker_on_commit(task.worker_id)


@transaction.atomic(savepoint=False)
def task_complete(task: Task) -> bool:
    """End a task whose profile is stored. Returns whether it was this call that ended it."""
    return transition_if(
        task, TaskState.FINISHED, {TaskState.PROCESSING}, outcome=Outcome.SUCCEEDED
    )


@transaction.atomic
def task_is_read(task: Task) -> None:
    """Its result is being read right now: nobody else need be asked to (`tasks.sweeping`)."""
    processing = Task.objects.filter(pk=task.pk, state=TaskState.PROCESSING)
    processing.update(hinted_at=timezone.now())


@transaction.atomic
def task_fail(task: Task, *, reason: str, detail: str = "") -> bool:
    """End a task that no device holds as failed."""
    sources = {TaskState.INITIATED, TaskState.WAITING, TaskState.PROCESSING}
    return transition_if(
        task,
        TaskState.FINISHED,
        sources,
        outcome=Outcome.FAILED,
        reason=reason,
        detail=detail[:1000],
    )


@transaction.atomic
def task_abandon(task: Task) -> bool:
    """End a task whose upload was never completed."""
    return transition_if(
        task,
        TaskState.FINISHED,
        {TaskState.INITIATED},
        outcome=Outcome.CANCELLED,
        reason="upload_abandoned",
    )


def _from_now(seconds: float) -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=seconds)
