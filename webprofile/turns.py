"""Turns of users: how many requests of one user a server process handles at the same time.

The threads of a process run Python one after the other. Without turns, a user who sends many
requests that compute for long, such as comparisons of large profiles, would leave everybody else
the share of one thread among many, and all pages would take seconds.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.db import connection

from webprofile.errors import DomainError

#: requests of a user that are handled at the same time in each server process
AT_ONCE = 2
#: further requests of a user that wait for a turn, each in a thread, and how long they wait, s
MOST_WAITING, PATIENCE_S = 50, 30.0
#: response to a user with too many requests: when to try again, s
TRY_AGAIN_S = 5


class Turns:
    """The turns of all users in this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: dict[int, int] = {}
        self._waiting: dict[int, int] = {}

    def take(self, user: int) -> None:
        """Wait for a turn. Raises DomainError throttled (429) if the user has too many requests."""
        with self._changed:
            if self._running.get(user, 0) >= AT_ONCE:
                self._wait(user)
            _add(self._running, user, 1)

    def _wait(self, user: int) -> None:
        if self._waiting.get(user, 0) >= MOST_WAITING:
            raise _refusal()
        _add(self._waiting, user, 1)
        # requests that wait would hold the connections of the pool, and others could not get one
        if not connection.in_atomic_block:
            connection.close()
        try:
            if not self._changed.wait_for(lambda: self._running.get(user, 0) < AT_ONCE, PATIENCE_S):
                raise _refusal()
        finally:
            _add(self._waiting, user, -1)

    def give_back(self, user: int) -> None:
        with self._changed:
            _add(self._running, user, -1)
            self._changed.notify_all()


turns = Turns()


class Turn:
    """The turn of one request, which begins when its user is known."""

    user: int | None = None

    def begin(self, user: int) -> None:
        """Wait for a turn of the user, unless the request has one. Raises as `Turns.take`."""
        if self.user is None:
            turns.take(user)
            self.user = user

    def end(self) -> None:
        if self.user is not None:
            turns.give_back(self.user)
            self.user = None


_turn: ContextVar[Turn | None] = ContextVar("turn", default=None)


@contextmanager
def request_turn() -> Iterator[Turn]:
    """Return the turn of the current request, and end it with the context."""
    turn = Turn()
    token = _turn.set(turn)
    try:
        yield turn
    finally:
        turn.end()
        _turn.reset(token)


def begin_turn(user: int) -> None:
    """Begin the turn of the current request, whose user is known now. Raises as `Turns.take`."""
    if turn := _turn.get():
        turn.begin(user)


def end_turn() -> None:
    """End the turn of the current request: from here on it waits for another process."""
    if turn := _turn.get():
        turn.end()


def _add(counts: dict[int, int], user: int, change: int) -> None:
    counts[user] = counts.get(user, 0) + change
    if not counts[user]:
        del counts[user]


def _refusal() -> DomainError:
    return DomainError("throttled", status=429, wait_s=TRY_AGAIN_S)
