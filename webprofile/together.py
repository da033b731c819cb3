"""What several threads want at the same moment, done as one piece of work by one of them."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import structlog
from structlog.contextvars import bind_contextvars, clear_contextvars, get_contextvars

Item = TypeVar("Item")
Result = TypeVar("Result")

log = structlog.get_logger()


@dataclass(eq=False)
class _Call(Generic[Item, Result]):
    items: Sequence[Item]
    results: dict[int, Result] = field(default_factory=dict)
    is_over: bool = False
    #: it is over, or its thread's turn to lead a round
    woken: threading.Event = field(default_factory=threading.Event)


class Together(Generic[Item, Result]):
    """Rounds: the thread that comes first works at once, those that come meanwhile wait, and the
    first of them does for all what has gathered. Databases know this as group commit.

    So under load a piece of work costs fewer statements, and one that comes alone waits for nobody.
    Each thread does one round at most: none works for others while its own caller waits. Not for
    threads within a transaction: nobody else sees their rows.

    act: does several, and returns results by their places; what it leaves out, and all of a round
    that raises, goes to `alone`, in the thread that wants it
    most: items of a round; a call with more has one of its own
    patience_s: a round that takes longer is stuck; who waited so long for it goes on alone, and so
    do those who come until it is over. What is done must bear to be done twice
    """

    def __init__(
        self,
        act: Callable[[Sequence[Item]], Mapping[int, Result]],
        alone: Callable[[Item], Result],
        *,
        most: int,
        patience_s: float = 10.0,
    ) -> None:
        self._act, self._alone = act, alone
        self._most, self._patience_s = most, patience_s
        self._lock = threading.Lock()
        self._waiting: deque[_Call[Item, Result]] = deque()
        self._is_busy = self._is_stuck = False

    def do(self, items: Sequence[Item]) -> list[Result]:
        """The result of each, in their order. Raises what `alone` raises."""
        call = _Call[Item, Result](items)
        if self._is_turn_of(call):
            self._round()
        return [
            call.results[place] if place in call.results else self._alone(item)
            for place, item in enumerate(items)
        ]

    def _is_turn_of(self, call: _Call[Item, Result]) -> bool:
        """Whether this thread is to do a round; if not, another one did it, or is stuck."""
        with self._lock:
            if self._is_stuck:
                return False
            self._waiting.append(call)
            leads, self._is_busy = not self._is_busy, True
        if leads:
            return True
        call.woken.wait(self._patience_s)
        with self._lock:
            if call.woken.is_set():
                return not call.is_over
            if call in self._waiting:
                self._waiting.remove(call)
            self._is_stuck = self._is_busy
        log.warning("round_stuck", waited_s=self._patience_s)
        return False

    def _round(self) -> None:
        calls = self._gathered()
        try:
            with _facts_of_nobody() if len(calls) > 1 else nullcontext():
                found = self._act([item for call in calls for item in call.items])
            begin = 0
            for call in calls:
                places = range(begin, begin + len(call.items))
                call.results = {at - begin: found[at] for at in places if at in found}
                begin += len(call.items)
        except Exception as error:
            # whoever is to blame finds it out alone
            log.warning("round_undone", calls=len(calls), error=repr(error))
        finally:
            self._pass_on(calls)

    def _gathered(self) -> list[_Call[Item, Result]]:
        """This thread's own call, and what fits in beside it."""
        with self._lock:
            calls = [self._waiting.popleft()]
            number = len(calls[0].items)
            while self._waiting and number + len(self._waiting[0].items) <= self._most:
                calls.append(self._waiting.popleft())
                number += len(calls[-1].items)
        return calls

    def _pass_on(self, calls: Sequence[_Call[Item, Result]]) -> None:
        with self._lock:
            next_ = self._waiting[0] if self._waiting else None
            self._is_busy, self._is_stuck = next_ is not None, False
            if next_ is not None:
                next_.woken.set()
            for call in calls:
                call.is_over = True
                call.woken.set()


@contextmanager
def _facts_of_nobody() -> Iterator[None]:
    """The log is not to say of other callers' work what is known of this thread's request."""
    own = get_contextvars()
    clear_contextvars()
    try:
        yield
    finally:
        bind_contextvars(**own)
