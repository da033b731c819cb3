"""Services of health checks: one pending check per worker; a failed check holds the worker back.

`tasks.health_checks` and `profiles.health` decide when a check runs and create its task.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Subquery
from django.utils import timezone

from accounts.audit import record_audit_entry
from accounts.models import Webhook
from accounts.webhooks.events import add_device_deliveries
from workers.models import HealthCheck, Worker
from workers.services import release_worker

log = structlog.get_logger()

#: number of checks of one cause and result that are kept for each worker, so that abandoned ones
#: never displace those with figures
KEPT = 200
LONGEST_PAUSE = datetime.timedelta(hours=6)


def open_check(
    worker: Worker, *, version: str, cause: HealthCheck.Cause, environment: str = ""
) -> HealthCheck | None:
    """Create a check of one MegEngine version; None if the worker has a pending one."""
    try:
        with transaction.atomic():
            return HealthCheck.objects.create(
                worker=worker, runtime_version=version, cause=cause, environment=environment
            )
    except IntegrityError:
        return None


@transaction.atomic
def close_check(
    check: HealthCheck,
    result: HealthCheck.Result,
    *,
    reason: str = "",
    notes: Sequence[Mapping[str, Any]] = (),
    detail: str = "",
    held_reason: str = "",
    median_s: float | None = None,
    samples: Mapping[str, Any] | None = None,
) -> bool:
    """End a pending check, and hold the worker back or release it; return whether it was pending.

    reason, notes, detail: those of the task
    held_reason: user-facing text why the worker is quarantined
    median_s: median time of an iteration, s
    samples: as in `HealthCheck.samples`
    """
    now = timezone.now()
    ended = HealthCheck.objects.filter(pk=check.pk, result="").update(
        result=result,
        reason=reason,
        notes=list(notes),
        detail=detail[:1000],
        median_s=median_s,
        samples=dict(samples or {}),
        ended_at=now,
    )
    if not ended:
        return False
    check.refresh_from_db()
    log.info("health_checked", worker=check.worker.name, result=result, reason=reason)
    if not check.measures:
        _judge(check, result, held_reason, now)
    _delete_old_checks(check)
    return True


def _judge(
    check: HealthCheck, result: HealthCheck.Result, held_reason: str, now: datetime.datetime
) -> None:
    """Hold the worker back or release it; an A/A run follows a check that passed."""
    if result == HealthCheck.Result.FAILED:
        _hold(check.worker, held_reason, now)
    elif result == HealthCheck.Result.PASSED:
        release_worker(check.worker, by=None)
        Worker.objects.filter(pk=check.worker_id).update(may_lack_scatter=True)


def recheck_at(worker: Worker) -> datetime.datetime:
    """Return when a worker that is quarantined is checked again; each failure doubles the pause."""
    ended = worker.health_checks.exclude(ended_at=None)
    if worker.held_at is not None:
        failures = ended.filter(result=HealthCheck.Result.FAILED, ended_at__gte=worker.held_at)
    else:
        failures = ended.none()
    doubled = min(max(failures.count(), 1) - 1, 16)
    pause = datetime.timedelta(seconds=settings.HEALTH_RECHECK_S * 2**doubled)
    last = ended.order_by("-ended_at").first()
    begin = last.ended_at if last and last.ended_at else worker.held_at or worker.created_at
    return begin + min(pause, LONGEST_PAUSE)


def _hold(worker: Worker, reason: str, at: datetime.datetime) -> None:
    """Hold a worker back; one that is already held keeps its time, but gets the new reason."""
    rows = Worker.objects.filter(pk=worker.pk, retired_at=None)
    if rows.filter(held_at=None).update(held_at=at, held_reason=reason[:300]):
        record_audit_entry(
            "worker.hold", worker, by=None, before={"held": ""}, after={"held": reason}
        )
        add_device_deliveries(Webhook.Event.DEVICE_HELD, [(worker.pk, worker.name, at)])
    else:
        rows.update(held_reason=reason[:300])


def _delete_old_checks(check: HealthCheck) -> None:
    """Delete the oldest checks of the same cause and result as one that has ended."""
    same = check.worker.health_checks.filter(cause=check.cause, result=check.result)
    oldest_kept = same.order_by("-id").values("pk")[KEPT - 1 : KEPT]
    same.filter(pk__lt=Subquery(oldest_kept)).delete()
