"""Which tasks a reader may see, and what a page needs of them."""

from django.db.models import Case, F, OuterRef, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from accounts.models import User
from tasks.models import Attempt, LogChunk, Purpose, Task, TaskEvent, TaskFile


def visible_tasks(user: User) -> QuerySet[Task]:
    """A user's own tasks; an administrator sees all."""
    tasks = Task.objects.select_related("worker", "owner").prefetch_related("files")
    return tasks if user.is_staff else tasks.filter(owner=user)


def listed_tasks(user: User) -> QuerySet[Task]:
    """As `visible_tasks`, without health checks, which are the site's own."""
    return visible_tasks(user).filter(purpose=Purpose.USER)


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


def files_with_sums() -> QuerySet[TaskFile]:
    """Files, with `known_sha256`: the SHA-256 that a device found for each, or for another one of
    the same content of the same owner; empty where no device has told.

    The same content is told by MD5 and size, and only among one owner's files: he alone could forge
    a collision, against himself.
    """
    same = TaskFile.objects.filter(
        task__owner=OuterRef("task__owner"), md5=OuterRef("md5"), size_bytes=OuterRef("size_bytes")
    ).exclude(sha256="")
    latest = Subquery(same.order_by("-pk").values("sha256")[:1])
    other = Coalesce(latest, Value(""))
    return TaskFile.objects.annotate(
        known_sha256=Case(When(sha256="", then=other), default=F("sha256"))
    )
