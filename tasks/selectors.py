"""Which tasks a reader may see, and what a page needs of them."""

from collections.abc import Iterable

from django.db.models import Max, QuerySet
from django.utils.translation import gettext as _

from accounts.models import User
from tasks.models import Attempt, LogChunk, Purpose, Task, TaskEvent, TaskFile

#: the columns that change as a task goes its way
_MOVED = (
    "state", "event_seq", "worker_id", "runtime_version", "outcome", "reason", "detail",
    "submitted_at", "finished_at",
)  # fmt: skip


def tasks_visible_to(user: User) -> QuerySet[Task]:
    """A user's own tasks; an administrator sees all."""
    tasks = Task.objects.select_related("worker", "owner").prefetch_related("files")
    return tasks if user.is_staff else tasks.filter(owner=user)


def place_read_again(task: Task) -> None:
    """Read of a task at hand only what moves it, and moves others make. Raises DoesNotExist."""
    found = Task.objects.filter(pk=task.pk).values(*_MOVED).get()
    for name, value in found.items():
        setattr(task, name, value)


def tasks_listed_for(user: User) -> QuerySet[Task]:
    """As `tasks_visible_to`, without health checks, which are the site's own."""
    return tasks_visible_to(user).filter(purpose=Purpose.USER)


def events_after(task: Task, seq: int) -> QuerySet[TaskEvent]:
    return task.events.filter(seq__gt=seq).order_by("seq")


def log_after(task: Task, chunk_id: int) -> QuerySet[LogChunk]:
    """Pieces of the logs of all attempts, in the order in which they arrived."""
    return (
        LogChunk.objects.filter(attempt__task=task, pk__gt=chunk_id)
        .select_related("attempt")
        .order_by("pk")
    )


def last_attempt(task: Task) -> Attempt | None:
    return task.attempts.order_by("-number").first()


def progress_words(task: Task, attempt: Attempt | None) -> str:
    """How far a running attempt is, in the reader's words; empty if it has a single pass, or if
    its agent does not count them.
    """
    if attempt is None or attempt.passes < 2:
        return ""
    if attempt.passes_done >= attempt.passes:
        return _("All passes have ended; what they left is being sent.")
    words = (
        _("Run %(number)s of %(count)s") if task.is_script else _("Pass %(number)s of %(count)s")
    )
    return words % {"number": attempt.passes_done + 1, "count": attempt.passes}


def known_sums(files: Iterable[TaskFile]) -> dict[int, str]:
    """The SHA-256 of files by their ids: what a device found for each, or for one of the same
    content of the same owner; without those of which no device has told. One query for all.

    The same content is told by MD5 and size, and only among one owner's files: he alone could forge
    a collision, against himself.
    """
    rows = {file.pk: file for file in files}
    known = {pk: file.sha256 for pk, file in rows.items() if file.sha256}
    unknown = {pk: _content(file) for pk, file in rows.items() if pk not in known}
    if not unknown:
        return known
    owners, md5s, sizes = zip(*unknown.values(), strict=True)
    same = TaskFile.objects.filter(
        task__owner_id__in=set(owners), md5__in=set(md5s), size_bytes__in=set(sizes)
    ).exclude(sha256="")
    columns = ("task__owner_id", "md5", "size_bytes", "sha256")
    latest = same.order_by().values_list(*columns).annotate(latest=Max("pk")).order_by("latest")
    found = {tuple(content): sha256 for *content, sha256, _ in latest}
    return known | {pk: found[each] for pk, each in unknown.items() if each in found}


def _content(file: TaskFile) -> tuple[int, str, int]:
    return file.task.owner_id, file.md5, file.size_bytes
