"""Dramatiq entry points of the project itself."""

import dramatiq
from django.core.cache import cache

#: the cache's name of an answer starts so
ANSWERS = "doctor-answer:"
_KEPT_S = 60


@dramatiq.actor(queue_name="profiles", max_retries=0, max_age=60_000, time_limit=5_000)
def answer_doctor(mark: str) -> None:
    """Tell who asked that actors listen. Nobody waits for an old question.

    Sent to another queue, it asks the processes that listen to that one.
    """
    cache.set(ANSWERS + mark, True, _KEPT_S)
