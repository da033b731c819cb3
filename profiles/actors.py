"""Dramatiq entry points: load by id, call one service, return nothing."""

import dramatiq

from profiles.services import profile_build
from tasks.models import Attempt


@dramatiq.actor(
    queue_name="profiles", max_retries=5, min_backoff=1_000, max_backoff=30_000, time_limit=300_000
)
def build_profile(attempt_id: str) -> None:
    """Turn an attempt's artifacts into a profile. Idempotent; retried when storage is away."""
    profile_build(Attempt.objects.select_related("task").get(pk=attempt_id))
