"""Which tasks a reader may see, and what a page needs of them."""

from django.db.models import QuerySet

from accounts.models import User
from tasks.models import Attempt, LogChunk, Purpose, Task, TaskEvent, TaskFile


def tasks_visible_to(user: User) -> QuerySet[Task]:
    """A user's own tasks; an administrator sees all."""
    tasks = Task.objects.select_related("worker", "owner").prefetch_related("files")
    return tasks if user.is_staff else tasks.filter(owner=user)


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


def known_sha256(file: TaskFile) -> str | None:
    """What a device found for this file, or for one of the same content of the same owner.

    The same content is told by MD5 and size, and only among one owner's files: he alone could forge
    a collision, against himself.
    """
    if file.sha256:
        return file.sha256
    same = TaskFile.objects.filter(
        task__owner_id=file.task.owner_id, md5=file.md5, size_bytes=file.size_bytes
    ).exclude(sha256="")
    return same.order_by("-pk").values_list("sha256", flat=True).first()
