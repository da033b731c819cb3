"""URLs of the pages of a profile."""

from django.urls import reverse

from profiles.models import Profile
from profiles.tables.page import Places


def page_of(profile: Profile) -> str:
    """Return the URL of a profile's result page: that of its task, or its own for an import."""
    if profile.attempt is not None:
        return reverse("tasks:result", args=[profile.attempt.task_id])
    return reverse("profiles:detail", args=[profile.pk])


def places_of(profile: Profile) -> Places:
    """Return the URLs that the tables of a profile link to."""
    names = (
        "profiles:operators", "api:profile-operators-order", "api:profile-picture-operators",
    )  # fmt: skip
    links = [reverse(name, args=[profile.pk]) for name in names]
    return Places(page_of(profile), *links)
