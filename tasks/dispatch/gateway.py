"""What each of an agent's messages does: one function per message, rows in and frames out.

Runs in a thread (the ORM is synchronous). An attempt that is not this worker's, or has ended, is
answered as if all were well, so that a late agent comes to rest.
"""

import datetime
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, Prefetch, QuerySet
from django.utils import timezone
from pydantic import BaseModel
from structlog.contextvars import bind_contextvars, bound_contextvars, unbind_contextvars

from agent.protocol import (
    Ack,
    AttemptAccepted,
    AttemptFinished,
    AttemptLog,
    AttemptStarted,
    AttemptUploads,
    Cancel,
    FileOffer,
    GivenInput,
    Hello,
    InputFile,
    Plan,
    Script,
    Start,
    Uploads,
    UploadTarget,
    Welcome,
)
from tasks.lifecycle import attempts
from tasks.lifecycle.artifacts import judge_artifacts, offer_artifacts, record_artifacts
from tasks.lifecycle.attempts import revive_attempts
from tasks.lifecycle.outcomes import AGENT_FORGOT, SCRIPTS_WITHDRAWN
from tasks.lifecycle.reports import Report, apply_report, held_attempt
from tasks.lifecycle.tracing import trace_attempt
from tasks.lifecycle.wakeups import dispatch_on_commit
from tasks.models import Attempt, artifact_key
from tasks.scheduling.eligibility import is_script_forbidden
from tasks.selectors import files_with_sums
from tasks.states import TaskState
from webprofile.storage import storage
from workers import releases, services, tokens
from workers.models import LONG, Worker

log = structlog.get_logger()

Replies = list[BaseModel]
#: an order given less than this before a heartbeat that does not name it is on its way, not lost
ORDER_PATIENCE = datetime.timedelta(seconds=2)


def on_hello(worker: Worker, message: Hello) -> Replies:
    # before it counts as online, and gets the same task anew
    revive_attempts(worker.pk, message.running)
    services.introduce_worker(
        worker,
        facts=message.facts,
        agent_version=message.agent_version,
        runtimes=message.runtimes,
        features=message.features,
    )
    attempts.keep_leases(_live(worker.pk).filter(pk__in=message.running))
    for attempt in _live(worker.pk).exclude(accepted_at=None).exclude(pk__in=message.running):
        # it had the order on disk and does not know it any more: no report will ever come
        attempts.lose_attempt(attempt, reason=AGENT_FORGOT)
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
    attempts.keep_leases(renewed)
    gone = {worker: lost for worker, running in held.items() if (lost := running - live[worker])}
    # as after a hello: what counts as online before would get the same tasks anew
    failed = {worker for worker, lost in gone.items() if not _is_revived(worker, lost)}
    services.mark_seen(held.keys() - failed)
    return {worker: _orders(worker, held[worker]) for worker in (in_need | gone.keys()) - failed}


def _is_revived(worker: int, gone: frozenset[uuid.UUID]) -> bool:
    """Whether it went without an error, which is logged: others' heartbeats are not held up."""
    try:
        revive_attempts(worker, gone)
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


def on_report(worker: Worker, report: Report, token: str | None = None) -> Replies:
    if not (isinstance(report, AttemptAccepted) and _is_accepted(worker, report, token)):
        _take(worker, report, token)
    match report:
        case AttemptAccepted() | AttemptFinished():
            return [Ack(of=report.type, attempt=report.attempt)]
    return []


@transaction.atomic
def _is_accepted(worker: Worker, report: AttemptAccepted, token: str | None) -> bool:
    """Note it, most often the first time that it is said: one statement.

    Raises OperationalError as `held_attempt`.
    """
    new = _attempts(worker, report.attempt, token).filter(accepted_at=None, ended_at=None)
    locked = new.select_for_update(no_key=True, nowait=True).values("pk")
    now, end = timezone.now(), attempts.lease_deadline()
    rows = Attempt.objects.filter(pk__in=locked)
    return bool(rows.update(accepted_at=now, lease_expires_at=end))


@transaction.atomic
def _take(worker: Worker, report: Report, token: str | None) -> None:
    attempt = _held(worker, report.attempt, token)
    if attempt is None or attempt.ended_at is not None:
        return
    if isinstance(report, AttemptFinished) and report.files:
        record_artifacts(attempt, report.files)
    if apply_report(attempt, report) and isinstance(report, AttemptFinished):
        trace_attempt(attempt, report.phases)


def on_log(worker: Worker, message: AttemptLog, token: str | None = None) -> Replies:
    found = attempts.store_log(_attempts(worker, message.attempt, token), message)
    if found is None and token is not None:
        tokens.check_token(token)
    return []


@transaction.atomic
def on_uploads(worker: Worker, message: AttemptUploads, token: str | None = None) -> Replies:
    """Sign a PUT for each file that an attempt may store, or say why it may not.

    All files of an attempt that is over count as stored already. What is signed is noted at once,
    so that the limit on all files holds over several questions; the attempt is locked, so that no
    file that its end named is noted as not stored after that.
    """
    attempt = _held(worker, message.attempt, token)
    if attempt is None or attempt.ended_at is not None:
        targets = [UploadTarget(name=file.name, url="") for file in message.files]
    else:
        judged = judge_artifacts(attempt, message.files)
        offer_artifacts(attempt, [file for file, refused in judged if not refused])
        targets = [_target(attempt, file, refused) for file, refused in judged]
    return [Uploads(attempt=message.attempt, targets=tuple(targets))]


def _target(attempt: Attempt, file: FileOffer, refused: str) -> UploadTarget:
    if refused:
        return UploadTarget(name=file.name, url="", refused=refused)
    key = artifact_key(str(attempt.pk), file.name)
    url, headers = storage.presign_put(key, size_bytes=file.size_bytes, md5=file.md5)
    return UploadTarget(name=file.name, url=url, headers=headers)


HANDLERS: dict[type[BaseModel], Callable[[Worker, Any, str | None], Replies]] = {
    AttemptAccepted: on_report,
    AttemptStarted: on_report,
    AttemptFinished: on_report,
    AttemptLog: on_log,
    AttemptUploads: on_uploads,
}


def handle(worker: Worker, message: BaseModel, token: str | None = None) -> Replies:
    """Do what a message asks for and return the frames to send back.

    token: is looked up together with what the message is about. Raises DomainError as
    `check_token`; None: that was done
    Raises OperationalError at once if another transaction has locked the attempt of a report.
    """
    about = {"worker": worker.name}
    if attempt := getattr(message, "attempt", None):
        about["attempt"] = str(attempt)
    with bound_contextvars(**about):
        try:
            if isinstance(message, Hello):
                return on_hello(worker, message)
            return HANDLERS[type(message)](worker, message, token)
        finally:
            unbind_contextvars("task")


def desired_state(worker: int, running: frozenset[uuid.UUID] = frozenset()) -> Replies:
    """What a worker's agent should be doing: starts not accepted yet, cancels not met yet."""
    orders: Replies = []
    for attempt in _live(worker).prefetch_related(Prefetch("task__files", files_with_sums())):
        if attempt.task.state == TaskState.CANCELLING:
            orders.append(Cancel(attempt=attempt.pk))
        elif attempt.accepted_at is not None or attempt.pk in running:
            continue
        elif is_script_forbidden(attempt.task, attempt.worker):
            # forbidden between the assignment and now: the task waits again, and says why
            attempts.lose_attempt(attempt, reason=SCRIPTS_WITHDRAWN)
        else:
            orders.append(_start(attempt))
    return orders


def _cancel_ended(worker: int, running: frozenset[uuid.UUID]) -> Replies:
    """Orders to stop what the agent still runs but the server gave up, such as a lost lease.

    Without them it would run beside the attempt that took its place, and disturb it.
    """
    live = set(_live(worker).filter(pk__in=running).values_list("pk", flat=True))
    return [Cancel(attempt=attempt) for attempt in running - live]


def _start(attempt: Attempt) -> Start:
    task = attempt.task
    # the model or program first, then data, then the files of options: the order of `TaskFile`
    model, *data = [_input_file(file) for file in task.files.all()]
    return Start(
        attempt=attempt.pk,
        runtime=task.runtime_version,
        model=model,
        data=tuple(data),
        inputs=tuple(GivenInput.model_validate(given) for given in task.inputs),
        seed=task.seed,
        plan=Plan.model_validate(task.plan),
        options=task.options,
        script=None if task.script is None else Script.model_validate(task.script),
        timeout_s=task.timeout_s,
        grace_s=settings.CANCEL_GRACE_S,
        task=task.pk,
        traceparent=task.traceparent,
    )


def _input_file(file: Any) -> InputFile:
    """file: one of `files_with_sums`"""
    return InputFile(
        name=file.device_name,
        input=file.input,
        option=file.option,
        sha256=file.known_sha256 or None,
        url=storage.presign_get(file.object_key, expires_s=settings.AGENT_PRESIGN_EXPIRY_S),
        size_bytes=file.size_bytes,
        md5=file.md5,
        part_bytes=file.part_bytes,
    )


def _live(*workers: int) -> Any:
    live = Attempt.objects.filter(worker__in=workers, ended_at=None)
    return live.select_related("task", "worker").defer(*(f"worker__{name}" for name in LONG))


def _attempts(worker: Worker, attempt_id: uuid.UUID, token: str | None) -> QuerySet[Attempt]:
    """The attempt if it is the worker's, and as long as the token is good."""
    rows = Attempt.objects.filter(pk=attempt_id, worker=worker)
    if token is None:
        return rows
    # no join, so that the attempt alone is locked
    return rows.filter(Exists(tokens.usable(token).filter(worker=worker)))


def _held(worker: Worker, attempt_id: uuid.UUID, token: str | None) -> Attempt | None:
    """The worker's attempt, locked with its task until the commit."""
    found = held_attempt(_attempts(worker, attempt_id, token))
    if found is not None:
        found.worker = worker
        bind_contextvars(task=found.task_id)
    elif token is not None:
        tokens.check_token(token)
    return found
