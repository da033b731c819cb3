"""What agents report of their attempts: accepted, started, finished. Those of many devices at once.

Rows are locked first and judged then, so that what is written rests on what is true until the
commit; an attempt that ended is fenced: reports that come later change nothing.
"""

import datetime
import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import prefetch_related_objects
from django.utils import timezone
from structlog.contextvars import bound_contextvars

from agent.protocol import AttemptAccepted, AttemptFinished, AttemptStarted, EndReason
from tasks import announce
from tasks.attempts import lease_end, log_tail
from tasks.diagnosis import diagnose, diagnose_script
from tasks.ends import RETRIED, about, attempt_again, attempts_cancelled, attempts_fail
from tasks.hints import build_profiles_on_commit, dispatch_on_commit
from tasks.models import Attempt, LogChunk, TaskFile
from tasks.states import Outcome, TaskState
from tasks.transitions import transitions_if
from webprofile.meters import DISPATCH_SECONDS
from webprofile.saving import rows_save
from workers.models import Worker

Report = AttemptAccepted | AttemptStarted | AttemptFinished
Ended = list[tuple[Attempt, AttemptFinished]]

#: the columns that reports change
_WRITTEN = (
    "accepted_at", "started_at", "ended_at", "lease_expires_at", "command", "download_s", "run_s",
    "passes", "passes_done", "exit_code", "end_reason", "detail",
)  # fmt: skip
#: what only the device needs to know of a task, and is long
_LONG = ("task__script", "task__options", "task__plan", "task__inputs", "task__target")


def attempts_held(
    said: Iterable[tuple[Worker, Report]], *, may_wait: bool = True
) -> dict[tuple[uuid.UUID, int], Attempt]:
    """The attempts that reports are about, by id and worker, locked with their tasks until the
    commit.

    Only those of the worker that reports: others' do not exist for it. Without `may_wait` those
    that somebody else has locked are left out.
    """
    workers = {(report.attempt, worker.pk): worker for worker, report in said}
    # in one order for all who lock several; new rows that refer to these need not wait
    rows = Attempt.objects.filter(pk__in={pk for pk, _ in workers}).order_by("pk").defer(*_LONG)
    rows = rows.select_related("task").select_for_update(
        of=("self", "task"), no_key=True, skip_locked=not may_wait
    )
    held = {key: row for row in rows if (key := (row.pk, row.worker_id)) in workers}
    for key, attempt in held.items():
        attempt.worker = workers[key]
    return held


@transaction.atomic(savepoint=False)
def reports_take(reports: Iterable[tuple[Attempt, Report]]) -> Ended:
    """Note what is reported and move the tasks on; repeated and late reports change nothing.

    reports: of attempts that this transaction holds (`attempts_held`), the same one as often as
    it is reported of. Returns the attempts that this ended, with why.
    """
    now, started, ended = timezone.now(), list[Attempt](), Ended()
    changed = dict[uuid.UUID, Attempt]()
    for attempt, report in reports:
        if attempt.ended_at is not None:
            continue
        match report:
            case AttemptAccepted() if attempt.accepted_at is None:
                attempt.accepted_at, attempt.lease_expires_at = now, lease_end()
            case AttemptStarted() if attempt.started_at is None:
                attempt.started_at, attempt.lease_expires_at = now, lease_end()
                attempt.download_s, attempt.command = report.download_s, report.command
                attempt.passes, attempt.passes_done = report.passes, report.passes_done
                started.append(attempt)
            case AttemptStarted() if attempt.passes_done < report.passes_done:
                attempt.passes, attempt.passes_done = report.passes, report.passes_done
                announce.attempt_progressed_on_commit(attempt.task)
            case AttemptFinished():
                _note_end(attempt, report, now)
                ended.append((attempt, report))
            case _:
                continue
        changed[attempt.pk] = attempt
    rows_save(changed.values(), _WRITTEN)
    _go_on_started(started)
    _go_on_ended(ended)
    return ended


def _note_end(attempt: Attempt, report: AttemptFinished, now: datetime.datetime) -> None:
    attempt.ended_at, attempt.end_reason = now, report.reason.value
    attempt.exit_code, attempt.run_s = report.exit_code, report.run_s
    attempt.detail = report.detail
    attempt.command = report.command or attempt.command


def _go_on_started(started: Sequence[Attempt]) -> None:
    tasks = [attempt.task for attempt in started]
    transitions_if(tasks, TaskState.RUNNING, {TaskState.ASSIGNED}, about=about(started))
    for attempt in started:
        if attempt.number == 1 and attempt.started_at is not None:
            waited_s = (attempt.started_at - attempt.created_at).total_seconds()
            DISPATCH_SECONDS.labels("started").observe(max(0.0, waited_s))


def _go_on_ended(ended: Ended) -> None:
    _note_sums(ended)
    cancelled, done, bad = list[Attempt](), list[Attempt](), Ended()
    for attempt, report in ended:
        if attempt.task.state == TaskState.CANCELLING:
            cancelled.append(attempt)
        elif report.reason == EndReason.EXITED and report.exit_code == 0:
            done.append(attempt)
        elif report.reason in RETRIED:
            with bound_contextvars(**about([attempt])[attempt.task_id]):
                attempt_again(attempt, reason=report.reason.value, detail=report.detail)
        else:
            bad.append((attempt, report))
    attempts_cancelled(cancelled)
    _go_on_done(done)
    _go_on_bad(bad)
    if ended:
        dispatch_on_commit({attempt.worker_id for attempt, _ in ended})


def _go_on_done(done: Sequence[Attempt]) -> None:
    """Have the results read."""
    now = timezone.now()
    deadline = now + datetime.timedelta(seconds=settings.PROCESSING_DEADLINE_S)
    facts: dict[str, Any] = {"processing_deadline_at": deadline, "hinted_at": now}
    held = {TaskState.ASSIGNED, TaskState.RUNNING}
    tasks = [attempt.task for attempt in done]
    moved = transitions_if(tasks, TaskState.PROCESSING, held, about=about(done), **facts)
    keys = {task.pk for task in moved}
    build_profiles_on_commit([str(each.pk) for each in done if each.task_id in keys])


def _go_on_bad(bad: Ended) -> None:
    """End the tasks, and say why in words."""
    prefetch_related_objects([attempt.task for attempt, _ in bad], "files")
    attempts = [attempt for attempt, _ in bad]
    chunks = LogChunk.objects.filter(attempt__in=attempts).order_by()
    logged = set(chunks.values_list("attempt_id", flat=True).distinct()) if bad else set()
    alike = defaultdict[tuple[str, str], list[Attempt]](list)
    for attempt, report in bad:
        log = log_tail(attempt) if attempt.pk in logged else ""
        alike[_diagnosed(attempt, report, log)].append(attempt)
    for (reason, detail), failed in alike.items():
        attempts_fail(failed, Outcome.FAILED, reason, detail)


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


def _note_sums(ended: Ended) -> None:
    """Keep the SHA-256 of each file as it arrived: with it the next device can use its cache."""
    told = [(attempt, report) for attempt, report in ended if report.received]
    prefetch_related_objects([attempt.task for attempt, _ in told], "files")
    new = list[TaskFile]()
    for attempt, report in told:
        sums = {file.name: file.sha256 for file in report.received}
        for file in attempt.task.files.all():
            found = sums.get(file.device_name, "")
            if found and found != file.sha256:
                file.sha256 = found
                new.append(file)
    rows_save(new, ["sha256"])
