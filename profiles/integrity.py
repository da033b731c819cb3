"""Check the invariants of tasks, attempts, results and files (`manage.py verify`).

docs/architecture/integrity.md lists the invariants. The check only reads the database and storage,
and may run while the site is in use: a state that is allowed temporarily counts as a violation only
after it has lasted for some time.
"""

import datetime
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet
from django.utils import timezone

from agent.protocol.messages import EndReason
from profiles.models import (
    OpenedFile,
    PairedResult,
    PartedUpload,
    Profile,
    ProfileUpload,
    RemovedObjects,
)
from tasks.models import Artifact, Attempt, Task, TaskFile, UploadedFile
from tasks.states import HELD_BY_WORKER, LIVE, Outcome, TaskState
from webprofile.errors import DomainError
from webprofile.integers import LARGEST_KEY, parse_int
from webprofile.storage import Listed, storage

#: how long after its deadline a row may wait for the sweep
PATIENCE = datetime.timedelta(minutes=5)
#: maximum age of an object without a row; longer than any upload may take
GRACE = datetime.timedelta(hours=24)

_WAITS_WITHOUT = (TaskState.INITIATED, TaskState.WAITING, TaskState.PROCESSING)


@dataclass(frozen=True)
class Violation:
    """A violated invariant.

    promise: its name in `docs/architecture/integrity.md`
    what: a description in English
    """

    promise: str
    what: str


def broken_rows(*, patience: datetime.timedelta = PATIENCE) -> Iterator[Violation]:
    """Violations that the database alone shows."""
    yield from _endless(timezone.now() - patience)
    yield from _attempts(timezone.now() - patience)
    yield from _results()


def broken_objects(
    *,
    grace: datetime.timedelta = GRACE,
    advance: Callable[[int], object] = lambda objects: None,
) -> Iterator[Violation]:
    """Violations between storage and the database; lists all objects but reads none.

    advance: called with the number of objects after each page
    Raises DomainError storage_unreachable.
    """
    seen = _Seen(set)
    before = timezone.now() - grace
    for page in storage.pages():
        yield from _page(page, seen, before)
        advance(len(page))
    yield from _missing_objects(seen)
    yield from _unfinished_uploads(before)


def _endless(since: datetime.datetime) -> Iterator[Violation]:
    """Tasks whose deadline passed before `since`, and tasks whose state and outcome disagree."""
    for state, deadline in (
        (TaskState.INITIATED, "upload_deadline_at"),
        (TaskState.WAITING, "queue_deadline_at"),
        (TaskState.PROCESSING, "processing_deadline_at"),
    ):
        unset = Q((deadline, None), updated_at__lt=since)
        if state == TaskState.PROCESSING:  # its deadline is set when an actor begins to read it
            unset &= Q(hinted_at__lt=since)
        late = Q((f"{deadline}__lt", since)) | unset
        for task in Task.objects.filter(late, state=state):
            when = getattr(task, deadline)
            yield Violation("ends", f"task {task.pk} is {state.value}, its deadline was {when}")
    odd = Q(state=TaskState.FINISHED, outcome="") | (Q(state__in=LIVE) & ~Q(outcome=""))
    for task in Task.objects.filter(odd):
        yield Violation("ends", f"task {task.pk} is {task.state} with outcome {task.outcome!r}")


def _attempts(since: datetime.datetime) -> Iterator[Violation]:
    live = Attempt.objects.filter(task=OuterRef("pk"), ended_at=None)
    for task in Task.objects.filter(~Exists(live), state__in=HELD_BY_WORKER):
        yield Violation("one_attempt", f"task {task.pk} is {task.state} without a live attempt")
    for task in Task.objects.filter(Exists(live), state__in=_WAITS_WITHOUT):
        yield Violation("one_attempt", f"task {task.pk} is {task.state} with a live attempt")
    living = Attempt.objects.filter(ended_at=None)
    several = living.values("task").annotate(count=Count("pk")).filter(count__gt=1)
    for row in several.order_by("task"):
        yield Violation("one_attempt", f"task {row['task']} has {row['count']} live attempts")
    for attempt in living.filter(lease_expires_at__lt=since):
        text = f"attempt {attempt.pk} lives, its lease ended at {attempt.lease_expires_at}"
        yield Violation("one_attempt", text)


def _results() -> Iterator[Violation]:
    yield from _results_in(Profile.objects.all(), "profile", "profile")
    yield from _results_in(PairedResult.objects.all(), "paired", "paired result")


def _results_in(rows: QuerySet[Any], field: str, name: str) -> Iterator[Violation]:
    """Results of attempts that do not count. field: the field of an attempt with its result."""
    of_attempts = rows.filter(attempt__isnull=False)
    good = Q(attempt__end_reason=EndReason.EXITED.value, attempt__exit_code=0)
    for row in of_attempts.exclude(good).select_related("attempt"):
        text = f"a {name} belongs to attempt {row.attempt_id} of task {row.attempt.task_id}"
        yield Violation("result", f"{text}, which ended as {row.attempt.end_reason!r}")
    tasks = of_attempts.values("attempt__task")
    double = tasks.annotate(count=Count("pk")).filter(count__gt=1)
    for found in double.order_by("attempt__task"):
        text = f"task {found['attempt__task']} has {found['count']} {name}s"
        yield Violation("result", text)
    ended = Task.objects.filter(state=TaskState.FINISHED, outcome=Outcome.SUCCEEDED)
    earlier = {f"attempts__{field}__isnull": False, "attempts__number__lt": F("last")}
    numbers = ended.annotate(last=Max("attempts__number")).filter(**earlier)
    for task in numbers.distinct():
        yield Violation("result", f"the {name} of task {task.pk} is not of its last attempt")


#: primary keys of the rows whose object was listed, by model
_Seen = defaultdict[type, set[int]]


def _page(page: list[Listed], seen: _Seen, before: datetime.datetime) -> Iterator[Violation]:
    """Objects that differ from their row, and objects without a row."""
    rows = _rows_of(page)
    left = []
    for entry in page:
        row = rows.get(entry.key)
        # a confirmation that did not complete may have left a copy; the sweep removes it
        if row is None and isinstance(rows.get(entry.key.rpartition("-")[0]), UploadedFile):
            continue
        if row is None:
            left.append(entry)
            continue
        if isinstance(row, Profile) and entry.key == row.spans_key:
            continue  # the span index can be rebuilt, and only traces have one
        if isinstance(row, UploadedFile) and entry.key != row.object_key:
            continue  # uploaded after the confirmation; the sweep removes it
        seen[type(row)].add(row.pk)
        if isinstance(row, Profile) or not _is_stored(row):
            continue
        md5 = entry.md5 or _head_md5(entry)
        if entry.size_bytes != row.size_bytes or not _is_same(entry.key, md5, row):
            expected = f"{row.size_bytes} bytes, MD5 {_stored_md5(row)}"
            text = f"{entry.key} is {entry.size_bytes} bytes, MD5 {md5}; its row says {expected}"
            yield Violation("artifact", text)
    old = [entry for entry in left if entry.modified_at < before]
    prefixes = {name for entry in old for name in (entry.key, _prefix(entry.key))}
    removed = RemovedObjects.objects.filter(prefix__in=prefixes)
    scheduled = set(removed.values_list("prefix", flat=True))
    for entry in old:
        if not {entry.key, _prefix(entry.key)} & scheduled:
            yield Violation("orphan", f"{entry.key} has no row ({entry.size_bytes} bytes)")


def _is_same(key: str, md5: str, row: "TaskFile | Artifact | OpenedFile") -> bool:
    """Whether the object with this checksum has the content that was uploaded.

    In a copied or restored bucket, a multipart object may have become a single-part object; its
    multipart checksum is then computed again. A single-part object that now has a multipart ETag is
    accepted by its size.
    """
    if md5 == _stored_md5(row):
        return True
    if isinstance(row, Artifact) or not row.part_bytes:
        return "-" in md5
    try:
        return storage.checksum_of(key, row.part_bytes) == row.md5
    except DomainError as error:
        if error.code != "object_missing":
            raise
        return True  # deleted since it was listed, which is no violation


def _stored_md5(row: "TaskFile | Artifact | OpenedFile") -> str:
    return row.md5 if isinstance(row, Artifact) else row.stored_md5


def _unfinished_uploads(before: datetime.datetime) -> Iterator[Violation]:
    """Multipart uploads without a row, whose parts occupy storage unnoticed."""
    known = set(PartedUpload.objects.values_list("object_key", "upload_id"))
    for upload in storage.unfinished():
        if upload.began_at < before and (upload.key, upload.upload_id) not in known:
            yield Violation("orphan", f"{upload.key} has an upload in parts without a row")


def _head_md5(listed: Listed) -> str:
    """The MD5 of an object if listings lack it; "-" if the object was deleted meanwhile."""
    head = storage.head(listed.key)
    return head[1] if head is not None else "-"


_Row = TaskFile | Artifact | OpenedFile | Profile


def _rows_of(page: Iterable[Listed]) -> dict[str, _Row]:
    """The rows that these objects may belong to, by object key."""
    ids: dict[str, set[str]] = {"tasks": set(), "attempts": set(), "opened": set()}
    for entry in page:
        kind, _, rest = entry.key.partition("/")
        ids.get(kind, set()).add(rest.partition("/")[0])
    tasks, uploads = _numbers(ids["tasks"]), _numbers(ids["opened"])
    attempts = [UUID(text) for text in ids["attempts"] if _is_uuid(text)]
    rows: dict[str, _Row] = {}
    for profile in Profile.objects.filter(Q(attempt__in=attempts) | Q(upload__in=uploads)):
        rows[profile.derived_key] = rows[profile.spans_key] = profile
    for file in TaskFile.objects.filter(task__in=tasks, purged_at=None):
        if file.upload_removal_at is not None:
            rows[file.upload_key] = file
        rows[file.object_key] = file
    for artifact in Artifact.objects.filter(attempt__in=attempts, removed_at=None):
        rows[artifact.object_key] = artifact
    for opened in OpenedFile.objects.filter(upload__in=uploads).select_related("upload"):
        if opened.upload_removal_at is not None:
            rows[opened.upload_key] = opened
        rows[opened.object_key] = opened
    return rows


def _missing_objects(seen: _Seen) -> Iterator[Violation]:
    """Rows whose object was not listed and does not exist now either."""
    stored: tuple[QuerySet, ...] = (
        TaskFile.objects.filter(stored_at__isnull=False, purged_at=None),
        Artifact.objects.filter(is_stored=True),
        OpenedFile.objects.filter(upload__state=ProfileUpload.State.READY),
        Profile.objects.filter(problem=""),
    )
    for rows in stored:
        for row in rows.order_by("pk").iterator(chunk_size=2000):
            if row.pk in seen[rows.model]:
                continue
            key = row.derived_key if isinstance(row, Profile) else row.object_key
            # the object may have been written since the listing, or removed together with its row
            if storage.head(key) is None and rows.filter(pk=row.pk).exists():
                yield Violation("artifact", f"{key} is not in storage")


def _is_stored(row: TaskFile | Artifact | OpenedFile) -> bool:
    """Whether the site has confirmed the complete file; before that, any content is allowed."""
    if isinstance(row, TaskFile):
        return row.stored_at is not None
    if isinstance(row, Artifact):
        return row.is_stored
    return row.upload.state == ProfileUpload.State.READY


def _prefix(key: str) -> str:
    return "/".join(key.split("/")[:2]) + "/"


def _numbers(texts: Iterable[str]) -> list[int]:
    numbers = (parse_int(text, maximum=LARGEST_KEY) for text in texts)
    return [number for number in numbers if number is not None]


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
