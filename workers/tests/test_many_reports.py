"""What agents report is worked on together: what it costs, and what keeps nobody else up."""

import asyncio
import itertools
import threading

import pytest
from channels.db import database_sync_to_async
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agent.protocol import (
    AttemptAccepted,
    AttemptFinished,
    AttemptStarted,
    AttemptUploads,
    EndReason,
    FileOffer,
    StoredFile,
    decode_server,
)
from tasks.models import Attempt, LogChunk, Task, TaskEvent
from tasks.tests.make import make_attempt, make_user, make_waiting_task, make_worker
from workers import gateway
from workers.consumers import reports
from workers.consumers.agent import AgentConsumer
from workers.services import worker_revoke
from workers.tests.make import FakeAgent, enrolled, greeted, waiting

one_thread = pytest.mark.django_db
threads = pytest.mark.django_db(transaction=True)
MD5 = "5eb63bbbe01eeed093cb22bb8f5acdc3"
MODEL = StoredFile(name="model.mge", sha256="a" * 64)
PROFILE = FileOffer(name="profile.json", size_bytes=11, md5=MD5)


def attempts(number: int) -> list[Attempt]:
    """Live ones, each on a device of its own and of a user of his own."""
    users = (make_user(f"user-{next(_numbers)}") for _ in range(number))
    return [make_attempt(make_waiting_task(user, make_worker())) for user in users]


_numbers = itertools.count()


def start(attempt):
    return AttemptStarted(attempt=attempt.pk, at=0, download_s=0.5, command=f"run {attempt.pk}")


def end(attempt, **changes):
    facts = {"reason": EndReason.EXITED, "exit_code": 0, "run_s": 1.5} | changes
    return AttemptFinished(attempt=attempt.pk, at=0, **facts)


def asked(said) -> list[str]:
    """The queries that these reports make."""
    given = [(attempt.worker, report) for attempt, report in said]
    with CaptureQueriesContext(connection) as captured:
        assert None not in gateway.on_reports(given)
    return [query["sql"] for query in captured]


@one_thread
@pytest.mark.parametrize(
    ("report", "most"),
    [
        (lambda attempt: AttemptAccepted(attempt=attempt.pk), 6),
        (start, 8),
        (lambda attempt: end(attempt, files=(PROFILE,)), 13),
        (lambda attempt: end(attempt, exit_code=1), 13),
        (
            lambda attempt: end(attempt, received=(StoredFile(name="model.mge", sha256="a" * 64),)),
            13,
        ),
    ],
    ids=["accepted", "started", "finished", "failed", "finished with sums"],
)
def test_twenty_reports_take_as_many_queries_as_two(report, most):
    few, many = attempts(2), attempts(20)
    queries = [asked([(each, report(each)) for each in group]) for group in (few, many)]
    assert len(queries[0]) == len(queries[1]) <= most


@one_thread
def test_twenty_orders_take_as_many_queries_as_two():
    numbers = []
    for group in (attempts(2), attempts(20)):
        with CaptureQueriesContext(connection) as captured:
            orders = gateway.orders_of({each.worker_id for each in group})
        assert {order.attempt for (order,) in orders.values()} == {each.pk for each in group}
        numbers.append(len(captured))
    assert numbers == [3, 3]


@one_thread
def test_each_of_many_gets_what_its_own_device_reports():
    live = attempts(3)
    for attempt in live[1:]:
        LogChunk.objects.create(
            attempt=attempt, seq=0, offset=0, size=4, text=f"what(): no {attempt.pk}\n"
        )
    asked(
        [(each, AttemptAccepted(attempt=each.pk)) for each in live]
        + [(each, start(each)) for each in live]
        + [(live[0], end(live[0], run_s=7.0, files=(PROFILE,)))]
        + [(each, end(each, exit_code=3)) for each in live[1:]]
    )
    for attempt in live:
        attempt.refresh_from_db()
        assert (attempt.command, attempt.download_s) == (f"run {attempt.pk}", 0.5)
        assert attempt.accepted_at and attempt.started_at and attempt.ended_at
        moves = TaskEvent.objects.filter(task=attempt.task_id).values_list("seq", "kind")
        last = "processing" if attempt is live[0] else "finished"
        kinds = ["task.waiting", "task.assigned", "task.running", f"task.{last}"]
        assert list(moves) == list(enumerate(kinds, 1))
    assert [each.run_s for each in live] == [7.0, 1.5, 1.5]
    assert [each.exit_code for each in live] == [0, 3, 3]
    assert list(live[0].artifacts.values_list("name", "is_stored")) == [("profile.json", True)]
    for attempt in live[1:]:
        assert str(attempt.pk) in Task.objects.get(pk=attempt.task_id).detail


@one_thread
def test_another_devices_attempt_does_not_exist_for_who_reports_of_it():
    mine, other = attempts(2)
    assert gateway.on_reports([(mine.worker, end(other))]) == [None]
    (ack,) = gateway.on_report(mine.worker, end(other))
    assert ack.attempt == other.pk
    other.refresh_from_db()
    assert other.ended_at is None


@one_thread
def test_nor_if_its_own_device_reports_of_it_in_the_same_round():
    mine, other = attempts(2)
    foreign, own = (mine.worker, end(other, exit_code=1)), (other.worker, start(other))
    assert gateway.on_reports([foreign, own]) == [None, []]
    assert gateway.on_reports([own, foreign]) == [[], None]
    other.refresh_from_db()
    assert (other.ended_at, other.command) == (None, f"run {other.pk}")


@one_thread
def test_the_same_end_twice_in_one_round_ends_once():
    (attempt,) = attempts(1)
    more = FileOffer(name="log.txt", size_bytes=1, md5=MD5)
    first = end(attempt, exit_code=1, files=(PROFILE,))
    asked([(attempt, first), (attempt, end(attempt, exit_code=0, files=(more,)))])
    attempt.refresh_from_db()
    assert (attempt.exit_code, attempt.task.outcome) == (1, "failed")
    assert [each.name for each in attempt.artifacts.all()] == ["profile.json"]


@one_thread
def test_an_order_that_cannot_be_made_keeps_no_other_device_from_its_own(monkeypatch):
    bad, good = attempts(2)
    make = gateway._start

    def breaks(attempt, sums):
        if attempt.pk == bad.pk:
            raise RuntimeError("a task that cannot be read")
        return make(attempt, sums)

    monkeypatch.setattr(gateway, "_start", breaks)
    orders = gateway.orders_of({bad.worker_id, good.worker_id})
    assert orders[bad.worker_id] == []
    assert [order.attempt for order in orders[good.worker_id]] == [good.pk]


async def busy(name: str) -> tuple[FakeAgent, object]:
    """An agent that was sent an order."""
    worker, token = await enrolled(name)
    agent = await greeted(token)
    await waiting(worker)
    order = await agent.hear()
    assert order.type == "start"
    return agent, order


@threads
async def test_what_a_device_says_at_once_is_done_in_its_order():
    agent, order = await busy("box")
    await agent.say(AttemptAccepted(attempt=order.attempt))
    await agent.say(AttemptStarted(attempt=order.attempt, at=0))
    await agent.say(_end_of(order))
    await agent.say(AttemptUploads(attempt=order.attempt, files=(PROFILE,)))
    answers = [await agent.hear() for _ in range(3)]
    assert [each.type for each in answers] == ["ack", "ack", "uploads"]
    (target,) = answers[2].targets
    assert target.url == ""  # it was over when it asked
    states = [event.kind async for event in TaskEvent.objects.order_by("seq")]
    assert states[2:] == ["task.running", "task.processing"]
    await agent.socket.disconnect()


def _end_of(order):
    return AttemptFinished(
        attempt=order.attempt, at=0, reason=EndReason.EXITED, exit_code=0, files=(PROFILE,)
    )


@threads
async def test_a_report_that_breaks_keeps_no_other_from_its_answer(monkeypatch):
    (bad, bad_order), (good, order) = await busy("bad"), await busy("good")
    take = gateway.reports_take

    def breaks(reports):
        if bad_order.attempt in {attempt.pk for attempt, _ in reports}:
            raise RuntimeError("a row that cannot be written")
        return take(reports)

    monkeypatch.setattr(gateway, "reports_take", breaks)
    hold = _held_up(monkeypatch)
    for agent, about in ((bad, bad_order), (good, order)):
        await agent.say(_end_of(about))
    hold.set()
    assert (await good.hear()).attempt == order.attempt
    assert await bad.closed_with() == 1011  # it comes back, and says it again
    await good.socket.disconnect()


@threads
async def test_what_is_done_apart_is_done_in_the_order_in_which_it_was_said(monkeypatch):
    agent, order = await busy("box")
    monkeypatch.setattr(gateway, "on_reports", lambda said: [None] * len(said))
    await agent.say(AttemptAccepted(attempt=order.attempt))
    await agent.say(AttemptStarted(attempt=order.attempt, at=0))
    for _ in range(3):  # as an agent repeats what nobody acknowledges
        await agent.say(_end_of(order))
    await agent.say(AttemptUploads(attempt=order.attempt, files=(PROFILE,)))
    answers = [await agent.hear() for _ in range(3)]
    assert [each.type for each in answers[:2]] == ["ack", "ack"]
    while answers[-1].type == "ack":
        answers.append(await agent.hear())
    assert answers[-1].targets[0].url == ""
    states = [event.kind async for event in TaskEvent.objects.order_by("seq")]
    assert states[2:] == ["task.running", "task.processing"]
    await agent.socket.disconnect()


def _held_up(monkeypatch) -> asyncio.Event:
    """Reports of which the rounds begin with the event: until then they gather."""
    from workers.consumers import reports

    go, rounds = asyncio.Event(), reports.Reports._rounds

    async def later(self):
        await go.wait()
        await rounds(self)

    monkeypatch.setattr(reports.Reports, "_rounds", later)
    return go


@threads
async def test_who_is_slow_to_listen_keeps_no_other_from_its_answer(monkeypatch):
    (slow, slow_order), (quick, order) = await busy("slow"), await busy("quick")
    listens, send = asyncio.Event(), AgentConsumer.send

    async def sends(self, *args, **kwargs):
        if self.worker.name == "slow":
            await listens.wait()
        await send(self, *args, **kwargs)

    monkeypatch.setattr(AgentConsumer, "send", sends)
    await slow.say(AttemptAccepted(attempt=slow_order.attempt))
    await slow.say(_end_of(slow_order))
    await asyncio.sleep(0.1)
    await quick.say(_end_of(order))
    assert (await quick.hear()).attempt == order.attempt
    listens.set()
    assert [(await slow.hear()).of for _ in range(2)] == ["attempt.accepted", "attempt.finished"]
    for agent in (slow, quick):
        await agent.socket.disconnect()


@threads
async def test_a_revoked_agent_reports_nothing_any_more():
    (bad, bad_order), (good, order) = await busy("bad"), await busy("good")
    await database_sync_to_async(_revoke_silently)(bad_order.attempt)
    for agent, about in ((bad, bad_order), (good, order)):
        await agent.say(_end_of(about))
    assert await bad.closed_with() == 4403
    assert (await good.hear()).attempt == order.attempt
    assert (await Attempt.objects.aget(pk=bad_order.attempt)).exit_code is None
    await good.socket.disconnect()


def _revoke_silently(attempt) -> None:
    worker = Attempt.objects.get(pk=attempt).worker
    worker_revoke(worker, by=None)


@pytest.mark.production
@threads
async def test_rows_that_somebody_has_locked_keep_no_other_report_up():
    (stuck, stuck_order), (other, order) = await busy("stuck"), await busy("other")
    locked, over = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold() -> None:
        with transaction.atomic():
            Attempt.objects.select_for_update().get(pk=stuck_order.attempt)
            loop.call_soon_threadsafe(locked.set)
            asyncio.run_coroutine_threadsafe(over.wait(), loop).result(30)

    holding = asyncio.create_task(asyncio.to_thread(hold))
    await locked.wait()
    await stuck.say(_end_of(stuck_order))
    await asyncio.sleep(0.2)
    await other.say(_end_of(order))
    assert (await other.hear()).attempt == order.attempt
    assert await stuck.socket.receive_nothing(0.2)
    over.set()
    await holding
    ack = decode_server(await stuck.socket.receive_from(timeout=10))
    assert ack.attempt == stuck_order.attempt
    for agent in (stuck, other):
        await agent.socket.disconnect()


@pytest.mark.production
@threads
async def test_what_comes_while_a_round_is_done_and_shortly_after_is_the_next_one(monkeypatch):
    rounds, first, may_end = [], asyncio.Event(), threading.Event()
    loop, take = asyncio.get_running_loop(), gateway.on_reports

    def taken(given):
        rounds.append([report.attempt for _, report in given])
        if len(rounds) == 1:
            loop.call_soon_threadsafe(first.set)
            assert may_end.wait(10)
        return take(given)

    monkeypatch.setattr(reports, "GATHER_S", 2.0)
    busy_ones = [await busy(f"box-{n}") for n in range(4)]
    # the rounds in which they got their orders are over
    await asyncio.sleep(2.2)
    monkeypatch.setattr(gateway, "on_reports", taken)
    (one, *_), (two, *_), *rest = busy_ones
    await one.say(_end_of(busy_ones[0][1]))
    await asyncio.wait_for(first.wait(), 10)
    await two.say(_end_of(busy_ones[1][1]))
    async with asyncio.timeout(10):
        while not reports.reports()._said:
            await asyncio.sleep(0.01)
    may_end.set()
    assert (await one.hear()).attempt == busy_ones[0][1].attempt  # the first round is over
    for agent, order in rest:
        await agent.say(_end_of(order))
    for agent, order in busy_ones[1:]:
        assert (await agent.hear()).attempt == order.attempt
    for agent, _ in busy_ones:
        await agent.socket.disconnect()
    (end, *ends), (alone, together) = (
        [order.attempt for _, order in busy_ones],
        filter(None, rounds),
    )
    assert alone == [end]
    assert sorted(together) == sorted(ends)
