"""Retention by rule: what leaves storage so many days after its task ended (`RETENTION`).

Profiles, traces, measurements, manifests and their logs are kept for ever where they are a result
or it can be made anew from them. The rest may go, such files of attempts without a result too. A
row stays and says what was there, when it went and by which rule. Objects leave storage some time
later (`profiles.removal`): until then whoever was given an address, or is just reading, copying or
comparing, goes on undisturbed.
"""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Sum
from django.utils import timezone

from agent.protocol.artifacts import (
    LIMITS,
    LOG_NAME,
    MANIFEST_NAME,
    MEASUREMENT_NAME,
    PROFILE_NAMES,
    TRACE_NAMES,
    artifact_of,
)
from profiles.models import Artifact, AttemptMeasurement, Profile
from profiles.removal import objects_remove_soon
from tasks.models import Attempt, LogChunk, Mark, Task, TaskFile
from tasks.states import TaskState
from webprofile.errors import DomainError
from webprofile.meters import SWEEP_MOVED

log = structlog.get_logger()

#: rows of one transaction, and of one kind in one round of the sweep
PIECE = 200
#: after a round that found nothing more nobody looks for so long
PAUSE = datetime.timedelta(hours=1)
MARK = "retention"
CACHES = frozenset({"algo_cache.bin", "tensorrt_cache.bin"})
#: what results are made from
_PLAN_NAME = artifact_of("get_static_mem_info")
_KEPT = {LOG_NAME, MEASUREMENT_NAME, MANIFEST_NAME, *TRACE_NAMES, _PLAN_NAME}
#: values, dumps and models that a run wrote because its options asked for them
DUMPS = frozenset(LIMITS) - CACHES - _KEPT
#: the large ones among them: up to 2 GiB that no page shows, if their attempt became no result
RAW = frozenset({*PROFILE_NAMES, *TRACE_NAMES, _PLAN_NAME})


@dataclass(frozen=True)
class Rule:
    """found: the rows that the rule may remove, those in use left out
    size, owner: the fields of such a row that hold its bytes and its owner's id
    remove: takes the primary keys of a piece, the moment before, and the days; says how many went
    """

    name: str
    help: str
    found: Callable[[datetime.datetime], QuerySet[Any]]
    size: str
    owner: str
    remove: Callable[[Sequence[Any], datetime.datetime, int], int]


@dataclass(frozen=True)
class Share:
    """What a rule would remove of one owner."""

    owner: str
    rows: int
    size_bytes: int


def shares_of(rule: Rule, days: int) -> list[Share]:
    """What the rule would remove now, the most bytes first."""
    email = rule.owner.removesuffix("_id") + "__email"
    rows = rule.found(_before(days)).order_by().values_list(email)
    summed = rows.annotate(Count("pk", distinct=True), size=Sum(rule.size))
    shares = [Share(owner, count, size or 0) for owner, count, size in summed]
    return sorted(shares, key=lambda share: (-share.size_bytes, share.owner))


def piece_remove(rule: Rule, days: int) -> int:
    """Remove a piece of what the rule names; 0 when nothing is left. May be repeated."""
    before = _before(days)
    keys = list(rule.found(before).order_by("pk").values_list("pk", flat=True)[:PIECE])
    removed = rule.remove(keys, before, days) if keys else 0
    if removed:
        SWEEP_MOVED.labels("removed_by_rule").inc(removed)
        log.info("removed_by_rule", rule=rule.name, days=days, rows=removed)
    return removed


def retention_sweep() -> None:
    """One round: a piece of each kind. Looks again in the next one only if something was found."""
    now = timezone.now()
    mark = Mark.objects.filter(pk=MARK).first()
    if not settings.RETENTION or (mark is not None and now < mark.at):
        return
    removed = [piece_remove(RULES[name], days) for name, days in settings.RETENTION.items()]
    if not any(removed):
        Mark.objects.update_or_create(pk=MARK, defaults={"at": now + PAUSE})


def _before(days: int) -> datetime.datetime:
    return timezone.now() - datetime.timedelta(days=days)


def _ended(before: datetime.datetime, prefix: str) -> Q:
    """Tasks that ended long ago, that nobody holds, and that their owner did not ask to keep."""
    return Q(
        **{
            f"{prefix}state": TaskState.FINISHED,
            f"{prefix}finished_at__lt": before,
            f"{prefix}keeps_files": False,
        }
    )


def _being_copied() -> QuerySet[TaskFile, str]:
    """Checksums of files of tasks that are just being made: repeats copy them inside storage."""
    coming = TaskFile.objects.filter(task__state=TaskState.INITIATED, stored_at=None)
    return coming.exclude(md5="").values_list("md5", flat=True)


def _artifacts(names: frozenset[str]) -> Callable[[datetime.datetime], QuerySet[Artifact]]:
    def found(before: datetime.datetime) -> QuerySet[Artifact]:
        ended = _ended(before, "attempt__task__") & Q(attempt__ended_at__isnull=False)
        rows = Artifact.objects.filter(ended, is_stored=True, name__in=names)
        return rows.exclude(md5__in=_being_copied())

    return found


def _raw_without_result(before: datetime.datetime) -> QuerySet[Artifact]:
    of_it = {"attempt": OuterRef("attempt")}
    has_result = Exists(Profile.objects.filter(**of_it))
    return _raw(before).exclude(has_result | Exists(AttemptMeasurement.objects.filter(**of_it)))


def _removing_artifacts(
    found: Callable[[datetime.datetime], QuerySet[Artifact]],
) -> Callable[[Sequence[int], datetime.datetime, int], int]:
    @transaction.atomic
    def remove(keys: Sequence[int], before: datetime.datetime, days: int) -> int:
        now = timezone.now()
        # asked once more in the UPDATE: somebody may have begun to use one since it was found
        found(before).filter(pk__in=keys).update(is_stored=False, removed_at=now, kept_days=days)
        gone = list(Artifact.objects.filter(pk__in=keys, removed_at=now))
        _objects_remove(row.object_key for row in gone)
        return len(gone)

    return remove


def _files(before: datetime.datetime) -> QuerySet[TaskFile]:
    rows = TaskFile.objects.filter(
        _ended(before, "task__"), stored_at__isnull=False, purged_at=None
    )
    return rows.exclude(md5__in=_being_copied())


@transaction.atomic
def _remove_files(keys: Sequence[int], before: datetime.datetime, days: int) -> int:
    now = timezone.now()
    _files(before).filter(pk__in=keys).update(purged_at=now, kept_days=days)
    gone = list(TaskFile.objects.filter(pk__in=keys, purged_at=now))
    _objects_remove(row.object_key for row in gone)
    return len(gone)


def _logs(before: datetime.datetime) -> QuerySet[Attempt]:
    has_log = Exists(LogChunk.objects.filter(attempt=OuterRef("pk")))
    return Attempt.objects.filter(has_log, _ended(before, "task__"), ended_at__isnull=False)


@transaction.atomic
def _remove_logs(keys: Sequence[Any], before: datetime.datetime, days: int) -> int:
    now = timezone.now()
    gone = _logs(before).filter(pk__in=keys)
    gone.update(log_removed_at=now, log_kept_days=days)
    removed = Attempt.objects.filter(pk__in=keys, log_removed_at=now)
    LogChunk.objects.filter(attempt__in=removed).delete()
    return removed.count()


def _objects_remove(keys: Any) -> None:
    # an address for reading that was given a moment ago is good for so long
    objects_remove_soon(keys, after=datetime.timedelta(seconds=settings.PRESIGN_EXPIRY_S))


_dumps, _caches, _raw = _artifacts(DUMPS), _artifacts(CACHES), _artifacts(RAW)
RULES = {
    rule.name: rule
    for rule in (
        Rule(
            "dumps",
            "values and models that runs wrote",
            _dumps,
            "size_bytes",
            "attempt__task__owner_id",
            _removing_artifacts(_dumps),
        ),
        Rule(
            "caches",
            "choices of algorithms that runs wrote",
            _caches,
            "size_bytes",
            "attempt__task__owner_id",
            _removing_artifacts(_caches),
        ),
        Rule(
            "failed",
            "profiles, traces and memory plans of attempts that became no result",
            _raw_without_result,
            "size_bytes",
            "attempt__task__owner_id",
            _removing_artifacts(_raw_without_result),
        ),
        Rule(
            "files",
            "models, data and option files that users gave",
            _files,
            "size_bytes",
            "task__owner_id",
            _remove_files,
        ),
        Rule(
            "logs",
            "logs as tasks' pages show them; log.txt stays",
            _logs,
            "log__size",
            "task__owner_id",
            _remove_logs,
        ),
    )
}


def refuse_removed(row: Artifact | TaskFile | None) -> None:
    """Raises DomainError removed_by_rule for a file that went so; who asks may see its task."""
    if row is None or row.kept_days is None:
        return
    at = row.removed_at if isinstance(row, Artifact) else row.purged_at
    date = "" if at is None else timezone.localtime(at).date().isoformat()
    raise DomainError("removed_by_rule", status=410, name=row.name, date=date, days=row.kept_days)


@transaction.atomic
def task_keep_files(task: Task, *, keep: bool) -> None:
    """Have rules leave a task's files alone, or not any more. Repeating it changes nothing."""
    moved = Task.objects.filter(pk=task.pk).exclude(keeps_files=keep)
    if moved.update(keeps_files=keep, updated_at=F("updated_at")):
        log.info("task_keeps_files", task=task.pk, keep=keep)
    task.refresh_from_db()
