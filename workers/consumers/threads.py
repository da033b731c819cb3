"""The threads in which frames of agents are worked on."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import connection

P = ParamSpec("P")
R = TypeVar("R")


def in_thread(act: Callable[P, R]) -> "database_sync_to_async[P, R]":
    """Several frames at a time, each of another agent: one that waits for a lock or the disk holds
    no other up. On SQLite one after the other: it has one writer.
    """
    if connection.vendor == "sqlite" or not settings.AGENT_THREADS:
        return database_sync_to_async(act)
    return database_sync_to_async(act, thread_sensitive=False, executor=_threads())


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings.AGENT_THREADS, thread_name_prefix="frames")
