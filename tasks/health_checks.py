"""Health checks of devices: when a check is due, its task, and the verdict from the task's end."""

import datetime
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, Subquery
from django.utils import translation
from django.utils.translation import gettext

from accounts.services import system_user
from agent.protocol.pairs import Pairing
from agent.protocol.plan import PRESETS, Plan
from tasks.lifecycle.outcomes import ENDS
from tasks.lifecycle.reasons import Blame, Reason, wording_of
from tasks.models import Attempt, Purpose, Task, TaskFile
from tasks.scheduling.eligibility import takes_tasks
from tasks.scheduling.targets import Target, runtime_for
from tasks.states import LIVE, Outcome, TaskState
from tasks.submission.creation import create_task
from tasks.submission.request import ArmRequest, FileRequest, PairingRequest, TaskRequest
from workers.health import recheck_at
from workers.models import MEASURING, HealthCheck, Runtime, Worker

#: made by examples/make_health.py
MODEL = Path(__file__).with_name("health.mge")
#: model of runs that measure a device, made by examples/make_sample.py
SAMPLE = Path(__file__).with_name("sample.mge")
#: a clean and a profiled pass, which exercise everything that a user's task needs
PLAN = Plan(preset="custom", clean=True, clean_min_s=0.05, clean_min_iterations=5, profiled=1)
SAMPLE_PLAN = PRESETS["standard"]
#: at most this many runs measure scatter, as a multiple of the undisturbed ones that are needed
_MOST_TRIES = 3
#: after this many failed runs the device is not measured, since it cannot run the sample model
_MOST_FAILED = 2
#: a device is measured if no user's task ran on it for this long
_RESTED = datetime.timedelta(seconds=10)
#: pause after an abandoned run that measures a device, since the next one would often be abandoned
#: for the same reason: the device is busy, or storage unreachable
_MEASURING_PAUSE = datetime.timedelta(minutes=10)
#: checks that show whether a device can still profile
_OF_HEALTH = ~Q(cause__in=MEASURING)
#: end reasons for which the device may be at fault
SPOILED = {str(reason) for reason, end in ENDS.items() if end.is_device_at_fault}
#: older failures are ignored
LATELY = datetime.timedelta(hours=6)
#: after this time, a check without a submitted task counts as interrupted by a restart
STILLBORN = datetime.timedelta(minutes=2)
#: reasons that are no evidence about the device
_NO_VERDICT = {
    Reason.CANCELLED_BY_USER.code,
    Reason.UPLOAD_ABANDONED.code,
    Reason.COPY_FAILED.code,
    Reason.QUEUE_TIMED_OUT.code,
    Reason.WORKER_WENT_OFFLINE.code,
    Reason.WORKER_DISABLED.code,
    Reason.WORKER_RETIRED.code,
    Reason.RUNTIME_WENT_AWAY.code,
}

Verdict = tuple[HealthCheck.Result, str, str]


def checks_due(now: datetime.datetime) -> Iterator[tuple[Worker, HealthCheck.Cause]]:
    """Yield the devices for which a check is due, with the cause.

    Considers devices that are online and in service, and that have no pending check.
    """
    every = datetime.timedelta(seconds=settings.HEALTH_CHECK_EVERY_S)
    suspects = _suspects(now)
    # with a query that is small, since the sweep asks for due checks every few seconds
    if not Worker.objects.filter(_may_be_due(now, every, suspects)).exists():
        return
    checks = HealthCheck.objects.filter(worker=OuterRef("pk")).order_by("-id")
    abandoned = checks.filter(
        cause__in=MEASURING,
        result=HealthCheck.Result.ABANDONED,
        ended_at__gt=now - _MEASURING_PAUSE,
    )
    live = Attempt.objects.filter(worker=OuterRef("pk"), ended_at=None)
    queued = Task.objects.filter(worker=OuterRef("pk"), state__in=LIVE)
    lately = Attempt.objects.filter(
        worker=OuterRef("pk"), task__purpose=Purpose.USER, ended_at__gt=now - _RESTED
    )
    workers = Worker.objects.filter(
        takes_tasks(checks=True), ~Exists(checks.filter(result=""))
    ).annotate(
        checked_at=Subquery(checks.filter(_OF_HEALTH).values("created_at")[:1]),
        is_busy=Exists(live) | Exists(queued),
        has_rested=~(Exists(lately) | Exists(abandoned)),
    )
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
        elif _measures() and worker.may_lack_scatter and not worker.is_busy:
            cause = _missing_run(worker)
            if cause is None:
                Worker.objects.filter(pk=worker.pk).update(may_lack_scatter=False)
            elif worker.has_rested:
                yield worker, cause


def _measures() -> bool:
    return bool(settings.SCATTER_RUNS or settings.AA_RUN_S)


def _missing_run(worker: Worker) -> HealthCheck.Cause | None:
    """Return which run is to measure a device next; None if none is missing."""
    if settings.SCATTER_RUNS and not _is_measured(worker):
        return HealthCheck.Cause.SCATTER
    if settings.AA_RUN_S and _lacks_aa_run(worker):
        return HealthCheck.Cause.AA
    return None


def _lacks_aa_run(worker: Worker) -> bool:
    """Whether no A/A run has ended since the last check that passed, in this environment."""
    runtime = newest_runtime(worker)
    if runtime is None:
        return False
    checks = HealthCheck.objects.filter(worker=worker).order_by("-id")
    last = checks.filter(cause=HealthCheck.Cause.AA).exclude(result=HealthCheck.Result.ABANDONED)
    run = last.first()
    if run is None or run.environment != environment_of(worker, runtime):
        return True
    passed = checks.filter(_OF_HEALTH, result=HealthCheck.Result.PASSED)
    return passed.filter(pk__gt=run.pk).exists()


def _is_measured(worker: Worker) -> bool:
    """Whether the scatter of equal runs is known for the worker's environment, or never will be."""
    runtime = newest_runtime(worker)
    if runtime is None:
        return True
    checks = HealthCheck.objects.filter(
        worker=worker,
        cause=HealthCheck.Cause.SCATTER,
        environment=environment_of(worker, runtime),
    ).exclude(result=HealthCheck.Result.ABANDONED)
    counts = checks.aggregate(
        tries=Count("pk"),
        undisturbed=Count("pk", filter=~Q(samples={})),
        failed=Count("pk", filter=Q(result=HealthCheck.Result.FAILED)),
    )
    needed = settings.SCATTER_RUNS
    is_known = counts["undisturbed"] >= needed
    return bool(
        is_known or counts["tries"] >= _MOST_TRIES * needed or counts["failed"] >= _MOST_FAILED
    )


def newest_runtime(worker: Worker) -> Runtime | None:
    """Return the usable runtime of a device with the highest version; None without any."""
    return runtime_for(Target(), worker)


def environment_of(worker: Worker, runtime: Runtime) -> str:
    """Return a fingerprint of what the times of equal runs on a device depend on."""
    facts = [worker.facts.get(name) for name in ("platform", "cpu_model", "cores", "gpus")]
    parts = [worker.agent_version, runtime.version, facts]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:40]


def _may_be_due(now: datetime.datetime, every: datetime.timedelta, suspects: set[int]) -> Q:
    """Workers that are quarantined, failed, have had no check for the interval, or may lack
    runs that measure them.
    """
    may_be_due = Q(held_at__isnull=False) | Q(pk__in=suspects)
    if _measures():
        may_be_due |= Q(may_lack_scatter=True)
    if every:
        checked = HealthCheck.objects.filter(
            _OF_HEALTH, worker=OuterRef("pk"), created_at__gte=now - every
        )
        may_be_due |= Q(~Exists(checked), created_at__lt=now - every)
    return Q(may_be_due, retired_at=None)


def _suspects(now: datetime.datetime) -> set[int]:
    """Return the devices with enough spoiled attempts recently, consecutive or not."""
    threshold = settings.HEALTH_CHECK_AFTER_FAILURES
    if not threshold:
        return set()
    spoiled = Attempt.objects.filter(ended_at__gt=now - LATELY, end_reason__in=SPOILED)
    counts = spoiled.order_by().values("worker").annotate(number=Count("pk"))
    return set(counts.filter(number__gte=threshold).values_list("worker", flat=True))


def _failed_in_a_row(worker: Worker, since: datetime.datetime | None) -> bool:
    """Whether the last attempts, all of them after the last check at `since`, were spoiled."""
    threshold = settings.HEALTH_CHECK_AFTER_FAILURES
    ended = Attempt.objects.filter(worker=worker, ended_at__isnull=False)
    if since is not None:
        ended = ended.filter(ended_at__gt=since)
    last = list(ended.order_by("-ended_at").values_list("end_reason", flat=True)[:threshold])
    return len(last) == threshold and set(last) <= SPOILED


def runtime_to_check(worker: Worker) -> Runtime | None:
    """Return the usable runtime of a device whose last check is the oldest; None without any."""
    last = HealthCheck.objects.filter(
        _OF_HEALTH, worker=OuterRef("worker"), runtime_version=OuterRef("version")
    ).order_by("-id")
    usable = worker.runtimes.filter(problem="").annotate(checked=Subquery(last.values("pk")[:1]))
    return min(usable, key=lambda runtime: runtime.checked or 0, default=None)


def model_and_plan(check: HealthCheck) -> tuple[Path, Plan]:
    """Return the model that a check runs, and its plan."""
    return (SAMPLE, SAMPLE_PLAN) if check.measures else (MODEL, PLAN)


@transaction.atomic
def create_health_task(check: HealthCheck) -> Task:
    """Create the task of a check; the caller stores its model. Raises DomainError."""
    path, plan = model_and_plan(check)
    content = path.read_bytes()
    model = FileRequest(
        kind=TaskFile.Kind.MODEL,
        name=path.name,
        size_bytes=len(content),
        md5=hashlib.md5(content).hexdigest(),
    )
    request = TaskRequest(
        runtime_version=check.runtime_version,
        plan=plan,
        files=(model,),
        purpose=Purpose.HEALTH,
        pairing=_equal_arms() if check.cause == HealthCheck.Cause.AA else None,
    )
    task = create_task(owner=system_user(), worker=check.worker, request=request)
    HealthCheck.objects.filter(pk=check.pk).update(task_id=task.pk)
    check.task_id = task.pk
    return task


def _equal_arms() -> PairingRequest:
    """Return a paired comparison of the model with itself."""
    return PairingRequest(Pairing(budget_s=settings.AA_RUN_S), (ArmRequest(),))


def checks_ended(now: datetime.datetime) -> Iterator[tuple[HealthCheck, Task | None, Verdict]]:
    """Yield the pending checks whose task has ended or is missing, with the verdict."""
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
    """Return result, reason and detail of a check by its task.

    The model is known to be valid, so a reason that blames the user counts against the device. A
    reason that blames the server gives no verdict.
    """
    result = HealthCheck.Result.FAILED
    wording = wording_of(task.reason)
    if task.outcome == Outcome.SUCCEEDED:
        result = HealthCheck.Result.PASSED
    elif task.outcome == Outcome.CANCELLED or (
        wording is not None and (wording.blame == Blame.SERVER or task.reason in _NO_VERDICT)
    ):
        result = HealthCheck.Result.ABANDONED
    return result, task.reason, task.detail


def held_reason_of(check: HealthCheck, reason: str) -> str:
    """Return the text that is stored with a device that is quarantined, in the site's language."""
    wording = wording_of(reason)
    with translation.override(settings.LANGUAGE_CODE):
        return gettext("Health check with MegEngine %(version)s failed: %(why)s") % {
            "version": check.runtime_version,
            "why": wording.title if wording else reason,
        }
