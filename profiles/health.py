"""Run health checks of devices: store the model's file and read the latency of the measurement."""

from collections.abc import Mapping
from typing import Any

import structlog
from django.utils import timezone

from accounts.audit import record_audit_entry
from accounts.models import User
from profiles.comparison.history import FIGURES, samples_of
from profiles.models import AttemptMeasurement
from profiles.selectors import paired_of
from tasks import health_checks
from tasks.lifecycle.cancel import cancel_task
from tasks.models import Task
from tasks.scheduling.eligibility import starts_checks
from tasks.submission import uploads
from webprofile.errors import DomainError
from workers.health import close_check, open_check
from workers.models import MEASURING, HealthCheck, Worker
from workers.trust import AaFigures

log = structlog.get_logger()

#: maximum number of checks that one round starts; the next round follows in seconds
_MOST = 20


def run_health_checks() -> None:
    """Close checks that have ended and start those that are due. A check that cannot start is
    closed.
    """
    now = timezone.now()
    for check, task, (result, reason, detail) in health_checks.checks_ended(now):
        measurement = _measurement(task)
        close_check(
            check,
            result,
            reason=reason,
            notes=task.notes if task is not None else (),
            detail=detail,
            held_reason=health_checks.held_reason_of(check, reason),
            median_s=_median_s(measurement),
            samples=_samples(check, task, measurement),
        )
        if task is not None and task.is_live:
            cancel_task(task)
    for _, (worker, cause) in zip(range(_MOST), health_checks.checks_due(now), strict=False):
        try:
            begun = begin_health_checks(worker, cause=cause)
        except Exception:  # an error of one device must not affect the others
            log.exception("health_check_failed", worker=worker.name)
        else:
            if begun is not None and begun.reason == "storage_unreachable":
                return  # each further check may wait 15 s for storage


def request_health_checks(worker: Worker, *, by: User | None) -> HealthCheck:
    """Start a check because a user requested it, and record this in the audit log.

    Not one transaction: the file is written to storage while no row is locked.
    Raises DomainError health_check_impossible, also for a device that is offline or out of service;
    health_check_not_begun if the device went offline or storage became unreachable meanwhile.
    """
    may_run = starts_checks(worker)
    check = begin_health_checks(worker, cause=HealthCheck.Cause.ASKED) if may_run else None
    if check is None:
        raise DomainError("health_check_impossible", status=409, worker=worker.name)
    record_audit_entry(
        "worker.health_check", worker, by=by, after={"version": check.runtime_version}
    )
    if check.result == HealthCheck.Result.ABANDONED:
        raise DomainError("health_check_not_begun", status=409, worker=worker.name)
    return check


def begin_health_checks(worker: Worker, *, cause: HealthCheck.Cause) -> HealthCheck | None:
    """Start a check on a device; None if it has no version to check, or a check is in progress."""
    measures = cause in MEASURING
    choose = health_checks.newest_runtime if measures else health_checks.runtime_to_check
    runtime = choose(worker)
    if runtime is None:
        return None
    environment = health_checks.environment_of(worker, runtime) if measures else ""
    check = open_check(worker, version=runtime.version, cause=cause, environment=environment)
    if check is None:
        return None
    task = None
    try:
        task = health_checks.create_health_task(check)
        (row,) = task.files.all()
        uploads.FileStore().store(row, health_checks.model_and_plan(check)[0])
        uploads.confirm_task(task)
    except (DomainError, OSError) as problem:
        # the device went offline or storage is unreachable, which is no result of the check
        code = getattr(problem, "code", "")
        log.warning("health_check_not_begun", worker=worker.name, code=code)
        close_check(check, HealthCheck.Result.ABANDONED, reason=code, detail=str(problem))
        if task is not None:
            cancel_task(task)
    return check


def _measurement(task: Task | None) -> AttemptMeasurement | None:
    if task is None:
        return None
    rows = AttemptMeasurement.objects.filter(attempt__task=task)
    return rows.order_by("-attempt__number").first()


def _median_s(row: AttemptMeasurement | None) -> float | None:
    return None if row is None or row.median_ms is None else row.median_ms / 1000


def _samples(
    check: HealthCheck, task: Task | None, row: AttemptMeasurement | None
) -> Mapping[str, Any]:
    """Return `HealthCheck.samples`; empty if the run was disturbed or has no verdict."""
    if check.cause == HealthCheck.Cause.AA:
        figures = _aa_figures(task)
        return {} if figures is None else dict(figures)
    if check.cause != HealthCheck.Cause.SCATTER or row is None or row.disturbances:
        return {}
    return {figure: samples_of(row, figure) for figure in FIGURES}


def _aa_figures(task: Task | None) -> AaFigures | None:
    paired = paired_of(task) if task is not None else None
    verdict = paired.verdicts[0] if paired is not None and paired.verdicts else None
    # without an undisturbed pair there is no evidence, neither for nor against the device
    if paired is None or verdict is None or verdict["effect"] is None:
        return None
    return AaFigures(
        verdict=verdict["verdict"],
        effect=verdict["effect"],
        low=verdict["low"],
        high=verdict["high"],
        smallest=verdict["smallest"],
        pairs=verdict["pairs"],
        measuring_s=paired.measuring_s,
        usual_ms=paired.arms[0]["usual_ms"],
    )
