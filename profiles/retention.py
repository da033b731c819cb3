"""What may go after some time, by kind: how much of it there is, and its removal piece by piece.

Only what belongs to tasks that have ended, and what is far older than anything that still uses it.
Rows go at once, one transaction a piece; objects leave storage by the sweep (`profiles.removal`).
So a purge may be stopped at any time and begun again. The audit log is never purged.
"""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.utils import timezone
from rest_framework_simplejwt.token_blacklist.models import OutstandingToken

from accounts.models import AuditEntry
from profiles.models import (
    Artifact,
    AttemptMeasurement,
    Profile,
    ProfileUpload,
    artifact_key,
)
from profiles.opened.uploads import upload_delete
from profiles.removal import objects_remove_soon, task_erase
from tasks.models import Attempt, IdempotencyKey, LogChunk, Purpose, Task, TaskFile
from tasks.states import TaskState
from workers.models import HealthCheck

#: rows of one transaction
PIECE = 200


@dataclass(frozen=True)
class Kind:
    """found: the rows that are older than a moment, those in use left out
    size_of: their bytes in storage or in the database, 0 where nobody counted
    remove: takes primary keys of such rows
    widen: from the keys of a piece to those of all that has to go with it
    """

    name: str
    help: str
    found: Callable[[datetime.datetime], QuerySet[Any]]
    size_of: Callable[[QuerySet[Any]], int]
    remove: Callable[[Sequence[Any]], None]
    widen: Callable[[Sequence[Any]], Sequence[Any]] = list


@dataclass(frozen=True)
class Amount:
    """How many rows, and their bytes."""

    rows: int = 0
    size_bytes: int = 0


def amount_of(kind: Kind, before: datetime.datetime) -> Amount:
    """What a purge would remove now."""
    found = kind.found(before)
    return Amount(found.count(), kind.size_of(found))


def purge(
    kind: Kind, before: datetime.datetime, advance: Callable[[int], object] = lambda rows: None
) -> Amount:
    """Remove what is older than a moment. May be stopped and repeated.

    One entry in the audit log tells what went, also of a purge that was stopped.
    """
    rows = size_bytes = 0
    try:
        while keys := _piece(kind, before):
            piece = kind.found(before).filter(pk__in=keys)
            size = kind.size_of(piece)
            kind.remove(keys)
            rows, size_bytes = rows + len(keys), size_bytes + size
            advance(len(keys))
    finally:
        if rows:
            AuditEntry.objects.create(
                action="purge",
                target_type="purge",
                target_name=kind.name,
                after={"before": before.isoformat(), "rows": rows, "size_bytes": size_bytes},
            )
    return Amount(rows, size_bytes)


def _piece(kind: Kind, before: datetime.datetime) -> list[Any]:
    keys = list(kind.found(before).order_by("pk").values_list("pk", flat=True)[:PIECE])
    return list(kind.widen(keys))


def _ended(before: datetime.datetime, prefix: str = "") -> Q:
    """Tasks that ended before, and of which no attempt lives any more."""
    return Q(
        **{
            f"{prefix}state": TaskState.FINISHED,
            f"{prefix}finished_at__lt": before,
        }
    )


def _files(before: datetime.datetime) -> QuerySet[TaskFile]:
    return TaskFile.objects.filter(_ended(before, "task__"), purged_at=None)


def _with_their_tasks_files(keys: Sequence[int]) -> list[int]:
    # `tasks/N/` is emptied as a whole
    tasks = TaskFile.objects.filter(pk__in=keys).order_by().values("task_id")
    rows = TaskFile.objects.filter(task__in=tasks, purged_at=None)
    return list(rows.order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def _remove_files(keys: Sequence[int]) -> None:
    rows = TaskFile.objects.filter(pk__in=keys)
    tasks = set(rows.order_by().values_list("task_id", flat=True))
    rows.update(purged_at=timezone.now())
    objects_remove_soon(f"tasks/{task}/" for task in tasks)


def _profiles(before: datetime.datetime) -> QuerySet[Attempt]:
    left = (
        Exists(Artifact.objects.filter(attempt=OuterRef("pk")))
        | Exists(Profile.objects.filter(attempt=OuterRef("pk")))
        | Exists(AttemptMeasurement.objects.filter(attempt=OuterRef("pk")))
    )
    ended = _ended(before, "task__") & Q(ended_at__isnull=False)
    return Attempt.objects.filter(left, ended)


@transaction.atomic
def _remove_profiles(keys: Sequence[Any]) -> None:
    for model in (Artifact, Profile, AttemptMeasurement):
        model.objects.filter(attempt__in=keys).delete()
    objects_remove_soon(artifact_key(str(key), "") for key in keys)


def _logs(before: datetime.datetime) -> QuerySet[LogChunk]:
    return LogChunk.objects.filter(
        _ended(before, "attempt__task__"), attempt__ended_at__isnull=False
    )


def _uploads(before: datetime.datetime) -> QuerySet[TaskFile]:
    # as `profiles.services.abandoned_uploads_purge`, which the sweep calls, does at once
    return _files(timezone.now()).filter(task__submitted_at=None)


def _tasks(before: datetime.datetime) -> QuerySet[Task]:
    live = Exists(Attempt.objects.filter(task=OuterRef("pk"), ended_at=None))
    return Task.objects.filter(_ended(before), ~live)


def _health(before: datetime.datetime) -> QuerySet[Task]:
    return _tasks(before).filter(purpose=Purpose.HEALTH)


@transaction.atomic
def _remove_tasks(keys: Sequence[int]) -> None:
    for row in Task.objects.select_for_update().filter(pk__in=keys, state=TaskState.FINISHED):
        task_erase(row)


def _checks(before: datetime.datetime) -> QuerySet[HealthCheck]:
    # the last one of each device says how it is
    newer = HealthCheck.objects.filter(worker=OuterRef("worker"), pk__gt=OuterRef("pk"))
    return HealthCheck.objects.filter(Exists(newer), ended_at__lt=before)


def _opened(before: datetime.datetime) -> QuerySet[ProfileUpload]:
    ended = (ProfileUpload.State.READY, ProfileUpload.State.FAILED)
    return ProfileUpload.objects.filter(state__in=ended, created_at__lt=before)


@transaction.atomic
def _remove_opened(keys: Sequence[int]) -> None:
    for row in ProfileUpload.objects.filter(pk__in=keys):
        upload_delete(row)


def _keys(before: datetime.datetime) -> QuerySet[IdempotencyKey]:
    return IdempotencyKey.objects.filter(created_at__lt=before)


def _sessions(before: datetime.datetime) -> QuerySet[Session]:
    return Session.objects.filter(expire_date__lt=before)


@transaction.atomic
def _remove_sessions(keys: Sequence[str]) -> None:
    UserSession.objects.filter(session_key__in=keys).delete()
    Session.objects.filter(pk__in=keys).delete()


def _tokens(before: datetime.datetime) -> QuerySet[OutstandingToken]:
    return OutstandingToken.objects.filter(expires_at__lt=before)


def _deleting(model: Any) -> Callable[[Sequence[Any]], None]:
    return transaction.atomic(lambda keys: model.objects.filter(pk__in=keys).delete())


def _summed(field: str) -> Callable[[QuerySet[Any]], int]:
    return lambda rows: rows.aggregate(total=Sum(field))["total"] or 0


def _size_of_tasks(rows: QuerySet[Any]) -> int:
    files = TaskFile.objects.filter(task__in=rows, purged_at=None)
    artifacts = Artifact.objects.filter(attempt__task__in=rows)
    logs = LogChunk.objects.filter(attempt__task__in=rows)
    return _summed("size_bytes")(files) + _summed("size_bytes")(artifacts) + _summed("size")(logs)


def _nothing(rows: QuerySet[Any]) -> int:
    return 0


_size = _summed("size_bytes")
KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "files", "models, data and option files of tasks", _files, _size, _remove_files,
            _with_their_tasks_files,
        ),
        Kind(
            "profiles",
            "what attempts left: files, profiles, measurements",
            _profiles,
            _summed("artifacts__size_bytes"),
            _remove_profiles,
        ),
        Kind("logs", "logs of attempts", _logs, _summed("size"), _deleting(LogChunk)),
        Kind(
            "uploads", "uploads that were never completed, of any age", _uploads, _size,
            _remove_files, _with_their_tasks_files,
        ),
        Kind("health", "health checks' tasks, whole", _health, _size_of_tasks, _remove_tasks),
        Kind("checks", "results of health checks", _checks, _nothing, _deleting(HealthCheck)),
        Kind("keys", "idempotency keys", _keys, _nothing, _deleting(IdempotencyKey)),
        Kind("sessions", "sessions that expired", _sessions, _nothing, _remove_sessions),
        Kind(
            "tokens", "refresh tokens that expired", _tokens, _nothing, _deleting(OutstandingToken)
        ),
        Kind("tasks", "tasks, whole", _tasks, _size_of_tasks, _remove_tasks),
        Kind("opened", "profiles that users opened", _opened, _size, _remove_opened),
    )
}  # fmt: skip
#: those that go only if they are named
NAMED_ONLY = ("tasks", "opened")
