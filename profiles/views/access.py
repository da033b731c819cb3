"""What a request may see: others' tasks and profiles do not exist for a stranger (404)."""

from django.http import Http404, HttpRequest

from accounts.selectors import reader_of
from profiles.models import Profile, ProfileUpload
from profiles.selectors import visible_imports, visible_profiles
from tasks.models import Task
from tasks.selectors import visible_tasks


def task_or_404(request: HttpRequest, task_id: int) -> Task:
    """The reader's task of this number. Raises Http404."""
    task = visible_tasks(reader_of(request)).filter(pk=task_id).first()
    if task is None:
        raise Http404
    return task


def profile_or_404(request: HttpRequest, profile_id: int) -> Profile:
    """The profile of this number, if the reader may see its task or opened it. Raises Http404."""
    profile = visible_profiles(reader_of(request)).filter(pk=profile_id).first()
    if profile is None:
        raise Http404
    return profile


def upload_or_404(request: HttpRequest, upload_id: int) -> ProfileUpload:
    """The opened profile of this number, if the reader opened it. Raises Http404."""
    upload = visible_imports(reader_of(request)).filter(pk=upload_id).first()
    if upload is None:
        raise Http404
    return upload
