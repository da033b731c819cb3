"""Check the promises about tasks, attempts, results and files (docs/architecture/integrity.md).

Reads the database and storage and changes nothing. The site may work meanwhile: what holds for a
moment only is a violation if it lasts.
"""

import datetime
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet
from django.utils import timezone

from agent.protocol import EndReason
from profiles.models import OpenedFile, PartedUpload, Profile, ProfileUpload, RemovedObjects
from tasks.models import Artifact, Attempt, Task, TaskFile
from tasks.states import HELD_BY_WORKER, LIVE, Outcome, TaskState
from webprofile.errors import DomainError
from webprofile.integers import LARGEST_KEY, parse_int
from webprofile.storage import Listed, storage

#: how long after its deadline a row may wait for the sweep
PATIENCE = datetime.timedelta(minutes=5)
#: how old an object without a row may become: longer than any upload may take
GRACE = datetime.timedelta(hours=24)

_WAITS_WITHOUT = (TaskState.INITIATED, TaskState.WAITING, TaskState.PROCESSING)


@dataclass(frozen=True)
class Broken:
    """One break. `promise`: the name of a promise in docs/architecture/integrity.md."""

    promise: str
    what: str


def broken_rows(*, patience: datetime.timedelta = PATIENCE) -> Iterator[Broken]:
    """What the database alone shows."""
    yield from _endless(timezone.now() - patience)
    yield from _attempts(timezone.now() - patience)
    yield from _results()


def broken_objects(
    *,
    grace: datetime.timedelta = GRACE,
    advance: Callable[[int], object] = lambda objects: None,
) -> Iterator[Broken]:
    """What storage shows beside the database; reads the list of all objects, and no object.

    advance: called with the number of objects after each page
    Raises DomainError storage_unreachable.
    """
    seen = _Seen(set)
    before = timezone.now() - grace
    for page in storage.pages():
        yield from _page(page, seen, before)
        advance(len(page))
    yield from _missing(seen)
    yield from _unfinished(before)


def _endless(since: datetime.datetime) -> Iterator[Broken]:
    """Tasks that should have ended, or gone on, before `since`."""
    for state, deadline in (
        (TaskState.INITIATED, "upload_deadline_at"),
        (TaskState.WAITING, "queue_deadline_at"),
        (TaskState.PROCESSING, "processing_deadline_at"),
    ):
        late = Q((f"{deadline}__lt", since)) | Q((deadline, None), updated_at__lt=since)
        for task in Task.objects.filter(late, state=state):
            when = getattr(task, deadline)
            yield Broken("ends", f"task {task.pk} is {state.value}, its deadline was {when}")
    odd = Q(state=TaskState.FINISHED, outcome="") | (Q(state__in=LIVE) & ~Q(outcome=""))
    for task in Task.objects.filter(odd):
        yield Broken("ends", f"task {task.pk} is {task.state} with outcome {task.outcome!r}")


def _attempts(since: datetime.datetime) -> Iterator[Broken]:
    live = Attempt.objects.filter(task=OuterRef("pk"), ended_at=None)
    for task in Task.objects.filter(~Exists(live), state__in=HELD_BY_WORKER):
        yield Broken("one_attempt", f"task {task.pk} is {task.state} without a live attempt")
    for task in Task.objects.filter(Exists(live), state__in=_WAITS_WITHOUT):
        yield Broken("one_attempt", f"task {task.pk} is {task.state} with a live attempt")
    living = Attempt.objects.filter(ended_at=None)
    several = living.values("task").annotate(count=Count("pk")).filter(count__gt=1)
    for row in several.order_by("task"):
        yield Broken("one_attempt", f"task {row['task']} has {row['count']} live attempts")
    for attempt in living.filter(lease_expires_at__lt=since):
        text = f"attempt {attempt.pk} lives, its lease ended at {attempt.lease_expires_at}"
        yield Broken("one_attempt", text)


def _results() -> Iterator[Broken]:
    of_attempts = Profile.objects.filter(attempt__isnull=False)
    good = Q(attempt__end_reason=EndReason.EXITED.value, attempt__exit_code=0)
    for profile in of_attempts.exclude(good).select_related("attempt"):
        assert profile.attempt is not None
        text = (
            f"a profile belongs to attempt {profile.attempt_id} of task {profile.attempt.task_id}"
        )
        yield Broken("result", f"{text}, which ended as {profile.attempt.end_reason!r}")
    tasks = of_attempts.values("attempt__task")
    double = tasks.annotate(count=Count("pk")).filter(count__gt=1)
    for row in double.order_by("attempt__task"):
        yield Broken("result", f"task {row['attempt__task']} has {row['count']} profiles")
    ended = Task.objects.filter(state=TaskState.FINISHED, outcome=Outcome.SUCCEEDED)
    numbers = ended.annotate(last=Max("attempts__number")).filter(
        attempts__profile__isnull=False, attempts__number__lt=F("last")
    )
    for task in numbers.distinct():
        yield Broken("result", f"the profile of task {task.pk} is not of its last attempt")


#: by model, keys of rows whose object was listed
_Seen = defaultdict[type, set[int]]


def _page(page: list[Listed], seen: _Seen, before: datetime.datetime) -> Iterator[Broken]:
    """Whether each object is what its row says; those without a row."""
    rows = _rows_of(page)
    left = []
    for found in page:
        row = rows.get(found.key)
        if row is None:
            left.append(found)
            continue
        if isinstance(row, Profile) and found.key == row.spans_key:
            continue  # it can be made anew, and other profiles have none
        seen[type(row)].add(row.pk)
        if isinstance(row, Profile) or not _is_stored(row):
            continue
        md5 = found.md5 or _asked_md5(found)
        if found.size_bytes != row.size_bytes or not _is_same(found.key, md5, row):
            told = f"{row.size_bytes} bytes, MD5 {_stored_md5(row)}"
            text = f"{found.key} is {found.size_bytes} bytes, MD5 {md5}; its row says {told}"
            yield Broken("artifact", text)
    old = [found for found in left if found.modified_at < before]
    going = _prefixes_that_go({name for found in old for name in (found.key, _prefix(found.key))})
    for found in old:
        if not {found.key, _prefix(found.key)} & going:
            yield Broken("orphan", f"{found.key} has no row ({found.size_bytes} bytes)")


def _is_same(key: str, md5: str, row: "TaskFile | Artifact | OpenedFile") -> bool:
    """Whether an object that storage tells by this sum is the one that was checked.

    A bucket that was copied or restored may have got in one piece what came in parts: its sum is
    formed once more. What came in one piece and has the ETag of parts now is taken by its size.
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
        return True  # gone since it was listed, which is no matter here


def _stored_md5(row: "TaskFile | Artifact | OpenedFile") -> str:
    return row.md5 if isinstance(row, Artifact) else row.stored_md5


def _unfinished(before: datetime.datetime) -> Iterator[Broken]:
    """Uploads in parts that nobody knows any more: their parts are kept, and paid for, unseen."""
    known = set(PartedUpload.objects.values_list("object_key", "upload_id"))
    for found in storage.unfinished():
        if found.began_at < before and (found.key, found.upload_id) not in known:
            yield Broken("orphan", f"{found.key} has an upload in parts without a row")


def _asked_md5(found: Listed) -> str:
    """The MD5 of an object where lists tell none; that it is gone by now is no matter here."""
    head = storage.head(found.key)
    return head[1] if head is not None else "-"


_Row = TaskFile | Artifact | OpenedFile | Profile


def _rows_of(page: Iterable[Listed]) -> dict[str, _Row]:
    """The rows that these keys may belong to, by key."""
    ids: dict[str, set[str]] = {"tasks": set(), "attempts": set(), "opened": set()}
    for found in page:
        kind, _, rest = found.key.partition("/")
        ids.get(kind, set()).add(rest.partition("/")[0])
    tasks, uploads = _numbers(ids["tasks"]), _numbers(ids["opened"])
    attempts = [UUID(text) for text in ids["attempts"] if _is_uuid(text)]
    rows: dict[str, _Row] = {}
    for profile in Profile.objects.filter(Q(attempt__in=attempts) | Q(upload__in=uploads)):
        rows[profile.derived_key] = rows[profile.spans_key] = profile
    for file in TaskFile.objects.filter(task__in=tasks, purged_at=None):
        rows[file.object_key] = file
    for artifact in Artifact.objects.filter(attempt__in=attempts, removed_at=None):
        rows[artifact.object_key] = artifact
    for opened in OpenedFile.objects.filter(upload__in=uploads).select_related("upload"):
        rows[opened.object_key] = opened
    return rows


def _missing(seen: _Seen) -> Iterator[Broken]:
    """Rows whose object was not listed, and is not there now either."""
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
            # written since the list was read, or removed with its row
            if storage.head(key) is None and rows.filter(pk=row.pk).exists():
                yield Broken("artifact", f"{key} is not in storage")


def _is_stored(row: TaskFile | Artifact | OpenedFile) -> bool:
    """Whether the site said that it has the file whole; before that anything may lie there."""
    if isinstance(row, TaskFile):
        return row.stored_at is not None
    if isinstance(row, Artifact):
        return row.is_stored
    return row.upload.state == ProfileUpload.State.READY


def _prefix(key: str) -> str:
    return "/".join(key.split("/")[:2]) + "/"


def _prefixes_that_go(prefixes: set[str]) -> set[str]:
    going = RemovedObjects.objects.filter(prefix__in=prefixes)
    return set(going.values_list("prefix", flat=True))


def _numbers(texts: Iterable[str]) -> list[int]:
    numbers = (parse_int(text, maximum=LARGEST_KEY) for text in texts)
    return [number for number in numbers if number is not None]


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
