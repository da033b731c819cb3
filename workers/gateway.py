"""What each of an agent's messages does: one function per message, rows in and frames out.

Runs in a thread (the ORM is synchronous). An attempt that is not this worker's, or has ended, is
answered as if all were well, so that a late agent comes to rest.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import structlog
from django.conf import settings
from pydantic import BaseModel

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
    Heartbeat,
    Hello,
    InputFile,
    Plan,
    Start,
    Uploads,
    UploadTarget,
    Welcome,
)
from profiles import storage
from profiles.models import artifact_key
from profiles.services import (
    artifacts_allowed,
    artifacts_judge,
    artifacts_offer,
    artifacts_record,
)
from tasks import attempts
from tasks.models import Attempt, TaskFile
from tasks.queue.scheduling import assign_waiting
from tasks.selectors import known_sha256
from tasks.states import TaskState
from workers import releases, services
from workers.models import Worker

log = structlog.get_logger()

Replies = list[BaseModel]


def on_hello(worker: Worker, message: Hello) -> Replies:
    services.worker_introduce(
        worker, facts=message.facts, agent_version=message.agent_version, runtimes=message.runtimes
    )
    # beside the facts: what an older agent cannot do, `tasks.asking.admission` does not ask of it
    worker.facts = {
        **message.facts.model_dump(mode="json"),
        "features": sorted(message.features),
    }
    worker.save(update_fields=["facts"])
    attempts.leases_renew(worker, message.running)
    for attempt in _live(worker).exclude(accepted_at=None).exclude(pk__in=message.running):
        # it had the order on disk and does not know it any more: no report will ever come
        attempts.attempt_lose(attempt, reason="agent_forgot")
    assign_waiting(worker.pk)
    log.info("agent_connected", worker=worker.name, version=message.agent_version)
    welcome = Welcome(
        worker=worker.name,
        server_time=time.time(),
        heartbeat_s=settings.HEARTBEAT_S,
        agent_version=releases.served_version(),
    )
    stale = _cancel_ended(worker, message.running)
    return [welcome, *stale, *desired_state(worker, message.running)]


def on_heartbeat(worker: Worker, message: Heartbeat) -> Replies:
    services.worker_seen(worker)
    attempts.leases_renew(worker, message.running)
    # a wake-up may have been lost; orders are idempotent
    return [*_cancel_ended(worker, message.running), *desired_state(worker, message.running)]


def on_accepted(worker: Worker, message: AttemptAccepted) -> Replies:
    if attempt := _find(worker, message.attempt):
        attempts.attempt_accept(attempt)
    return [Ack(of="attempt.accepted", attempt=message.attempt)]


def on_started(worker: Worker, message: AttemptStarted) -> Replies:
    if attempt := _find(worker, message.attempt):
        attempts.attempt_start(attempt, message)
    return []


def on_log(worker: Worker, message: AttemptLog) -> Replies:
    if attempt := _find(worker, message.attempt):
        attempts.attempt_log(attempt, message)
    return []


def on_uploads(worker: Worker, message: AttemptUploads) -> Replies:
    """Sign a PUT for each file that an attempt may store, or say why it may not.

    All files of an attempt that is over count as stored already. What is signed is noted at once,
    so that the limit on all files holds over several questions.
    """
    attempt = _find(worker, message.attempt)
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


def on_finished(worker: Worker, message: AttemptFinished) -> Replies:
    if attempt := _find(worker, message.attempt):
        if attempt.ended_at is None:
            artifacts_record(attempt, artifacts_allowed(attempt, message.files))
        attempts.attempt_finish(attempt, message)
    return [Ack(of="attempt.finished", attempt=message.attempt)]


HANDLERS: dict[type[BaseModel], Callable[[Worker, Any], Replies]] = {
    Hello: on_hello,
    Heartbeat: on_heartbeat,
    AttemptAccepted: on_accepted,
    AttemptStarted: on_started,
    AttemptLog: on_log,
    AttemptUploads: on_uploads,
    AttemptFinished: on_finished,
}


def handle(worker: Worker, message: BaseModel) -> Replies:
    """Do what a message asks for and return the frames to send back."""
    return HANDLERS[type(message)](worker, message)


def desired_state(worker: Worker, running: frozenset[uuid.UUID] = frozenset()) -> Replies:
    """What the agent should be doing: starts it has not accepted, cancels it has not met."""
    return list(_desired(worker, running))


def _cancel_ended(worker: Worker, running: frozenset[uuid.UUID]) -> Replies:
    """Orders to stop what the agent still runs but the server gave up, such as a lost lease.

    Without them it would run beside the attempt that took its place, and disturb it.
    """
    live = set(_live(worker).filter(pk__in=running).values_list("pk", flat=True))
    return [Cancel(attempt=attempt) for attempt in running - live]


def _desired(worker: Worker, running: frozenset[uuid.UUID]) -> Iterator[BaseModel]:
    for attempt in _live(worker):
        if attempt.task.state == TaskState.CANCELLING:
            yield Cancel(attempt=attempt.pk)
        elif attempt.accepted_at is None and attempt.pk not in running:
            yield _start(attempt)


def _start(attempt: Attempt) -> Start:
    task = attempt.task
    # the model first, then data, then the files of options: the order of `TaskFile`
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
        timeout_s=task.timeout_s,
        grace_s=settings.CANCEL_GRACE_S,
    )


def _input_file(file: TaskFile) -> InputFile:
    return InputFile(
        name=file.device_name,
        input=file.input,
        option=file.option,
        sha256=known_sha256(file),
        url=storage.presign_get(file.object_key, expires_s=settings.AGENT_PRESIGN_EXPIRY_S),
        size_bytes=file.size_bytes,
        md5=file.md5,
    )


def _live(worker: Worker) -> Any:
    return Attempt.objects.filter(worker=worker, ended_at=None).select_related("task")


def _find(worker: Worker, attempt_id: uuid.UUID) -> Attempt | None:
    return Attempt.objects.filter(pk=attempt_id, worker=worker).select_related("task").first()
