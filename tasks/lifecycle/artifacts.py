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
    """Return each offered file with the reason why it is refused, or "" if it may be stored.

    A file needs a known name and a size within the limit of that name; together with the recorded
    artifacts, all files must fit into `TOTAL_LIMIT_BYTES`.
    """
    known = {artifact.name: artifact.size_bytes for artifact in attempt.artifacts.all()}
    total, judged = sum(known.values()), []
    for file in files:
        added = file.size_bytes - known.get(file.name, 0)
        refused = _refusal_of(file, total + added)
        if refused:
            about = {"task": attempt.task_id, "attempt": str(attempt.pk), "name": file.name}
            log.warning("artifact_refused", **about, why=refused)
        else:
            total += added
            known[file.name] = file.size_bytes
        judged.append((file, refused))
    return judged


def _refusal_of(file: FileOffer, total_bytes: int) -> str:
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
    """Record the files for which an agent gets upload URLs. Idempotent."""
    _upsert(attempt, files, is_stored=False)


@transaction.atomic(savepoint=False)
def record_artifacts(attempt: Attempt, files: Sequence[FileOffer]) -> None:
    """Record the files that an agent reports as stored; they are verified when they are read.

    Files that the attempt may not store are ignored.
    """
    if not files:
        return
    # fast path: all files were offered before, and were checked when their URLs were signed
    same = (Q(name=file.name, size_bytes=file.size_bytes, md5=file.md5) for file in files)
    offered = Artifact.objects.filter(reduce(or_, same), attempt=attempt)
    if offered.update(is_stored=True) == len(files):
        return
    judged = judge_artifacts(attempt, files)
    _upsert(attempt, [file for file, refused in judged if not refused], is_stored=True)


def _upsert(attempt: Attempt, files: Iterable[FileOffer], *, is_stored: bool) -> None:
    # unique names: one INSERT ... ON CONFLICT may not affect a row twice
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
