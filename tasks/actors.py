"""Dramatiq entry points: load by id, call one service, return nothing."""

import dramatiq

from tasks.scheduling import assign_waiting


@dramatiq.actor(queue_name="dispatch", max_retries=0, time_limit=30_000, max_age=60_000)
def dispatch_tasks() -> None:
    """Hand out waiting tasks. Not retried: the sweep asks again within seconds."""
    assign_waiting()
