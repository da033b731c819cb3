"""What each of an agent's messages does: one function per message, rows in and frames out.

Runs in a thread (the ORM is synchronous). An attempt that is not this worker's, or has ended, is
answered as if all were well, so that a late agent comes to rest.
"""

import datetime
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from pydantic import BaseModel
from structlog.contextvars import bind_contextvars, bound_contextvars, unbind_contextvars

from agent.protocol import (
    Ack,
    AttemptAccepted,
    AttemptFinished,
    AttemptLog,
    AttemptUploads,
    Cancel,
    FileOffer,
    GivenInput,
    Hello,
    InputFile,
    Plan,
    Start,
    Uploads,
    UploadTarget,
    Welcome,
)
from profiles.models import artifact_key
from profiles.services import artifacts_judge, artifacts_offer, artifacts_record
from tasks import attempts
from tasks.asking.copying import script_of
from tasks.hints import dispatch_on_commit
from tasks.models import Attempt, TaskFile
from tasks.queue.eligibility import is_script_forbidden
from tasks.reports import Report, attempts_held, reports_take
from tasks.reviving import attempts_revive
from tasks.selectors import known_sums
from tasks.states import TaskState
from webprofile.saving import wait_at_most
from webprofile.storage import storage
from webprofile.watching.task_traces import attempt_traced
from workers import releases, services
from workers.models import LONG, Worker

log = structlog.get_logger()

Replies = list[BaseModel]
#: an order given less than this before a heartbeat that does not name it is on its way, not lost
ORDER_PATIENCE = datetime.timedelta(seconds=2)
#: how long reports of many devices wait for a row that somebody has locked
LOCK_S = 1.0


def on_hello(worker: Worker, message: Hello) -> Replies:
    # before it counts as online, and gets the same task anew
    attempts_revive(worker.pk, message.running)
    services.worker_introduce(
        worker,
        facts=message.facts,
        agent_version=message.agent_version,
        runtimes=message.runtimes,
        features=message.features,
    )
    attempts.leases_renew(worker, message.running)
    for attempt in _live(worker.pk).exclude(accepted_at=None).exclude(pk__in=message.running):
        # it had the order on disk and does not know it any more: no report will ever come
        attempts.attempt_lose(attempt, reason="agent_forgot")
    dispatch_on_commit([worker.pk])
    log.info("agent_connected", version=message.agent_version)
    welcome = Welcome(
        worker=worker.name,
        server_time=time.time(),
        heartbeat_s=settings.HEARTBEAT_S,
        agent_version=releases.served_version(),
    )
    stale = _cancel_ended(worker.pk, message.running)
    return [welcome, *stale, *desired_state(worker.pk, message.running)]


def on_heartbeats(
    held: Mapping[int, frozenset[uuid.UUID]], said_at: datetime.datetime | None = None
) -> dict[int, Replies]:
    """What follows from heartbeats: `held` maps workers to the attempts that they say they hold.

    said_at: when the first of them was said; None: at this moment
    Two or three queries for all together, and some more for each worker that needs an order: a
    wake-up may have been lost, and orders are idempotent. An error about one worker is logged and
    concerns it alone: its agent says the same again soon.
    """
    live: dict[int, set[uuid.UUID]] = defaultdict(set)
    renewed, in_need = [], set()
    on_its_way = (said_at or timezone.now()) - ORDER_PATIENCE
    rows = Attempt.objects.filter(worker__in=held, ended_at=None)
    for attempt in rows.select_related("task").only("worker", "accepted_at", *_OF_A_BEAT):
        running = held[attempt.worker_id]
        live[attempt.worker_id].add(attempt.pk)
        if attempt.pk in running:
            renewed.append(attempt)
        elif attempt.accepted_at is None and attempt.created_at < on_its_way:
            in_need.add(attempt.worker_id)
        if attempt.task.state == TaskState.CANCELLING:
            in_need.add(attempt.worker_id)
    attempts.leases_keep(renewed)
    gone = {worker: lost for worker, running in held.items() if (lost := running - live[worker])}
    # as after a hello: what counts as online before would get the same tasks anew
    failed = {worker for worker, lost in gone.items() if not _is_revived(worker, lost)}
    services.workers_seen(held.keys() - failed)
    return {worker: _orders(worker, held[worker]) for worker in (in_need | gone.keys()) - failed}


def _is_revived(worker: int, gone: frozenset[uuid.UUID]) -> bool:
    """Whether it went without an error, which is logged: others' heartbeats are not held up."""
    try:
        attempts_revive(worker, gone)
    except Exception:
        log.exception("attempts_not_revived", worker=worker)
        return False
    return True


def _orders(worker: int, running: frozenset[uuid.UUID]) -> Replies:
    """None if the rows cannot be read or signed, which is logged: others get theirs."""
    try:
        return [*_cancel_ended(worker, running), *desired_state(worker, running)]
    except Exception:
        log.exception("orders_not_found", worker=worker)
        return []


#: the columns of attempts that a heartbeat is compared with
_OF_A_BEAT = ("created_at", "lease_expires_at", "task__state")


def on_reports(said: Sequence[tuple[Worker, Report]]) -> list[Replies | None]:
    """What follows from reports of any workers, in the order in which they were said.

    About ten queries for all together. None is the answer to a report that must be taken by itself
    (`on_report`): somebody else has locked its rows, or an error about one broke all of them.
    """
    if not said:
        return []
    try:
        taken = _take(said, may_wait=False)
    except Exception:
        log.warning("reports_taken_singly", reports=len(said), exc_info=True)
        return [None] * len(said)
    return [
        _acknowledged(report) if is_taken else None
        for (_, report), is_taken in zip(said, taken, strict=True)
    ]


def on_report(worker: Worker, report: Report) -> Replies:
    """The same of one report, which waits for those who have locked its rows."""
    with bound_contextvars(worker=worker.name, attempt=str(report.attempt)):
        _take([(worker, report)], may_wait=True)
    return _acknowledged(report)


def _acknowledged(report: Report) -> Replies:
    match report:
        case AttemptAccepted() | AttemptFinished():
            return [Ack(of=report.type, attempt=report.attempt)]
    return []


@transaction.atomic
def _take(said: Sequence[tuple[Worker, Report]], *, may_wait: bool) -> list[bool]:
    """Do what is reported; of each whether it was taken: its attempt is the worker's, and locked.

    Without `may_wait` it waits for other rows a second at most, and raises OperationalError then.
    """
    if not may_wait:
        wait_at_most(LOCK_S)
    held = attempts_held(said, may_wait=may_wait)
    taken = [(report.attempt, worker.pk) in held for worker, report in said]
    reports = [
        (held[report.attempt, worker.pk], report)
        for (worker, report), is_taken in zip(said, taken, strict=True)
        if is_taken
    ]
    _record_files(reports)
    for attempt, report in reports_take(reports):
        attempt_traced(attempt, report.phases)
    return taken


def _record_files(reports: Iterable[tuple[Attempt, Report]]) -> None:
    """Those that came before the end; what a second report of it names is fenced."""
    ends: dict[uuid.UUID, tuple[Attempt, tuple[FileOffer, ...]]] = {}
    for attempt, report in reports:
        if isinstance(report, AttemptFinished) and attempt.ended_at is None:
            ends.setdefault(attempt.pk, (attempt, report.files))
    artifacts_record((attempt, files) for attempt, files in ends.values() if files)


def on_log(worker: Worker, message: AttemptLog) -> Replies:
    if attempt := _find(worker, message.attempt):
        attempts.attempt_log(attempt, message)
    return []


@transaction.atomic
def on_uploads(worker: Worker, message: AttemptUploads) -> Replies:
    """Sign a PUT for each file that an attempt may store, or say why it may not.

    All files of an attempt that is over count as stored already. What is signed is noted at once,
    so that the limit on all files holds over several questions; the attempt is locked, so that no
    file that its end named is noted as not stored after that.
    """
    attempt = _find(worker, message.attempt, is_locked=True)
    if attempt is None or attempt.ended_at is not None:
        targets = [UploadTarget(name=file.name, url="") for file in message.files]
    else:
        judged = artifacts_judge(attempt, message.files)
        artifacts_offer(attempt, [file for file, refused in judged if not refused])
        targets = [_target(attempt, file, refused) for file, refused in judged]
    return [Uploads(attempt=message.attempt, targets=tuple(targets))]


def _target(attempt: Attempt, file: FileOffer, refused: str) -> UploadTarget:
    if refused:
        return UploadTarget(name=file.name, url="", refused=refused)
    key = artifact_key(str(attempt.pk), file.name)
    url, headers = storage.presign_put(key, size_bytes=file.size_bytes, md5=file.md5)
    return UploadTarget(name=file.name, url=url, headers=headers)


HANDLERS: dict[type[BaseModel], Callable[[Worker, Any], Replies]] = {
    Hello: on_hello,
    AttemptLog: on_log,
    AttemptUploads: on_uploads,
}


def handle(worker: Worker, message: BaseModel) -> Replies:
    """Do what a message asks for and return the frames to send back."""
    if isinstance(message, Report):
        return on_report(worker, message)
    about = {"worker": worker.name}
    if attempt := getattr(message, "attempt", None):
        about["attempt"] = str(attempt)
    with bound_contextvars(**about):
        try:
            return HANDLERS[type(message)](worker, message)
        finally:
            unbind_contextvars("task")


def desired_state(worker: int, running: frozenset[uuid.UUID] = frozenset()) -> Replies:
    """What a worker's agent should be doing: starts not accepted yet, cancels not met yet."""
    return desired_states({worker: running})[worker]


def desired_states(running: Mapping[int, frozenset[uuid.UUID]]) -> dict[int, Replies]:
    """The same of several workers, by what each of them runs, in as many queries as of one."""
    orders: dict[int, Replies] = {worker: [] for worker in running}
    live = list(_live(*running).prefetch_related("task__files"))
    to_start = {each.pk for each in live if _is_to_start(each, running[each.worker_id])}
    sums = known_sums(
        file for each in live if each.pk in to_start for file in each.task.files.all()
    )
    for attempt in live:
        if attempt.task.state == TaskState.CANCELLING:
            orders[attempt.worker_id].append(Cancel(attempt=attempt.pk))
        elif attempt.pk not in to_start:
            continue
        elif is_script_forbidden(attempt.task, attempt.worker):
            # forbidden between the assignment and now: the task waits again, and says why
            attempts.attempt_lose(attempt, reason=attempts.SCRIPTS_WITHDRAWN)
        else:
            orders[attempt.worker_id].append(_start(attempt, sums))
    return orders


def _is_to_start(attempt: Attempt, running: frozenset[uuid.UUID]) -> bool:
    is_wanted = attempt.task.state != TaskState.CANCELLING
    return is_wanted and attempt.accepted_at is None and attempt.pk not in running


def orders_of(workers: Collection[int]) -> dict[int, Replies]:
    """What workers should be doing; an error about one concerns it alone."""
    if not workers:
        return {}
    try:
        return desired_states(dict.fromkeys(workers, frozenset()))
    except Exception:
        log.warning("orders_read_singly", workers=len(workers), exc_info=True)
        return {worker: _orders(worker, frozenset()) for worker in workers}


def _cancel_ended(worker: int, running: frozenset[uuid.UUID]) -> Replies:
    """Orders to stop what the agent still runs but the server gave up, such as a lost lease.

    Without them it would run beside the attempt that took its place, and disturb it.
    """
    live = set(_live(worker).filter(pk__in=running).values_list("pk", flat=True))
    return [Cancel(attempt=attempt) for attempt in running - live]


def _start(attempt: Attempt, sums: Mapping[int, str]) -> Start:
    task = attempt.task
    # the model or program first, then data, then the files of options: the order of `TaskFile`
    model, *data = [_input_file(file, sums.get(file.pk)) for file in task.files.all()]
    return Start(
        attempt=attempt.pk,
        runtime=task.runtime_version,
        model=model,
        data=tuple(data),
        inputs=tuple(GivenInput.model_validate(given) for given in task.inputs),
        seed=task.seed,
        plan=Plan.model_validate(task.plan),
        options=task.options,
        script=script_of(task),
        timeout_s=task.timeout_s,
        grace_s=settings.CANCEL_GRACE_S,
        task=task.pk,
        traceparent=task.traceparent,
    )


def _input_file(file: TaskFile, sha256: str | None) -> InputFile:
    return InputFile(
        name=file.device_name,
        input=file.input,
        option=file.option,
        sha256=sha256,
        url=storage.presign_get(file.object_key, expires_s=settings.AGENT_PRESIGN_EXPIRY_S),
        size_bytes=file.size_bytes,
        md5=file.md5,
        part_bytes=file.part_bytes,
    )


def _live(*workers: int) -> Any:
    live = Attempt.objects.filter(worker__in=workers, ended_at=None)
    return live.select_related("task", "worker").defer(*(f"worker__{name}" for name in LONG))


def _find(worker: Worker, attempt_id: uuid.UUID, *, is_locked: bool = False) -> Attempt | None:
    rows = Attempt.objects.filter(pk=attempt_id, worker=worker).select_related("task")
    found = (rows.select_for_update(of=("self",)) if is_locked else rows).first()
    if found is not None:
        bind_contextvars(task=found.task_id)
    return found
