"""What the pages of profiles share: look-ups for a request and URLs.

Objects that the user may not see give 404.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_safe

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


@dataclass(frozen=True)
class ResultLinks:
    """Addresses that the page of a result uses: those of its owner, or those below a link.

    page: the page itself, followed by the names of views
    parts: pages and fragments of the profile, with the routes below `/profiles/N/`
    data: JSON of the profile, with the routes below `/api/v1/profiles/N/`
    model: the uploaded model in the viewer; empty if the page does not show it
    login: where a page leads when its session has ended; empty for a page without a session
    """

    page: str
    parts: str = ""
    data: str = ""
    model: str = ""
    login: str = ""

    def tables(self, profile: Profile) -> TableLinks:
        return TableLinks(self.operators(profile), f"{self.parts}operators/")

    def operators(self, profile: Profile) -> str:
        """Return the address of the view with the operators, which is not the first view of a
        paired comparison.
        """
        is_paired = profile.task is not None and profile.task.is_paired
        return f"{self.page}operators/" if is_paired else self.page


def profile_links(profile: Profile) -> ResultLinks:
    """Return the addresses of a profile for its owner."""
    task = profile.task
    return ResultLinks(
        page=profile.page_url,
        parts=reverse("profiles:detail", args=[profile.pk]),
        data=reverse("api:profile", args=[profile.pk]),
        model=reverse("tasks:model", args=[task.pk]) if task and not task.is_script else "",
        login=reverse("account_login"),
    )


def for_owner(page: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Return the view of a page or fragment of a profile for the users who may see the profile.

    page: gets the request, the profile, its `ResultLinks`, and the other arguments of the route; a
        share link shows it, too (`views.shares`)
    """

    @login_required
    @require_safe
    @wraps(page)
    def view(request: HttpRequest, profile_id: int, **kwargs: Any) -> HttpResponse:
        profile = profile_or_404(request, profile_id)
        return page(request, profile, profile_links(profile), **kwargs)

    return view
