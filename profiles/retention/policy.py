"""Retention policies, applied by the sweep (`RETENTION`) and by `manage.py purge`.

Policies for a task's files keep the row of each file, which records when the file was removed and
how many days it was kept. Files from which results are built are only removed by an explicit purge.
Each batch of rows is one transaction, so a purge may be stopped at any time and repeated. Objects
are removed from storage with a delay (`profiles.retention.deletion`), so that presigned URLs and
running reads, copies and comparisons stay valid; those of whole tasks and of imports are removed
without this delay, and a task that is copying them is refused or ends. The audit log is never
purged.
"""

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.utils import timezone
from rest_framework_simplejwt.token_blacklist.models import OutstandingToken

from accounts.models import AuditEntry
from agent.protocol.artifacts import (
    ARM_PROFILE_NAMES,
    LIMITS,
    LOG_NAME,
    MANIFEST_NAME,
    MEASUREMENT_NAME,
    PROFILE_NAMES,
    TRACE_NAMES,
)
from agent.protocol.options import artifact_of
from agent.protocol.pairs import OPERATORS_NAME, PAIRED_NAME
from profiles.imports.uploads import delete_import
from profiles.models import AttemptMeasurement, PairedResult, Profile, ProfileUpload, Share
from profiles.retention.deletion import erase_task, schedule_removal
from tasks.models import (
    Artifact,
    Attempt,
    IdempotencyKey,
    LogChunk,
    Mark,
    Purpose,
    Task,
    TaskFile,
    artifact_key,
)
from tasks.states import TaskState
from webprofile.observability.counters import SWEEP_MOVED
from workers.models import HealthCheck

log = structlog.get_logger()

#: rows per transaction, and per policy in one round of the sweep
PIECE = 200
#: pause of the sweep after a round without expired rows
PAUSE = datetime.timedelta(hours=1)
MARK = "retention"
CACHES = frozenset({"algo_cache.bin", "tensorrt_cache.bin"})
#: artifacts from which results are built
_PLAN_NAME = artifact_of("get_static_mem_info")
_KEPT = {
    LOG_NAME,
    MEASUREMENT_NAME,
    MANIFEST_NAME,
    PAIRED_NAME,
    OPERATORS_NAME,
    *TRACE_NAMES,
    _PLAN_NAME,
}
#: values, dumps and models that a run wrote because of its options
DUMPS = frozenset(LIMITS) - CACHES - _KEPT
#: raw files of up to 2 GiB, which no page shows if the attempt has no result
RAW = frozenset({*PROFILE_NAMES, *ARM_PROFILE_NAMES, OPERATORS_NAME, *TRACE_NAMES, _PLAN_NAME})


Expired = Callable[[datetime.datetime], QuerySet[Any]]
Remove = Callable[[Sequence[Any], datetime.datetime, int], int]


def _nothing(rows: QuerySet[Any]) -> int:
    return 0


@dataclass(frozen=True)
class RetentionPolicy:
    """One kind of data that can be removed after some time.

    expired: returns the rows that are older than a time and not in use
    remove: removes rows, given their primary keys, that time and the number of days kept; returns
        how many rows were removed, since some may be in use again
    size_of: size of such rows in storage or the database, bytes; 0 if it is not measured
    owner: field lookup of the owner's e-mail address; empty if rows have no owner
    """

    name: str
    help: str
    expired: Expired
    remove: Remove
    size_of: Callable[[QuerySet[Any]], int] = _nothing
    owner: str = ""


@dataclass(frozen=True)
class OwnerShare:
    """The rows of one owner that a policy would remove."""

    owner: str
    rows: int
    size_bytes: int


def shares_of(policy: RetentionPolicy, days: int) -> list[OwnerShare]:
    """The rows that would be removed now, by owner, largest size first."""
    expired = policy.expired(_before(days))
    if policy.owner:
        emails = expired.order_by().values_list(policy.owner, flat=True).distinct()
        by_owner = [(email, expired.filter(**{policy.owner: email})) for email in emails]
    else:
        by_owner = [("", expired)]
    shares = [OwnerShare(owner, rows.count(), policy.size_of(rows)) for owner, rows in by_owner]
    shares.sort(key=lambda share: (-share.size_bytes, share.owner))
    return [share for share in shares if share.rows]


def purge(
    policy: RetentionPolicy, days: int, advance: Callable[[int], object] = lambda rows: None
) -> int:
    """Remove the rows older than `days`; returns their number. May be stopped and repeated.

    One audit log entry records what was removed, even if the purge was stopped.

    advance: called with the number of removed rows after each transaction
    """
    before = _before(days)
    rows = size_bytes = 0
    try:
        while keys := _piece(policy, before):
            size = policy.size_of(policy.expired(before).filter(pk__in=keys))
            removed = policy.remove(keys, before, days)
            if not removed:  # all of them are in use again
                break
            rows, size_bytes = rows + removed, size_bytes + size
            advance(removed)
    finally:
        if rows:
            AuditEntry.objects.create(
                action="purge",
                target_type="purge",
                target_name=policy.name,
                after={"before": before.isoformat(), "rows": rows, "size_bytes": size_bytes},
            )
    return rows


def retention_sweep() -> None:
    """Run one round: remove one batch of each policy in `RETENTION`, and of ended share links.

    After a round that removed nothing, the next one is `PAUSE` later.
    """
    now = timezone.now()
    mark = Mark.objects.filter(pk=MARK).first()
    if mark is not None and now < mark.at:
        return
    rules = settings.RETENTION | {"shares": settings.SHARE_KEPT_DAYS}
    removed = [_piece_remove(POLICIES[name], days) for name, days in rules.items()]
    if not any(removed):
        Mark.objects.update_or_create(pk=MARK, defaults={"at": now + PAUSE})


def _piece_remove(policy: RetentionPolicy, days: int) -> int:
    before = _before(days)
    keys = _piece(policy, before)
    removed = policy.remove(keys, before, days) if keys else 0
    if removed:
        SWEEP_MOVED.labels("removed_by_rule").inc(removed)
        log.info("removed_by_rule", rule=policy.name, days=days, rows=removed)
    return removed


def _piece(policy: RetentionPolicy, before: datetime.datetime) -> list[Any]:
    return list(policy.expired(before).order_by("pk").values_list("pk", flat=True)[:PIECE])


def _before(days: int) -> datetime.datetime:
    return timezone.now() - datetime.timedelta(days=days)


def _ended_before(before: datetime.datetime, prefix: str = "") -> Q:
    """Condition: the task finished before `before`; `prefix`: lookup prefix to the task."""
    return Q(**{f"{prefix}state": TaskState.FINISHED, f"{prefix}finished_at__lt": before})


def _given_up(before: datetime.datetime, prefix: str) -> Q:
    """Condition: the task finished before `before` and is not exempt from retention."""
    return _ended_before(before, prefix) & Q(**{f"{prefix}keeps_files": False})


def _being_copied() -> QuerySet[TaskFile, str]:
    """Checksums of files of tasks being created, which may be copied from older tasks' objects."""
    pending = TaskFile.objects.filter(task__state=TaskState.INITIATED, stored_at=None)
    return pending.exclude(md5="").values_list("md5", flat=True)


def _artifacts(names: frozenset[str]) -> Expired:
    def expired(before: datetime.datetime) -> QuerySet[Artifact]:
        ended = _given_up(before, "attempt__task__") & Q(attempt__ended_at__isnull=False)
        rows = Artifact.objects.filter(ended, is_stored=True, name__in=names)
        return rows.exclude(md5__in=_being_copied())

    return expired


def _raw_without_result(before: datetime.datetime) -> QuerySet[Artifact]:
    same_attempt = {"attempt": OuterRef("attempt")}
    has_result = Exists(Profile.objects.filter(**same_attempt))
    return _artifacts(RAW)(before).exclude(
        has_result | Exists(AttemptMeasurement.objects.filter(**same_attempt))
    )


def _make_remover(expired: Expired, time_field: str, **others: object) -> Remove:
    """Make a function that removes objects and keeps their rows.

    time_field: field of a row that records the time of the removal
    others: further fields to set
    """

    @transaction.atomic
    def remove(keys: Sequence[int], before: datetime.datetime, days: int) -> int:
        removed_at = {time_field: timezone.now()}
        # the UPDATE repeats the condition, since a row may be in use again
        expired(before).filter(pk__in=keys).update(**removed_at, kept_days=days, **others)
        removed = list(expired(before).model.objects.filter(pk__in=keys, **removed_at))
        _remove_objects(row.object_key for row in removed)
        return len(removed)

    return remove


def _artifacts_policy(name: str, help: str, expired: Expired) -> "RetentionPolicy":
    remove = _make_remover(expired, "removed_at", is_stored=False)
    return RetentionPolicy(name, help, expired, remove, _size, "attempt__task__owner__email")


def _files(before: datetime.datetime) -> QuerySet[TaskFile]:
    rows = TaskFile.objects.filter(
        _given_up(before, "task__"), stored_at__isnull=False, purged_at=None
    )
    return rows.exclude(md5__in=_being_copied())


def _logs(before: datetime.datetime) -> QuerySet[Attempt]:
    has_log = Exists(LogChunk.objects.filter(attempt=OuterRef("pk")))
    return Attempt.objects.filter(has_log, _given_up(before, "task__"), ended_at__isnull=False)


@transaction.atomic
def _remove_logs(keys: Sequence[Any], before: datetime.datetime, days: int) -> int:
    now = timezone.now()
    expired = _logs(before).filter(pk__in=keys)
    expired.update(log_removed_at=now, log_kept_days=days, slowest=None)
    removed = Attempt.objects.filter(pk__in=keys, log_removed_at=now)
    LogChunk.objects.filter(attempt__in=removed).delete()
    return removed.count()


#: what an attempt leaves; each row has its attempt
_RESULTS = (Artifact, Profile, AttemptMeasurement, PairedResult)


def _profiles(before: datetime.datetime) -> QuerySet[Attempt]:
    left = Q()
    for model in _RESULTS:
        left |= Q(Exists(model._default_manager.filter(attempt=OuterRef("pk"))))
    ended = _given_up(before, "task__") & Q(ended_at__isnull=False)
    return Attempt.objects.filter(left, ended)


@transaction.atomic
def _remove_profiles(keys: Sequence[Any], before: datetime.datetime, days: int) -> int:
    attempts = list(_profiles(before).filter(pk__in=keys).values_list("pk", flat=True))
    for model in _RESULTS:
        model._default_manager.filter(attempt__in=attempts).delete()
    _remove_objects(artifact_key(str(key), "") for key in attempts)
    return len(attempts)


def _remove_objects(keys: Iterable[str]) -> None:
    # a presigned URL for reading that was just issued stays valid for this long
    schedule_removal(keys, after=datetime.timedelta(seconds=settings.PRESIGN_EXPIRY_S))


def _tasks(before: datetime.datetime) -> QuerySet[Task]:
    live = Exists(Attempt.objects.filter(task=OuterRef("pk"), ended_at=None))
    return Task.objects.filter(_ended_before(before), ~live)


def _health(before: datetime.datetime) -> QuerySet[Task]:
    return _tasks(before).filter(purpose=Purpose.HEALTH)


@transaction.atomic
def _remove_tasks(keys: Sequence[int], before: datetime.datetime, days: int) -> int:
    rows = Task.objects.select_for_update().filter(pk__in=keys, state=TaskState.FINISHED)
    for row in rows:
        erase_task(row)
    return len(rows)


def _checks(before: datetime.datetime) -> QuerySet[HealthCheck]:
    # keep the last health check of each device, which shows its state
    newer = HealthCheck.objects.filter(worker=OuterRef("worker"), pk__gt=OuterRef("pk"))
    return HealthCheck.objects.filter(Exists(newer), ended_at__lt=before)


def _expired_imports(before: datetime.datetime) -> QuerySet[ProfileUpload]:
    ended = (ProfileUpload.State.READY, ProfileUpload.State.FAILED)
    return ProfileUpload.objects.filter(state__in=ended, created_at__lt=before)


@transaction.atomic
def _remove_opened(keys: Sequence[int], before: datetime.datetime, days: int) -> int:
    rows = ProfileUpload.objects.filter(pk__in=keys)
    for row in rows:
        delete_import(row)
    return len(rows)


def _keys(before: datetime.datetime) -> QuerySet[IdempotencyKey]:
    return IdempotencyKey.objects.filter(created_at__lt=before)


def _tokens(before: datetime.datetime) -> QuerySet[OutstandingToken]:
    return OutstandingToken.objects.filter(expires_at__lt=before)


def _shares(before: datetime.datetime) -> QuerySet[Share]:
    return Share.objects.filter(Q(expires_at__lt=before) | Q(revoked_at__lt=before))


def _sessions(before: datetime.datetime) -> QuerySet[Session]:
    return Session.objects.filter(expire_date__lt=before)


@transaction.atomic
def _remove_sessions(keys: Sequence[str], before: datetime.datetime, days: int) -> int:
    UserSession.objects.filter(session_key__in=keys).delete()
    return Session.objects.filter(pk__in=keys).delete()[0]


def _make_deleter(model: Any) -> Remove:
    @transaction.atomic
    def remove(keys: Sequence[Any], before: datetime.datetime, days: int) -> int:
        model.objects.filter(pk__in=keys).delete()
        return len(keys)

    return remove


def _make_sum(field: str) -> Callable[[QuerySet[Any]], int]:
    return lambda rows: rows.aggregate(total=Sum(field))["total"] or 0


def _size_of_tasks(rows: QuerySet[Any]) -> int:
    files = TaskFile.objects.filter(task__in=rows, purged_at=None)
    artifacts = Artifact.objects.filter(attempt__task__in=rows, is_stored=True)
    logs = LogChunk.objects.filter(attempt__task__in=rows)
    return _size(files) + _size(artifacts) + _make_sum("size")(logs)


def _size_of_artifacts(rows: QuerySet[Any]) -> int:
    return _size(Artifact.objects.filter(attempt__in=rows, is_stored=True))


_size = _make_sum("size_bytes")
POLICIES = {
    policy.name: policy
    for policy in (
        # applied by the sweep (`RETENTION`)
        _artifacts_policy("dumps", "values and models that runs wrote", _artifacts(DUMPS)),
        _artifacts_policy("caches", "choices of algorithms that runs wrote", _artifacts(CACHES)),
        _artifacts_policy(
            "failed",
            "profiles, traces and memory plans of attempts that became no result",
            _raw_without_result,
        ),
        RetentionPolicy(
            "files",
            "models, data and option files that users gave",
            _files,
            _make_remover(_files, "purged_at"),
            _size,
            "task__owner__email",
        ),
        RetentionPolicy(
            "logs",
            "logs as tasks' pages show them; log.txt stays",
            _logs,
            _remove_logs,
            _make_sum("log__size"),
            "task__owner__email",
        ),
        # applied only by `manage.py purge`
        RetentionPolicy(
            "profiles",
            "all that attempts left: files, profiles, measurements",
            _profiles,
            _remove_profiles,
            _size_of_artifacts,
            "task__owner__email",
        ),
        RetentionPolicy(
            "health",
            "health checks' tasks, whole",
            _health,
            _remove_tasks,
            _size_of_tasks,
            "owner__email",
        ),
        RetentionPolicy("checks", "results of health checks", _checks, _make_deleter(HealthCheck)),
        RetentionPolicy(
            "shares",
            "share links that expired or were revoked",
            _shares,
            _make_deleter(Share),
            owner="creator__email",
        ),
        RetentionPolicy("keys", "idempotency keys", _keys, _make_deleter(IdempotencyKey)),
        RetentionPolicy("sessions", "sessions that expired", _sessions, _remove_sessions),
        RetentionPolicy(
            "tokens", "refresh tokens that expired", _tokens, _make_deleter(OutstandingToken)
        ),
        RetentionPolicy(
            "tasks", "tasks, whole", _tasks, _remove_tasks, _size_of_tasks, "owner__email"
        ),
        RetentionPolicy(
            "opened",
            "profiles that users opened",
            _expired_imports,
            _remove_opened,
            _size,
            "owner__email",
        ),
    )
}
#: policies that `purge` applies only if they are named; `profiles` includes the files of the first
#: three
NAMED_ONLY = ("dumps", "caches", "failed", "tasks", "opened")
