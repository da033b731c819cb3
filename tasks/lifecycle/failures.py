"""Find out why a run failed, and end its task.

A device decides what a log of up to 200 kB holds. An actor searches it, so that this delays neither
the web process nor the transaction that stores the report.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from django.db import transaction

from agent.protocol.messages import AttemptFinished, EndReason
from agent.protocol.notes import Note
from agent.protocol.pairs import ARM_NAMES
from tasks.lifecycle.attempts import log_tail
from tasks.lifecycle.diagnosis import diagnose, diagnose_script
from tasks.lifecycle.outcomes import end_task
from tasks.lifecycle.reasons import Reason
from tasks.models import Attempt, Task
from tasks.states import Outcome, TaskState

log = structlog.get_logger()

#: characters of a detail in which names of files are replaced; `end_task` stores fewer
_MOST_DETAIL = 4000


def end_failed_run(attempt: Attempt, *, reads_log: bool = True) -> bool:
    """End the task of a run that failed with the reason that exit code and log give. Idempotent.

    reads_log: if False, the exit code alone decides

    Returns whether this call ended the task.
    """
    if attempt.task.state != TaskState.PROCESSING:
        return False
    chunks = log_tail(attempt) if reads_log else ""
    report = AttemptFinished(
        attempt=attempt.pk,
        at=0.0,
        reason=EndReason.EXITED,
        exit_code=attempt.exit_code,
        detail=attempt.detail,
        command=attempt.command,
        log_end=attempt.log_end if reads_log else "",
    )
    try:
        reason, detail = reason_and_detail(attempt, report, chunks)
    except Exception:
        # a log that breaks our own code must not leave its task behind
        log.exception("diagnosis_broke")
        reason, detail = Reason.RUN_FAILED.code, attempt.detail
    with transaction.atomic():
        Attempt.objects.filter(pk=attempt.pk).exclude(log_end="").update(log_end="")
        return end_task(attempt, Outcome.FAILED, reason, detail)


def reason_and_detail(
    attempt: Attempt, report: AttemptFinished, chunks: str = ""
) -> tuple[str, str]:
    """Return reason and detail of a failed run, with files called by their uploaded names.

    chunks: the end of the log that arrived in chunks; `report.log_end` may continue it
    """
    task = attempt.task
    diagnose_run = diagnose_script if task.is_script else diagnose
    end = report.log_end
    reason, detail = diagnose_run(report, chunks if chunks.endswith(end) else f"{chunks}\n{end}")
    detail = detail[:_MOST_DETAIL]
    around = (r"(?<![\w./-])", r"(?![\w-])") if task.is_script else ('(?<=")', '(?=")')
    letters = (note["values"]["arm"] for note in attempt.notes if "arm" in note["values"])
    for on_device, name in _names(task, next(letters, None)).items():
        # the user chose the name: escape backslashes, which are special in a replacement
        escaped = name.replace("\\", r"\\")
        detail = re.sub(re.escape(on_device).join(around), escaped, detail)
    return reason, detail


def notes_with_file_names(task: Task, notes: Iterable[Note]) -> list[Any]:
    """Return notes as JSON, with files called by their uploaded names."""
    if not notes:
        return []

    def renamed(value: Any, names: Mapping[str, str]) -> Any:
        if isinstance(value, Mapping):
            return {key: renamed(item, names) for key, item in value.items()}
        return names.get(value, value) if isinstance(value, str) else value

    return [
        renamed(note.model_dump(mode="json"), _names(task, note.values.get("arm")))
        for note in notes
    ]


def _names(task: Task, letter: object) -> dict[str, str]:
    """Return the uploaded names by those on the device, which each arm has for its own files.

    letter: of the arm; None for the baseline
    """
    arm = ARM_NAMES.find(str(letter or "A"))
    files = list(task.files.all())
    return {file.device_name: file.name for own in (0, arm) for file in files if file.arm == own}
