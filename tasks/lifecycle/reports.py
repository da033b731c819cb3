"""What agents report of their attempts: accepted, started, finished.

Rows are locked first and judged then, so that what is written rests on what is true until the
commit; an attempt that ended is fenced: reports that come later change nothing.
"""

import datetime
import re
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from agent.protocol import AttemptAccepted, AttemptFinished, AttemptStarted, EndReason
from tasks.lifecycle import wakeups
from tasks.lifecycle.attempts import lease_deadline, log_tail
from tasks.lifecycle.diagnosis import diagnose, diagnose_script
from tasks.lifecycle.outcomes import about, continue_task, end_task
from tasks.lifecycle.transitions import transition_if
from tasks.models import Attempt, TaskFile
from tasks.states import Outcome, TaskState
from webprofile.background import enqueue_on_commit
from webprofile.observability.counters import DISPATCH_SECONDS

Report = AttemptAccepted | AttemptStarted | AttemptFinished

#: what only the device needs to know of a task, and is long
_LONG = ("task__script", "task__options", "task__plan", "task__inputs", "task__target")


def held_attempt(attempts: QuerySet[Attempt]) -> Attempt | None:
    """Return the one of these attempts, locked with its task until the commit.

    Raises OperationalError if another transaction has locked one of them (PostgreSQL): a thread
    that waited for it would be missing to other devices.
    """
    # new rows that refer to these need not wait
    rows = attempts.select_related("task", "worker").defer(*_LONG)
    return rows.select_for_update(of=("self", "task"), no_key=True, nowait=True).first()


@transaction.atomic(savepoint=False)
def apply_report(attempt: Attempt, report: Report) -> bool:
    """Note what is reported and move the task on; a repeated or late report changes nothing.

    attempt: one that this transaction holds (`held_attempt`). Returns whether this ended it.
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
                passes=report.passes,
                passes_done=report.passes_done,
            )
            transition_if(task, TaskState.RUNNING, {TaskState.ASSIGNED}, about=about(attempt))
            if attempt.number == 1:
                waited_s = (now - attempt.created_at).total_seconds()
                DISPATCH_SECONDS.labels("started").observe(max(0.0, waited_s))
        case AttemptStarted() if attempt.passes_done < report.passes_done:
            _write(attempt, passes=report.passes, passes_done=report.passes_done)
            wakeups.attempt_progressed_on_commit(task)
        case AttemptFinished():
            _write(
                attempt,
                ended_at=now,
                end_reason=report.reason.value,
                exit_code=report.exit_code,
                run_s=report.run_s,
                detail=report.detail,
                command=report.command or attempt.command,
            )
            _go_on(attempt, report)
            return True
    return False


def _write(attempt: Attempt, **columns: Any) -> None:
    for name, value in columns.items():
        setattr(attempt, name, value)
    attempt.save(update_fields=columns)


def _go_on(attempt: Attempt, report: AttemptFinished) -> None:
    """What becomes of the task of an attempt that ended."""
    _note_sums(attempt, report)
    if continue_task(attempt, reason=report.reason.value, detail=report.detail):
        return
    if report.reason != EndReason.EXITED or report.exit_code != 0:
        end_task(attempt, Outcome.FAILED, *_diagnosed(attempt, report, log_tail(attempt)))
        return
    now = timezone.now()
    deadline = now + datetime.timedelta(seconds=settings.PROCESSING_DEADLINE_S)
    facts: dict[str, Any] = {"processing_deadline_at": deadline, "hinted_at": now}
    held = {TaskState.ASSIGNED, TaskState.RUNNING}
    if transition_if(attempt.task, TaskState.PROCESSING, held, about=about(attempt), **facts):
        enqueue_on_commit("build_profile", str(attempt.pk), queue="profiles")


def _diagnosed(attempt: Attempt, report: AttemptFinished, log: str) -> tuple[str, str]:
    """Reason and detail, in which files have the names that they were uploaded with.

    log: the end of what came piece by piece; the report may say the rest
    """
    task = attempt.task
    judge = diagnose_script if task.is_script else diagnose
    said = log if log.endswith(report.log_end) else f"{log}\n{report.log_end}"
    reason, detail = judge(report, said)
    around = (r"(?<![\w./-])", r"(?![\w-])") if task.is_script else ('(?<=")', '(?=")')
    for file in task.files.all():
        # the name is a user's: no backslash of it means anything
        name = file.name.replace("\\", r"\\")
        detail = re.sub(re.escape(file.device_name).join(around), name, detail)
    return reason, detail


def _note_sums(attempt: Attempt, report: AttemptFinished) -> None:
    """Keep the SHA-256 of each file as it arrived: with it the next device can use its cache."""
    sums = {file.name: file.sha256 for file in report.received}
    if not sums:
        return
    new = list[TaskFile]()
    for file in attempt.task.files.all():
        found = sums.get(file.device_name, "")
        if found and found != file.sha256:
            file.sha256 = found
            new.append(file)
    TaskFile.objects.bulk_update(new, ["sha256"])
