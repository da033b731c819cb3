"""Health checks of devices: when one is due, the tiny task that it is, and what its end means."""

import datetime
import hashlib
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Subquery
from django.utils import translation
from django.utils.translation import gettext

from accounts.system_user import system_user
from agent.protocol.plan import Plan
from tasks.lifecycle.outcomes import ENDS
from tasks.lifecycle.reasons import Blame, Reason, wording_of
from tasks.models import Attempt, Purpose, Task, TaskFile
from tasks.scheduling.eligibility import takes_tasks
from tasks.states import LIVE, Outcome, TaskState
from tasks.submission.creation import create_task
from tasks.submission.request import FileRequest, TaskRequest
from workers.health import recheck_at
from workers.models import HealthCheck, Runtime, Worker

#: made by examples/make_health.py
MODEL = Path(__file__).with_name("health.mge")
#: a clean pass for the time of an iteration, and one profile: all that a task of a user needs
PLAN = Plan(preset="custom", clean=True, clean_min_s=0.05, clean_min_iterations=5, profiled=1)
#: attempts that ended so may be a device's fault
SPOILED = {str(reason) for reason, end in ENDS.items() if end.is_device_at_fault}
#: failures that are older are history
LATELY = datetime.timedelta(hours=6)
#: a check whose task was never made or never stored was cut short by a restart
STILLBORN = datetime.timedelta(minutes=2)
#: ends that tell nothing of the device
_NO_VERDICT = {
    Reason.CANCELLED_BY_USER,
    Reason.UPLOAD_ABANDONED,
    Reason.COPY_FAILED,
    Reason.QUEUE_TIMED_OUT,
    Reason.WORKER_WENT_OFFLINE,
    Reason.WORKER_DISABLED,
    Reason.WORKER_RETIRED,
    Reason.RUNTIME_WENT_AWAY,
}

Verdict = tuple[HealthCheck.Result, str, str]


def checks_due(now: datetime.datetime) -> Iterator[tuple[Worker, HealthCheck.Cause]]:
    """Devices that are to be checked, and why. Online ones in service, without one under way."""
    last = HealthCheck.objects.filter(worker=OuterRef("pk")).order_by("-id")
    live = Attempt.objects.filter(worker=OuterRef("pk"), ended_at=None)
    queued = Task.objects.filter(worker=OuterRef("pk"), state__in=LIVE)
    workers = Worker.objects.filter(
        takes_tasks(checks=True), ~Exists(last.filter(result=""))
    ).annotate(
        checked_at=Subquery(last.values("created_at")[:1]),
        is_busy=Exists(live) | Exists(queued),
    )
    every = datetime.timedelta(seconds=settings.HEALTH_CHECK_EVERY_S)
    suspects = _suspects(now)
    for worker in workers:
        if worker.held_at is not None:
            if now >= recheck_at(worker):
                yield worker, HealthCheck.Cause.FAILURE
        elif worker.pk in suspects and _failed_in_a_row(worker, worker.checked_at):
            yield worker, HealthCheck.Cause.FAILURE
        elif (
            every and not worker.is_busy and now - (worker.checked_at or worker.created_at) > every
        ):
            yield worker, HealthCheck.Cause.SCHEDULE


def _suspects(now: datetime.datetime) -> set[int]:
    """Devices with enough spoiled attempts lately, in a row or not."""
    wanted = settings.HEALTH_CHECK_AFTER_FAILURES
    if not wanted:
        return set()
    spoiled = Attempt.objects.filter(ended_at__gt=now - LATELY, end_reason__in=SPOILED)
    counted = spoiled.order_by().values("worker").annotate(number=Count("pk"))
    return set(counted.filter(number__gte=wanted).values_list("worker", flat=True))


def _failed_in_a_row(worker: Worker, since: datetime.datetime | None) -> bool:
    """Whether the last attempts were all spoiled, and none of them was looked into yet."""
    wanted = settings.HEALTH_CHECK_AFTER_FAILURES
    ended = Attempt.objects.filter(worker=worker, ended_at__isnull=False)
    if since is not None:
        ended = ended.filter(ended_at__gt=since)
    last = list(ended.order_by("-ended_at").values_list("end_reason", flat=True)[:wanted])
    return len(last) == wanted and set(last) <= SPOILED


def runtime_to_check(worker: Worker) -> Runtime | None:
    """Of the versions that the device offers, the one that was not checked for longest."""
    last = HealthCheck.objects.filter(
        worker=OuterRef("worker"), runtime_version=OuterRef("version")
    ).order_by("-id")
    usable = worker.runtimes.filter(problem="").annotate(checked=Subquery(last.values("pk")[:1]))
    return min(usable, key=lambda runtime: runtime.checked or 0, default=None)


@transaction.atomic
def create_health_task(check: HealthCheck) -> Task:
    """Make the task of a check; its model is not stored yet. Raises DomainError."""
    content = MODEL.read_bytes()
    model = FileRequest(
        kind=TaskFile.Kind.MODEL,
        name=MODEL.name,
        size_bytes=len(content),
        md5=hashlib.md5(content).hexdigest(),
    )
    request = TaskRequest(
        runtime_version=check.runtime_version,
        plan=PLAN,
        files=(model,),
        purpose=Purpose.HEALTH,
    )
    task = create_task(owner=system_user(), worker=check.worker, request=request)
    HealthCheck.objects.filter(pk=check.pk).update(task_id=task.pk)
    check.task_id = task.pk
    return task


def checks_ended(now: datetime.datetime) -> Iterator[tuple[HealthCheck, Task | None, Verdict]]:
    """Checks whose task has ended or is gone, with what it says."""
    pending = list(HealthCheck.objects.filter(result="").select_related("worker"))
    tasks = Task.objects.in_bulk([check.task_id for check in pending if check.task_id])
    for check in pending:
        task = tasks.get(check.task_id or 0)
        if task is None or task.state == TaskState.INITIATED:
            if check.created_at < now - STILLBORN:
                yield check, task, (HealthCheck.Result.ABANDONED, "", "")
        elif task.state not in LIVE:
            yield check, task, verdict_of(task)


def verdict_of(task: Task) -> Verdict:
    """Result, reason and detail. The model is known to be good, so what a user would be to blame
    for is the device's fault here; what the server is to blame for says nothing of it."""
    result = HealthCheck.Result.FAILED
    wording = wording_of(task.reason)
    if task.outcome == Outcome.SUCCEEDED:
        result = HealthCheck.Result.PASSED
    elif task.outcome == Outcome.CANCELLED or (
        wording is not None
        and (wording.blame == Blame.SERVER or Reason(task.reason) in _NO_VERDICT)
    ):
        result = HealthCheck.Result.ABANDONED
    return result, task.reason, task.detail


def held_reason_of(check: HealthCheck, reason: str) -> str:
    """What is written to the device's row, in the site's own language."""
    wording = wording_of(reason)
    with translation.override(settings.LANGUAGE_CODE):
        return gettext("Health check with MegEngine %(version)s failed: %(why)s") % {
            "version": check.runtime_version,
            "why": wording.title if wording else reason,
        }
