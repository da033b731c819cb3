"""Selectors of tasks: visibility by user, events, logs, attempts and files."""

from django.db.models import Case, F, OuterRef, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce

from accounts.models import User
from tasks.models import Attempt, LogChunk, Purpose, Task, TaskEvent, TaskFile
from workers.models import Worker


def visible_tasks(user: User) -> QuerySet[Task]:
    """Return the tasks that a user may see: their own, or all for an administrator."""
    tasks = Task.objects.select_related("worker", "owner").prefetch_related("files")
    return tasks if user.is_staff else tasks.filter(owner=user)


def listed_tasks(user: User) -> QuerySet[Task]:
    """As `visible_tasks`, without the health checks of devices."""
    return visible_tasks(user).filter(purpose=Purpose.USER)


def recent_tasks(worker: Worker, reader: User) -> list[tuple[Task, bool]]:
    """Return the last 15 tasks of users on a device, each with whether the reader may see it."""
    tasks = Task.objects.filter(worker=worker, purpose=Purpose.USER, submitted_at__isnull=False)
    rows = tasks.select_related("owner").prefetch_related("files").order_by("-id")[:15]
    return [(task, reader.is_staff or task.owner_id == reader.pk) for task in rows]


def events_after(task: Task, seq: int) -> QuerySet[TaskEvent]:
    return task.events.filter(seq__gt=seq).order_by("seq")


def log_after(task: Task, chunk_id: int) -> QuerySet[LogChunk]:
    """Return log chunks of all attempts of a task after `chunk_id`, in order of arrival."""
    return (
        LogChunk.objects.filter(attempt__task=task, pk__gt=chunk_id)
        .select_related("attempt")
        .order_by("pk")
    )


def last_attempt(task: Task) -> Attempt | None:
    return task.attempts.order_by("-number").first()


def files_with_sums() -> QuerySet[TaskFile]:
    """Return files annotated with `known_sha256`: the file's own SHA-256, or that of equal content.

    It is empty if no device has reported a checksum. Equal content is recognized by MD5 and size,
    and only among the files of one owner, since MD5 collisions can be forged: an owner could only
    deceive themselves.
    """
    same = TaskFile.objects.filter(
        task__owner=OuterRef("task__owner"), md5=OuterRef("md5"), size_bytes=OuterRef("size_bytes")
    ).exclude(sha256="")
    latest = Subquery(same.order_by("-pk").values("sha256")[:1])
    other = Coalesce(latest, Value(""))
    return TaskFile.objects.annotate(
        known_sha256=Case(When(sha256="", then=other), default=F("sha256"))
    )
