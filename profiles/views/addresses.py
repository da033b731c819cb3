"""Where the page of a profile is, and what lies below it."""

from django.urls import reverse

from profiles.models import Profile
from profiles.tables.page import Places


def page_of(profile: Profile) -> str:
    """The address of a profile's result page: its task's, or its own if it was opened."""
    if profile.attempt is not None:
        return reverse("tasks:result", args=[profile.attempt.task_id])
    return reverse("profiles:detail", args=[profile.pk])


def places_of(profile: Profile) -> Places:
    """Where the tables of a profile lead."""
    names = (
        "profiles:operators", "api:profile-operators-order", "api:profile-picture-operators",
    )  # fmt: skip
    found = [reverse(name, args=[profile.pk]) for name in names]
    return Places(page_of(profile), *found)
