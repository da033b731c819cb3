"""What time alone brings about: deadlines passed, hints lost."""

import datetime

import structlog
from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from tasks.attempts import attempt_lose
from tasks.hints import build_profile_on_commit
from tasks.models import Attempt, Task
from tasks.scheduling import assign_waiting
from tasks.selectors import last_attempt
from tasks.services import task_abandon, task_fail
from tasks.states import TaskState

log = structlog.get_logger()

#: a profile that is not built after this long has lost its hint
PROCESSING_PATIENCE = datetime.timedelta(seconds=20)


def sweep() -> None:
    """One round: everything that is due, each in a transaction of its own."""
    now = timezone.now()
    for attempt in Attempt.objects.filter(ended_at=None, lease_expires_at__lt=now):
        if attempt_lose(attempt, reason="lease_expired"):
            log.warning("attempt_lost", attempt=str(attempt.pk), worker=attempt.worker_id)
    for task in Task.objects.filter(state=TaskState.INITIATED, upload_deadline_at__lt=now):
        task_abandon(task)
    for task in Task.objects.filter(state=TaskState.WAITING, queue_deadline_at__lt=now):
        task_fail(task, reason="queue_timed_out")
    _fail_tasks_of_absent_workers(now)
    for task in Task.objects.filter(
        state=TaskState.PROCESSING, updated_at__lt=now - PROCESSING_PATIENCE
    ):
        if last := last_attempt(task):
            build_profile_on_commit(str(last.pk))
    assign_waiting()


def _fail_tasks_of_absent_workers(now: datetime.datetime) -> None:
    """A device that stays away ends its waiting tasks: their owners can then pick another one."""
    patience = now - datetime.timedelta(seconds=settings.OFFLINE_GRACE_S)
    absent = Q(worker__last_seen_at__lt=patience) | Q(worker__last_seen_at=None)
    for task in Task.objects.filter(absent, state=TaskState.WAITING, submitted_at__lt=patience):
        task_fail(task, reason="worker_went_offline")
    missing = Task.objects.filter(
        state=TaskState.WAITING, submitted_at__lt=patience, worker__last_seen_at__gte=patience
    )
    for task in missing.select_related("worker"):
        if not task.worker.runtimes.filter(version=task.runtime_version, problem="").exists():
            task_fail(task, reason="runtime_went_away", detail=task.runtime_version)
