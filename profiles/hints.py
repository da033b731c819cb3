"""What happens right after a commit so that nobody waits for the sweep (see `tasks.hints`)."""

from django.core.cache import cache
from django.db import transaction

from webprofile.meters import hint_given

#: a profile is not asked for again so soon
REBUILD_PAUSE_S = 60


def build_opened_on_commit(upload_id: int) -> None:
    """Queue the reading of an opened profile."""
    transaction.on_commit(lambda: build_opened_soon(upload_id), robust=True)


def build_opened_soon(upload_id: int) -> None:
    """The same here and now; what the broker raises passes through.

    The actor builds on the service that asks.
    """
    from profiles.actors import build_opened

    with hint_given("build_opened"):
        build_opened.send(upload_id)


def rebuild_profile_soon(profile_id: int) -> None:
    """Have derived data made anew; every reader asks, once a minute is enough."""
    from profiles.actors import rebuild_profile

    if cache.add(f"profile-rebuild:{profile_id}", "asked", timeout=REBUILD_PAUSE_S):
        transaction.on_commit(lambda: rebuild_profile.send(profile_id), robust=True)
