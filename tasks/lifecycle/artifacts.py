"""Record the files that attempts leave in object storage."""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

import structlog
from django.db import transaction
from django.db.models import Q

from agent.protocol import FileOffer
from agent.protocol.artifacts import TOTAL_LIMIT_BYTES, limit_of
from tasks.models import Artifact, Attempt

log = structlog.get_logger()


def judge_artifacts(attempt: Attempt, files: Iterable[FileOffer]) -> list[tuple[FileOffer, str]]:
    """Each offered file with why it may not be stored, in one line; empty if it may.

    Each must have a known name and its size; with what is recorded already all must fit together.
    """
    known = {each.name: each.size_bytes for each in attempt.artifacts.all()}
    total, judged = sum(known.values()), []
    for file in files:
        added = file.size_bytes - known.get(file.name, 0)
        refused = _why_refused(file, total + added)
        if refused:
            about = {"task": attempt.task_id, "attempt": str(attempt.pk), "name": file.name}
            log.warning("artifact_refused", **about, why=refused)
        else:
            total += added
            known[file.name] = file.size_bytes
        judged.append((file, refused))
    return judged


def _why_refused(file: FileOffer, total_bytes: int) -> str:
    limit = limit_of(file.name)
    if limit is None:
        return "no file of this name is kept"
    if file.size_bytes > limit:
        return f"it has {file.size_bytes} bytes, the most is {limit}"
    if total_bytes > TOTAL_LIMIT_BYTES:
        return f"all files together would have {total_bytes} bytes, the most is {TOTAL_LIMIT_BYTES}"
    return ""


@transaction.atomic
def offer_artifacts(attempt: Attempt, files: Iterable[FileOffer]) -> None:
    """Note the files that an agent was given places for. Repeating it changes nothing."""
    _note(attempt, files, is_stored=False)


@transaction.atomic(savepoint=False)
def record_artifacts(attempt: Attempt, files: Sequence[FileOffer]) -> None:
    """Note the files that an agent says it stored; they are checked when they are read.

    Those that the attempt may not store are left out.
    """
    if not files:
        return
    # most often all of them are what it was given places for, which was judged then
    same = (Q(name=file.name, size_bytes=file.size_bytes, md5=file.md5) for file in files)
    offered = Artifact.objects.filter(reduce(or_, same), attempt=attempt)
    if offered.update(is_stored=True) == len(files):
        return
    judged = judge_artifacts(attempt, files)
    _note(attempt, [file for file, refused in judged if not refused], is_stored=True)


def _note(attempt: Attempt, files: Iterable[FileOffer], *, is_stored: bool) -> None:
    # by name, since one statement may not write a row twice
    rows = {
        file.name: Artifact(
            attempt=attempt,
            name=file.name,
            size_bytes=file.size_bytes,
            md5=file.md5,
            is_stored=is_stored,
        )
        for file in files
    }
    Artifact.objects.bulk_create(
        rows.values(),
        update_conflicts=True,
        unique_fields=["attempt", "name"],
        update_fields=["size_bytes", "md5", "is_stored"],
    )
