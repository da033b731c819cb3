"""Attempts that were given up for their device's silence, when it comes back and has them still.

A server that was away for longer than a lease finds all leases over, though every device may have
gone on working. What nobody else has taken meanwhile need not be done twice.
"""

import uuid
from collections.abc import Iterable

import structlog
from django.db import IntegrityError, transaction

from tasks.attempts import LEASE_EXPIRED, lease_end
from tasks.models import Attempt
from tasks.states import TaskState
from tasks.transitions import transition_if

log = structlog.get_logger()


def attempts_revive(worker_id: int, running: Iterable[uuid.UUID]) -> None:
    """Take up again those of the attempts that this worker holds, whose lease alone was over."""
    given_up = Attempt.objects.filter(
        worker=worker_id, pk__in=running, end_reason=LEASE_EXPIRED, ended_at__isnull=False
    )
    for attempt in given_up.select_related("task"):
        if attempt_revive(attempt):
            log.info("attempt_revived", attempt=str(attempt.pk), worker=worker_id)


def attempt_revive(attempt: Attempt) -> bool:
    """Let an attempt live again if its task still waits for this device; whether it did."""
    try:
        with transaction.atomic():
            return _take_up(attempt)
    except IntegrityError:  # its slot is another attempt's by now
        return False


def _take_up(attempt: Attempt) -> bool:
    task, here = attempt.task, {"worker_id": attempt.worker_id}
    if task.attempts.filter(number__gt=attempt.number).exists():
        return False
    if not transition_if(task, TaskState.ASSIGNED, {TaskState.WAITING}, only=here):
        return False
    # the claim is this task's alone; the row below may still break it, and then all of it
    Attempt.objects.filter(pk=attempt.pk).update(
        ended_at=None, end_reason="", lease_expires_at=lease_end()
    )
    if attempt.started_at is not None:
        transition_if(task, TaskState.RUNNING, {TaskState.ASSIGNED})
    return True
