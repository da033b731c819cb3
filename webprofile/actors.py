"""Dramatiq actors of the project itself."""

import dramatiq
from django.core.cache import cache

#: prefix of the cache keys of answers
ANSWERS = "doctor-answer:"
_KEPT_S = 60


@dramatiq.actor(queue_name="profiles", max_retries=0, max_age=60_000, time_limit=5_000)
def answer_doctor(mark: str) -> None:
    """Answer `manage.py doctor` through the cache, to show that workers process a queue.

    The doctor sends it to every queue. Messages expire after 60 s.
    """
    cache.set(ANSWERS + mark, True, _KEPT_S)
