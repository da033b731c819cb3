"""Record the files that attempts leave in object storage."""

from collections.abc import Iterable, Sequence

import structlog
from django.db import transaction
from django.db.models import QuerySet

from agent.protocol.artifacts import TOTAL_LIMIT_BYTES, limit_of
from agent.protocol.messages import FileOffer
from agent.protocol.notes import Note
from tasks.models import Artifact, Attempt
from webprofile.storage import storage

log = structlog.get_logger()


def judge_artifacts(
    attempt: Attempt, files: Iterable[FileOffer]
) -> list[tuple[FileOffer, Note | None]]:
    """Return each offered file with the reason why it is refused, None if it may be stored.

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
            log.warning("artifact_refused", **about, why=str(refused))
        else:
            total += added
            known[file.name] = file.size_bytes
        judged.append((file, refused))
    return judged


def _refusal_of(file: FileOffer, total_bytes: int) -> Note | None:
    limit = limit_of(file.name)
    if limit is None:
        return Note.of("refused_name")
    if file.size_bytes > limit:
        return Note.of("refused_size", size=file.size_bytes, limit=limit)
    if total_bytes > TOTAL_LIMIT_BYTES:
        return Note.of("refused_total", size=total_bytes, limit=TOTAL_LIMIT_BYTES)
    return None


@transaction.atomic
def offer_artifacts(attempt: Attempt, files: Iterable[FileOffer]) -> None:
    """Record the files for which an agent gets upload URLs. Idempotent."""
    # unique names: one INSERT ... ON CONFLICT may not affect a row twice
    rows = {
        file.name: Artifact(
            attempt=attempt,
            name=file.name,
            size_bytes=file.size_bytes,
            md5=file.md5,
            is_stored=False,
        )
        for file in files
    }
    Artifact.objects.bulk_create(
        rows.values(),
        update_conflicts=True,
        unique_fields=["attempt", "name"],
        update_fields=["size_bytes", "md5", "is_stored"],
    )


def find_stored(attempts: QuerySet[Attempt], files: Sequence[FileOffer]) -> list[FileOffer]:
    """Return those of the reported files that storage holds as they were offered.

    Each is looked up in storage, so this is not called inside a transaction. Files without an
    upload URL are not looked up.

    attempts: a queryset that holds the attempt or is empty

    Raises DomainError storage_unreachable.
    """
    offered = Artifact.objects.filter(attempt__in=attempts.filter(ended_at=None))
    keys = {(row.name, row.size_bytes, row.md5): row.object_key for row in offered}
    found = []
    for file in files:
        key = keys.get((file.name, file.size_bytes, file.md5))
        if key is None or storage.head(key) != (file.size_bytes, file.md5):
            log.warning("artifact_not_stored", name=file.name)
        else:
            found.append(file)
    return found


def record_artifacts(attempt: Attempt, files: Iterable[FileOffer]) -> None:
    """Record that storage holds these files, which were offered before."""
    names = [file.name for file in files]
    Artifact.objects.filter(attempt=attempt, name__in=names).update(is_stored=True)
