"""What the pages of profiles share: look-ups for a request and URLs.

Objects that the user may not see give 404.
"""

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.urls import reverse

from accounts.selectors import current_user
from profiles.models import Profile, ProfileUpload
from profiles.selectors import visible_imports, visible_profiles
from profiles.tables.page import TableLinks
from tasks.models import Task
from tasks.selectors import visible_tasks


def task_or_404(request: HttpRequest, task_id: int) -> Task:
    """Return the visible task with this number. Raises Http404."""
    return get_object_or_404(visible_tasks(current_user(request)), pk=task_id)


def profile_or_404(request: HttpRequest, profile_id: int) -> Profile:
    """Return the profile with this number, if the user may see its task or imported it.

    Raises Http404.
    """
    return get_object_or_404(visible_profiles(current_user(request)), pk=profile_id)


def upload_or_404(request: HttpRequest, upload_id: int) -> ProfileUpload:
    """Return the import with this number, if it belongs to the user. Raises Http404."""
    return get_object_or_404(visible_imports(current_user(request)), pk=upload_id)


def table_links(profile: Profile) -> TableLinks:
    """Return the URLs that the tables of a profile link to."""
    operators = reverse("profiles:view", args=[profile.pk, "operators"])
    return TableLinks(profile.page_url, operators)
