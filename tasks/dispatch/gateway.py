"""Handlers of agents' messages: one function per message, which returns the frames to send back.

They run in threads, because the ORM is synchronous. A message about an attempt that is not this
worker's or has ended gets the usual reply, so that the agent stops repeating it.
"""

import datetime
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, Prefetch, QuerySet
from django.utils import timezone
from pydantic import BaseModel
from structlog.contextvars import bind_contextvars, bound_contextvars, unbind_contextvars

from agent.protocol.messages import (
    Ack,
    AttemptAccepted,
    AttemptFinished,
    AttemptLog,
    AttemptStarted,
    AttemptUploads,
    Cancel,
    ComparedArm,
    Enough,
    FileOffer,
    GivenInput,
    Hello,
    InputFile,
    Script,
    Start,
    Uploads,
    UploadTarget,
    Welcome,
)
from agent.protocol.notes import Note
from agent.protocol.pairs import Pairing
from agent.protocol.plan import Plan
from tasks.lifecycle import attempts
from tasks.lifecycle.artifacts import (
    find_stored,
    judge_artifacts,
    offer_artifacts,
    record_artifacts,
)
from tasks.lifecycle.attempts import revive_attempts
from tasks.lifecycle.outcomes import AGENT_FORGOT, SCRIPTS_WITHDRAWN
from tasks.lifecycle.reports import Report, apply_report, held_attempt
from tasks.lifecycle.tracing import trace_attempt
from tasks.lifecycle.wakeups import dispatch_on_commit
from tasks.models import Attempt, Task, artifact_key
from tasks.scheduling.eligibility import is_script_forbidden
from tasks.selectors import files_with_sums
from tasks.states import TaskState
from tasks.submission.pairing import arm_requests
from tasks.submission.request import request_of
from webprofile.storage import storage
from workers import releases, services, tokens
from workers.models import LONG, Worker

log = structlog.get_logger()

Replies = list[BaseModel]
#: a start order that is younger than this when a heartbeat does not name its attempt may still be
#: on its way, so it is not sent again
ORDER_PATIENCE = datetime.timedelta(seconds=2)


def on_hello(worker: Worker, message: Hello, opened_at: datetime.datetime | None = None) -> Replies:
    """Greet an agent: resume or end its attempts, store its facts, return what it should do.

    opened_at: when the connection was opened; None for now
    """
    # first: once the worker is online, the dispatcher might assign the same task again
    revive_attempts(worker.pk, message.running)
    services.introduce_worker(
        worker,
        facts=message.facts,
        agent_version=message.agent_version,
        runtimes=message.runtimes,
        features=message.features,
    )
    attempts.keep_leases(_live(worker.pk).filter(pk__in=message.running))
    # without those that were accepted since, over a newer connection, if this Hello is handled late
    accepted = _live(worker.pk).filter(accepted_at__lt=opened_at or timezone.now())
    for attempt in accepted.exclude(pk__in=message.running):
        # the agent had stored the order and lost it, so no report will ever arrive
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
    """Store heartbeats, renew leases, and return orders for the workers that need some.

    This takes two or three queries in all, and some more for each worker that needs an order.
    Orders are repeated here because a wake-up may have been lost; they are idempotent. An error
    about one worker is logged and affects only that worker, whose agent sends another heartbeat
    soon.

    held: the attempts that each worker's agent holds, by the worker's id
    said_at: when the first of the heartbeats was received; None for now
    """
    live: dict[int, set[uuid.UUID]] = defaultdict(set)
    renewed, needs_orders = [], set()
    overdue_before = (said_at or timezone.now()) - ORDER_PATIENCE
    rows = Attempt.objects.filter(worker__in=held, ended_at=None)
    for attempt in rows.select_related("task").only("worker", "accepted_at", *_HEARTBEAT_COLUMNS):
        running = held[attempt.worker_id]
        live[attempt.worker_id].add(attempt.pk)
        if attempt.pk in running:
            renewed.append(attempt)
        elif attempt.accepted_at is None and attempt.created_at < overdue_before:
            needs_orders.add(attempt.worker_id)
        if attempt.task.state == TaskState.CANCELLING or attempt.enough_at is not None:
            needs_orders.add(attempt.worker_id)
    attempts.keep_leases(renewed)
    not_live = {worker: ids for worker, running in held.items() if (ids := running - live[worker])}
    # as in `on_hello`: before the worker is online, or it might get the same tasks again
    failed = {worker for worker, ids in not_live.items() if not _try_revive(worker, ids)}
    services.mark_seen(held.keys() - failed)
    workers = (needs_orders | not_live.keys()) - failed
    return {worker: _orders(worker, held[worker]) for worker in workers}


def _try_revive(worker: int, ended: frozenset[uuid.UUID]) -> bool:
    """Revive attempts; log an error instead of raising it, and return whether there was none."""
    try:
        revive_attempts(worker, ended)
    except Exception:
        log.exception("attempts_not_revived", worker=worker)
        return False
    return True


def _orders(worker: int, running: frozenset[uuid.UUID]) -> Replies:
    """Return the orders for a worker; log an error instead of raising it, and return no orders."""
    try:
        return [*_cancel_ended(worker, running), *desired_state(worker, running)]
    except Exception:
        log.exception("orders_not_found", worker=worker)
        return []


#: further columns of attempts that `on_heartbeats` needs
_HEARTBEAT_COLUMNS = ("created_at", "lease_expires_at", "enough_at", "task__state")


def on_report(worker: Worker, report: Report, token: str | None) -> Replies:
    """Apply a report about an attempt; acknowledge those that the agent repeats until then."""
    if not (isinstance(report, AttemptAccepted) and _accept(worker, report, token)):
        stored = list[FileOffer]()
        if isinstance(report, AttemptFinished) and report.files:
            stored = find_stored(_attempts(worker, report.attempt, token), report.files)
        _apply(worker, report, token, stored)
    match report:
        case AttemptAccepted() | AttemptFinished():
            return [Ack(of=report.type, attempt=report.attempt)]
    return []


@transaction.atomic
def _accept(worker: Worker, report: AttemptAccepted, token: str | None) -> bool:
    """Store that an attempt was accepted, in one statement; return whether a row matched.

    No row matches if the report is repeated or late, or the token is invalid. Raises
    OperationalError as `held_attempt`.
    """
    new = _attempts(worker, report.attempt, token).filter(accepted_at=None, ended_at=None)
    locked = new.select_for_update(no_key=True, nowait=True).values("pk")
    now, end = timezone.now(), attempts.lease_deadline()
    rows = Attempt.objects.filter(pk__in=locked)
    return bool(rows.update(accepted_at=now, lease_expires_at=end))


@transaction.atomic
def _apply(worker: Worker, report: Report, token: str | None, stored: Sequence[FileOffer]) -> None:
    attempt = _lock_attempt(worker, report.attempt, token)
    if attempt is None or attempt.ended_at is not None:
        return
    if stored:
        record_artifacts(attempt, stored)
    if apply_report(attempt, report) and isinstance(report, AttemptFinished):
        trace_attempt(attempt, report.phases)


def on_log(worker: Worker, message: AttemptLog, token: str | None) -> Replies:
    attempt = attempts.store_log(_attempts(worker, message.attempt, token), message)
    if attempt is None and token is not None:
        tokens.check_token(token)
    return []


@transaction.atomic
def on_uploads(worker: Worker, message: AttemptUploads, token: str | None = None) -> Replies:
    """Presign a PUT for each file that an attempt may store; return the reason for refused ones.

    Files of an attempt that has ended get an empty URL: the agent treats them as stored. The files
    are recorded immediately, so that the limit on their total size holds over several requests. The
    attempt is locked, so that a concurrent final report cannot be overwritten.
    """
    attempt = _lock_attempt(worker, message.attempt, token)
    if attempt is None or attempt.ended_at is not None:
        targets = [UploadTarget(name=file.name, url="") for file in message.files]
    else:
        judged = judge_artifacts(attempt, message.files)
        offer_artifacts(attempt, [file for file, refused in judged if refused is None])
        targets = [_target(attempt, file, refused) for file, refused in judged]
    return [Uploads(attempt=message.attempt, targets=tuple(targets))]


def _target(attempt: Attempt, file: FileOffer, refused: Note | None) -> UploadTarget:
    if refused is not None:
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


def handle(
    worker: Worker,
    message: BaseModel,
    token: str | None = None,
    opened_at: datetime.datetime | None = None,
) -> Replies:
    """Handle a message and return the frames to send back.

    token: checked in the same query that reads the attempt; None if it was checked before
    opened_at: when the connection was opened; None for now

    Raises DomainError as `check_token`; raises OperationalError without waiting if another
    transaction has locked the attempt.
    """
    about = {"worker": worker.name}
    if attempt := getattr(message, "attempt", None):
        about["attempt"] = str(attempt)
    with bound_contextvars(**about):
        try:
            if isinstance(message, Hello):
                return on_hello(worker, message, opened_at)
            return HANDLERS[type(message)](worker, message, token)
        finally:
            unbind_contextvars("task")


def desired_state(worker: int, running: frozenset[uuid.UUID] = frozenset()) -> Replies:
    """Return the pending orders for a worker: starts not yet accepted, and runs to be ended."""
    orders: Replies = []
    for attempt in _live(worker).prefetch_related(Prefetch("task__files", files_with_sums())):
        if attempt.task.state == TaskState.CANCELLING:
            orders.append(Cancel(attempt=attempt.pk))
        elif attempt.accepted_at is not None or attempt.pk in running:
            if attempt.enough_at is not None:
                orders.append(Enough(attempt=attempt.pk))
        elif is_script_forbidden(attempt.task, attempt.worker):
            # forbidden since the assignment: the task waits again, with the reason in its history
            attempts.lose_attempt(attempt, reason=SCRIPTS_WITHDRAWN)
        else:
            orders.append(_start(attempt))
    return orders


def _cancel_ended(worker: int, running: frozenset[uuid.UUID]) -> Replies:
    """Return cancel orders for attempts that the agent still runs but that the server has ended.

    Without them, a run whose lease expired would disturb the attempt that replaced it.
    """
    live = set(_live(worker).filter(pk__in=running).values_list("pk", flat=True))
    return [Cancel(attempt=attempt) for attempt in running - live]


def _start(attempt: Attempt) -> Start:
    task = attempt.task
    # the default order of `TaskFile`: the model or program, data, files of options
    model, *data = [_input_file(file) for file in task.files.all() if not file.arm]
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
        pairing=None if task.pairing is None else Pairing.model_validate(task.pairing),
        arms=tuple(_arms(task)),
        timeout_s=task.timeout_s,
        grace_s=settings.CANCEL_GRACE_S,
        task=task.pk,
        traceparent=task.traceparent,
    )


def _arms(task: Task) -> Iterator[ComparedArm]:
    """Yield the arms of a paired comparison after the first."""
    rows = {row.object_key: row for row in task.files.all()}
    for arm in islice(arm_requests(request_of(task)), 1, None):
        model, *data = (_input_file(rows[file.source]) for file in arm.files)
        yield ComparedArm(
            runtime=arm.runtime_version,
            model=model,
            data=tuple(data),
            inputs=tuple(GivenInput.model_validate(asdict(given)) for given in arm.inputs),
            options=dict(arm.options),
        )


def _input_file(file: Any) -> InputFile:
    """Describe a task's file for the agent, with a presigned URL.

    file: a row of `files_with_sums`
    """
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
    """Return a queryset with the attempt if it is the worker's and the token is valid."""
    rows = Attempt.objects.filter(pk=attempt_id, worker=worker)
    if token is None:
        return rows
    # a subquery rather than a join, so that only the attempt is locked
    return rows.filter(Exists(tokens.valid_tokens([tokens.digest(token)]).filter(worker=worker)))


def _lock_attempt(worker: Worker, attempt_id: uuid.UUID, token: str | None) -> Attempt | None:
    """Return the worker's attempt, locked together with its task until the commit.

    Returns None if the worker has no such attempt. Raises DomainError as `check_token`.
    """
    attempt = held_attempt(_attempts(worker, attempt_id, token))
    if attempt is not None:
        attempt.worker = worker
        bind_contextvars(task=attempt.task_id)
    elif token is not None:
        tokens.check_token(token)
    return attempt
