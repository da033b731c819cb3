"""Reports of attempts and requests for orders, worked on together."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import structlog
from django.conf import settings
from structlog.contextvars import clear_contextvars

from tasks.reports import Report
from webprofile.meters import AGENT_FRAMES
from workers import gateway
from workers.consumers.connection import Connection
from workers.consumers.threads import in_thread
from workers.tokens import digest, tokens_valid

log = structlog.get_logger()

#: so many that a round takes some 100 ms at most
REPORTS_TOGETHER = 100
#: of what comes while a round is done, which is so only under load; more of it then comes together
GATHER_S = 0.015
#: RFC 6455, 7.4.1: the server met an unexpected condition
INTERNAL_ERROR = 1011


class Said(NamedTuple):
    """A report, by whom, and what waits for it."""

    connection: Connection
    report: Report
    done: "asyncio.Future[None]"


class Reports:
    """What connections of this process report, and orders that they were told to look for.

    All that has come is worked on together, and what comes meanwhile and shortly after is the next
    round: so under load a task costs fewer queries, and a single report waits for nobody. One round
    at a time, since what a device says is to be done in the order in which it says it. What cannot
    be done in a round is done apart, and with it all that the same device says until it is through.
    """

    def __init__(self) -> None:
        self._said: list[Said] = []
        self._poked: set[Connection] = set()
        self._apart: dict[Connection, deque[Said]] = {}
        # some thread is always left for rounds: who is apart may wait for a lock for long
        self._places = asyncio.Semaphore(max(1, settings.AGENT_THREADS - 1))
        #: the rounds, answers on their way, and connections that are apart
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_busy = False

    def add(self, connection: Connection, report: Report) -> "asyncio.Future[None]":
        """Returns what is done when the report is, and all that it said before."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._said.append(Said(connection, report, done))
        self._begin()
        return done

    def poke(self, connection: Connection) -> None:
        self._poked.add(connection)
        self._begin()

    def _begin(self) -> None:
        if not self._is_busy:
            self._is_busy = True
            self._start(self._rounds())

    def _start(self, act: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(act)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _rounds(self) -> None:
        # begun by one connection for all of them: its facts are not about what follows
        clear_contextvars()
        while self._said or self._poked:
            next_, self._said = self._said[:REPORTS_TOGETHER], self._said[REPORTS_TOGETHER:]
            poked = set(islice(self._poked, REPORTS_TOGETHER))
            self._poked -= poked
            self._set_apart(each for each in next_ if each.connection in self._apart)
            said = [each for each in next_ if each.connection not in self._apart]
            try:
                await self._round(said, [each for each in poked if not each.is_closed])
            except Exception:
                # each agent says again what is not acknowledged; the sweep gives out what waits
                log.exception("reports_failed", reports=len(said))
                for connection in {each.connection for each in said}:
                    self._start(_broken(connection))
                _are_done(said)
            if self._said or self._poked:
                await asyncio.sleep(GATHER_S)
        self._is_busy = False

    async def _round(self, said: Sequence[Said], poked: Collection[Connection]) -> None:
        """Do what was reported, and read the orders; who is slow to listen holds nobody up."""
        digests = {each.connection: digest(each.connection.token) for each in said}
        taken = await in_thread(_take)(digests, said, poked)
        for connection in taken.refused:
            self._start(_refused(connection))
        self._set_apart(taken.apart)
        left = {id(each) for each in taken.apart}
        _are_done(each for each in said if id(each) not in left)
        for connection, replies in taken.replies.items():
            self._start(_told(connection, replies))

    def _set_apart(self, said: Iterable[Said]) -> None:
        for each in said:
            queue = self._apart.get(each.connection)
            if queue is None:
                queue = self._apart[each.connection] = deque()
                self._start(self._do_apart(each.connection, queue))
            queue.append(each)

    async def _do_apart(self, connection: Connection, queue: deque[Said]) -> None:
        """What one device says, one after the other: somebody may have locked its rows for long."""
        while queue:
            said = queue.popleft()
            repeated = [each for each in queue if each.report == said.report]
            try:
                async with self._places:
                    await self._do(said)
            finally:
                _are_done([said, *repeated])
                for each in repeated:
                    queue.remove(each)
        # nothing was added since: no step of another task lies between
        del self._apart[connection]

    async def _do(self, said: Said) -> None:
        worker, report = said.connection.worker, said.report
        assert worker is not None
        try:
            replies = await in_thread(gateway.on_report)(worker, report)
        except Exception:
            about = {"worker": worker.name, "attempt": str(report.attempt), "kind": report.type}
            log.exception("agent_message_failed", **about)
            AGENT_FRAMES.labels(report.type, "failed").inc()
            await _broken(said.connection)
        else:
            AGENT_FRAMES.labels(report.type, "done").inc()
            self._start(_told(said.connection, replies))


_reports: "WeakKeyDictionary[asyncio.AbstractEventLoop, Reports]" = WeakKeyDictionary()


def reports() -> Reports:
    """Those of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _reports:
        _reports[loop] = Reports()
    return _reports[loop]


class Taken(NamedTuple):
    """What became of a round: whose token is void, who is answered what, what is left to do."""

    refused: set[Connection]
    replies: dict[Connection, gateway.Replies]
    apart: list[Said]


def _take(
    digests: Mapping[Connection, str], said: Iterable[Said], poked: Iterable[Connection]
) -> Taken:
    """What a round asks of the database: in one go, on one thread."""
    valid = tokens_valid(digests.values()) if digests else set()
    replies, apart = defaultdict[Connection, gateway.Replies](list), list[Said]()
    allowed = [each for each in said if digests[each.connection] in valid]
    given = [(each.connection.worker, each.report) for each in allowed if each.connection.worker]
    for each, answer in zip(allowed, gateway.on_reports(given), strict=True):
        if answer is None:
            apart.append(each)
        else:
            AGENT_FRAMES.labels(each.report.type, "done").inc()
            replies[each.connection] += answer
    waking = [(each, each.worker.pk) for each in poked if each.worker]
    orders = gateway.orders_of({worker for _, worker in waking})
    for woken, worker in waking:
        replies[woken] += orders[worker]
    return Taken({each for each, key in digests.items() if key not in valid}, replies, apart)


def _are_done(said: Iterable[Said]) -> None:
    for each in said:
        if not each.done.done():
            each.done.set_result(None)


async def _refused(connection: Connection) -> None:
    """Of one whose token is void."""
    with _closed_meanwhile():
        await connection.authenticate()


async def _broken(connection: Connection) -> None:
    """What it said is not done, and may not be said again: over a new connection all of it is."""
    with _closed_meanwhile():
        await connection.close(INTERNAL_ERROR)


async def _told(connection: Connection, replies: gateway.Replies) -> None:
    with _closed_meanwhile():
        await connection.send_all(replies)


@contextmanager
def _closed_meanwhile() -> Iterator[None]:
    """Nobody waits for what is said to one connection, and nothing of it may hold up others."""
    try:
        yield
    except Exception as error:
        log.warning("agent_not_answered", error=repr(error))
