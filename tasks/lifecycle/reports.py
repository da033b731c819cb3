"""Apply agents' reports about their attempts: accepted, started, finished.

The rows are locked before they are examined, so that decisions stay valid until the commit. An
attempt that has ended is fenced: later reports change nothing.
"""

import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from agent.protocol.messages import (
    CAUSE_DIGEST,
    AttemptAccepted,
    AttemptFinished,
    AttemptStarted,
    EndReason,
)
from tasks.lifecycle import wakeups
from tasks.lifecycle.attempts import lease_deadline
from tasks.lifecycle.failures import notes_with_file_names, reason_and_detail
from tasks.lifecycle.outcomes import FILE_CHANGED, about, continue_task, end_task, reader_of
from tasks.lifecycle.reasons import Reason
from tasks.lifecycle.transitions import transition_if
from tasks.models import Attempt, TaskFile
from tasks.states import Outcome, TaskState
from webprofile.background import enqueue_on_commit
from webprofile.observability.counters import DISPATCH_SECONDS

Report = AttemptAccepted | AttemptStarted | AttemptFinished

#: large columns of a task that reports do not need
_LONG = ("task__script", "task__options", "task__plan", "task__inputs", "task__target")


def held_attempt(attempts: QuerySet[Attempt]) -> Attempt | None:
    """Return the only attempt of the queryset, locked together with its task until the commit.

    Does not wait for locks, since a waiting thread could not serve other devices: raises
    OperationalError on PostgreSQL if another transaction has locked one of the rows.
    """
    # FOR NO KEY UPDATE: inserting rows that refer to these need not wait
    rows = attempts.select_related("task", "worker").defer(*_LONG)
    return rows.select_for_update(of=("self", "task"), no_key=True, nowait=True).first()


@transaction.atomic(savepoint=False)
def apply_report(attempt: Attempt, report: Report) -> bool:
    """Store a report and move the task accordingly; a repeated or late report changes nothing.

    attempt: locked by this transaction (`held_attempt`)

    Returns whether the report ended the attempt.
    """
    if attempt.ended_at is not None:
        return False
    now, task = timezone.now(), attempt.task
    match report:
        case AttemptAccepted() if attempt.accepted_at is None:
            _write(attempt, accepted_at=now, lease_expires_at=lease_deadline())
        case AttemptStarted() if attempt.started_at is None:
            _write(
                attempt,
                started_at=now,
                lease_expires_at=lease_deadline(),
                download_s=report.download_s,
                command=report.command,
                **_progress(attempt, report),
            )
            transition_if(task, TaskState.RUNNING, {TaskState.ASSIGNED}, about=about(attempt))
            if attempt.number == 1:
                waited_s = (now - attempt.created_at).total_seconds()
                DISPATCH_SECONDS.labels("started").observe(max(0.0, waited_s))
        case AttemptStarted() if attempt.passes_done < report.passes_done:
            _write(attempt, **_progress(attempt, report))
            wakeups.attempt_progressed_on_commit(task)
        case AttemptFinished():
            _write(
                attempt,
                ended_at=now,
                end_reason=_end_reason(report),
                exit_code=report.exit_code,
                run_s=report.run_s,
                host_memory_bytes=report.host_memory_bytes,
                gpu_memory_bytes=report.gpu_memory_bytes,
                notes=notes_with_file_names(attempt.task, report.notes),
                detail=report.detail,
                command=report.command or attempt.command,
            )
            _continue_after_end(attempt, report)
            return True
    return False


def _progress(attempt: Attempt, report: AttemptStarted) -> dict[str, Any]:
    """Return the columns that a report of a started attempt changes while it runs."""
    columns: dict[str, Any] = {"passes": report.passes, "passes_done": report.passes_done}
    if report.slowest is not None and not attempt.task.is_script:
        columns["slowest"] = report.slowest.model_dump(mode="json")
    # there are more passes if all of them are run again, and those so far do not count
    is_repeated = report.passes > attempt.passes
    if (report.latency is not None or is_repeated) and not attempt.task.is_script:
        columns["latency"] = report.latency and report.latency.model_dump(mode="json")
    if report.verdicts and attempt.task.is_paired:
        columns["verdicts"] = [verdict.model_dump(mode="json") for verdict in report.verdicts]
    return columns


def _end_reason(report: AttemptFinished) -> str:
    if report.reason == EndReason.DOWNLOAD_FAILED and report.cause == CAUSE_DIGEST:
        return FILE_CHANGED
    return report.reason.value


def _write(attempt: Attempt, **columns: Any) -> None:
    for name, value in columns.items():
        setattr(attempt, name, value)
    attempt.save(update_fields=columns)


def _continue_after_end(attempt: Attempt, report: AttemptFinished) -> None:
    """Move the task of an attempt that has ended: queue it again, end it, or process its result.

    If the run itself ended, an actor reads its profile, or its log if it failed: this transaction
    holds the rows of the attempt and its task, and logs are long.
    """
    _store_checksums(attempt, report)
    if continue_task(attempt, reason=attempt.end_reason, detail=report.detail):
        return
    if attempt.end_reason == FILE_CHANGED:
        end_task(attempt, Outcome.FAILED, Reason.FILE_CHANGED.code, report.detail)
        return
    if report.reason != EndReason.EXITED:
        end_task(attempt, Outcome.FAILED, *reason_and_detail(attempt, report))
        return
    now = timezone.now()
    # the deadline of a profile counts from the start of the reading (`begin_reading`); without its
    # log, a failed run has at least the reason that its exit code gives
    patience = datetime.timedelta(seconds=settings.PROCESSING_DEADLINE_S)
    deadline = None if report.exit_code == 0 else now + patience
    columns: dict[str, Any] = {"processing_deadline_at": deadline, "hinted_at": now}
    held = {TaskState.ASSIGNED, TaskState.RUNNING}
    if transition_if(attempt.task, TaskState.PROCESSING, held, about=about(attempt), **columns):
        if report.exit_code != 0 and report.log_end:
            _write(attempt, log_end=report.log_end)
        enqueue_on_commit(reader_of(attempt), str(attempt.pk), queue="profiles")


def _store_checksums(attempt: Attempt, report: AttemptFinished) -> None:
    """Store the SHA-256 of each file as the agent received it; devices use it as a cache key.

    Files of several arms of a paired comparison have the same names on the device.
    """
    checksums = {(file.arm, file.name): file.sha256 for file in report.received}
    if not checksums:
        return
    changed = list[TaskFile]()
    for file in attempt.task.files.all():
        sha256 = checksums.get((file.arm, file.device_name), "")
        if sha256 and sha256 != file.sha256:
            file.sha256 = sha256
            changed.append(file)
    TaskFile.objects.bulk_update(changed, ["sha256"])
