"""Reports of agents: their order, and independence from other agents."""

import asyncio
import itertools

import pytest
from channels.db import database_sync_to_async
from django.db import transaction

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
from tasks.dispatch import gateway
from tasks.dispatch.consumer import AgentConsumer
from tasks.lifecycle.attempts import lose_attempt
from tasks.lifecycle.outcomes import LEASE_EXPIRED
from tasks.models import Attempt, TaskEvent
from tasks.tests.make import make_attempt, make_user, make_waiting_task, make_worker
from webprofile.errors import DomainError
from workers.services import revoke_worker
from workers.tests.make import FakeAgent, connect_agent, enrol_device, submit_task_for
from workers.tokens import issue_code, redeem_code, revoke_tokens

one_thread = pytest.mark.django_db
threads = pytest.mark.django_db(transaction=True)
MD5 = "5eb63bbbe01eeed093cb22bb8f5acdc3"
MODEL = StoredFile(name="model.mge", sha256="a" * 64)
PROFILE = FileOffer(name="profile.json", size_bytes=11, md5=MD5)


def attempts(number: int) -> list[Attempt]:
    """Return live attempts on different devices and of different users."""
    users = (make_user(f"user-{next(_numbers)}") for _ in range(number))
    return [make_attempt(make_waiting_task(user, make_worker())) for user in users]


_numbers = itertools.count()


def start(attempt):
    return AttemptStarted(attempt=attempt.pk, at=0, download_s=0.5, command=f"run {attempt.pk}")


def end(attempt, **changes):
    facts = {"reason": EndReason.EXITED, "exit_code": 0, "run_s": 1.5} | changes
    return AttemptFinished(attempt=attempt.pk, at=0, **facts)


@one_thread
def test_a_report_about_an_attempt_of_another_device_is_ignored():
    mine, other = attempts(2)
    for report in (AttemptAccepted(attempt=other.pk), start(other), end(other)):
        answers = gateway.handle(mine.worker, report)
        assert [answer.attempt for answer in answers] in ([], [other.pk])
    other.refresh_from_db()
    assert (other.accepted_at, other.started_at, other.ended_at) == (None, None, None)


@one_thread
def test_a_report_with_a_revoked_token_is_ignored():
    (attempt,) = attempts(1)
    for token, code in (("mgw_unknown", "token_unknown"), (void_token(attempt), "token_revoked")):
        for report in (AttemptAccepted(attempt=attempt.pk), start(attempt), end(attempt)):
            with pytest.raises(DomainError) as refused:
                gateway.handle(attempt.worker, report, token)
            assert refused.value.code == code
    attempt.refresh_from_db()
    assert (attempt.accepted_at, attempt.started_at, attempt.ended_at) == (None, None, None)


def void_token(attempt: Attempt) -> str:
    worker, token = redeem_code(issue_code(attempt.worker))
    revoke_tokens(worker)
    return token


@one_thread
def test_a_repeated_final_report_is_ignored():
    (attempt,) = attempts(1)
    more = FileOffer(name="log.txt", size_bytes=1, md5=MD5)
    first = end(attempt, exit_code=1, files=(PROFILE,))
    for report in (first, end(attempt, exit_code=0, files=(more,))):
        gateway.handle(attempt.worker, report)
    attempt.refresh_from_db()
    assert (attempt.exit_code, attempt.task.outcome) == (1, "failed")
    assert [item.name for item in attempt.artifacts.all()] == ["profile.json"]


async def busy(name: str) -> tuple[FakeAgent, object]:
    """Return an agent and the order that it has received."""
    worker, token = await enrol_device(name)
    agent = await connect_agent(token)
    await submit_task_for(worker)
    order = await agent.receive()
    assert order.type == "start"
    return agent, order


@threads
async def test_concurrent_reports_of_a_device_are_handled_in_order():
    agent, order = await busy("box")
    await agent.send(AttemptAccepted(attempt=order.attempt))
    await agent.send(AttemptStarted(attempt=order.attempt, at=0))
    await agent.send(_end_of(order))
    await agent.send(AttemptUploads(attempt=order.attempt, files=(PROFILE,)))
    answers = [await agent.receive() for _ in range(3)]
    assert [item.type for item in answers] == ["ack", "ack", "uploads"]
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
async def test_a_failing_report_does_not_block_others(monkeypatch):
    (bad, bad_order), (good, order) = await busy("bad"), await busy("good")
    take = gateway.apply_report

    def breaks(attempt, report):
        if attempt.pk == bad_order.attempt:
            raise RuntimeError("a row that cannot be written")
        return take(attempt, report)

    monkeypatch.setattr(gateway, "apply_report", breaks)
    for agent, about in ((bad, bad_order), (good, order)):
        await agent.send(_end_of(about))
    assert (await good.receive()).attempt == order.attempt
    assert await bad.close_code() == 1011  # it comes back, and says it again
    await good.socket.disconnect()


@threads
async def test_a_slow_receiver_does_not_block_others(monkeypatch):
    (slow, slow_order), (quick, order) = await busy("slow"), await busy("quick")
    listens, send = asyncio.Event(), AgentConsumer.send

    async def sends(self, *args, **kwargs):
        if self.worker.name == "slow":
            await listens.wait()
        await send(self, *args, **kwargs)

    monkeypatch.setattr(AgentConsumer, "send", sends)
    await slow.send(AttemptAccepted(attempt=slow_order.attempt))
    await slow.send(_end_of(slow_order))
    await asyncio.sleep(0.1)
    await quick.send(_end_of(order))
    assert (await quick.receive()).attempt == order.attempt
    listens.set()
    assert [(await slow.receive()).of for _ in range(2)] == ["attempt.accepted", "attempt.finished"]
    for agent in (slow, quick):
        await agent.socket.disconnect()


@threads
async def test_reports_of_a_revoked_agent_are_ignored():
    (bad, bad_order), (good, order) = await busy("bad"), await busy("good")
    await database_sync_to_async(_revoke_silently)(bad_order.attempt)
    for agent, about in ((bad, bad_order), (good, order)):
        await agent.send(_end_of(about))
    assert await bad.close_code() == 4403
    assert (await good.receive()).attempt == order.attempt
    assert (await Attempt.objects.aget(pk=bad_order.attempt)).exit_code is None
    await good.socket.disconnect()


def _revoke_silently(attempt) -> None:
    worker = Attempt.objects.get(pk=attempt).worker
    revoke_worker(worker, by=None)


@pytest.mark.production
@threads
async def test_locked_rows_do_not_block_other_reports(settings):
    # more devices than there are threads
    stuck = [await busy(f"stuck-{n}") for n in range(settings.AGENT_THREADS + 1)]
    other, order = await busy("other")
    keys = [stuck_order.attempt for _, stuck_order in stuck]
    locked, over = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold() -> None:
        with transaction.atomic():
            assert len(Attempt.objects.select_for_update().filter(pk__in=keys)) == len(keys)
            loop.call_soon_threadsafe(locked.set)
            asyncio.run_coroutine_threadsafe(over.wait(), loop).result(30)

    holding = asyncio.create_task(asyncio.to_thread(hold))
    await locked.wait()
    for agent, stuck_order in stuck:
        await agent.send(_end_of(stuck_order))
    await asyncio.sleep(0.2)
    await other.send(_end_of(order))
    assert (await other.receive()).attempt == order.attempt
    assert await stuck[0][0].socket.receive_nothing(0.2)
    over.set()
    await holding
    for agent, stuck_order in stuck:
        ack = decode_server(await agent.socket.receive_from(timeout=10))
        assert ack.attempt == stuck_order.attempt
        await agent.socket.disconnect()
    await other.socket.disconnect()


@pytest.mark.production
@threads
async def test_a_report_whose_rows_stay_locked_closes_the_connection(monkeypatch):
    monkeypatch.setattr("tasks.dispatch.consumer.LOCKED_S", 0.3)
    agent, order = await busy("box")
    locked, over = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold() -> None:
        with transaction.atomic():
            Attempt.objects.select_for_update().get(pk=order.attempt)
            loop.call_soon_threadsafe(locked.set)
            asyncio.run_coroutine_threadsafe(over.wait(), loop).result(30)

    holding = asyncio.create_task(asyncio.to_thread(hold))
    await locked.wait()
    await agent.send(AttemptAccepted(attempt=order.attempt))
    # over a new one it says what was not acknowledged once more
    assert (await agent.socket.receive_output(5))["code"] == 1011
    over.set()
    await holding


@pytest.mark.production
@threads
async def test_an_acceptance_after_the_end_of_the_attempt_is_ignored():
    agent, order = await busy("box")
    locked, over = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def ends() -> None:
        with transaction.atomic():
            attempt = Attempt.objects.select_for_update().get(pk=order.attempt)
            lose_attempt(attempt, reason=LEASE_EXPIRED)
            loop.call_soon_threadsafe(locked.set)
            asyncio.run_coroutine_threadsafe(over.wait(), loop).result(30)

    ending = asyncio.create_task(asyncio.to_thread(ends))
    await locked.wait()
    await agent.send(AttemptAccepted(attempt=order.attempt))
    await asyncio.sleep(0.2)
    over.set()
    await ending
    assert (await agent.receive()).attempt == order.attempt
    attempt = await Attempt.objects.aget(pk=order.attempt)
    assert (attempt.end_reason, attempt.accepted_at) == (LEASE_EXPIRED, None)
    await agent.socket.disconnect()
