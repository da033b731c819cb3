"""What a result page needs of a task."""

from profiles.models import Profile
from tasks.models import Task


def profile_of(task: Task) -> Profile | None:
    """The profile of the task's successful attempt."""
    return Profile.objects.filter(attempt__task=task).select_related("attempt").first()
