"""Reports of agents: their order, and independence from other agents."""

import asyncio
import itertools
import json
import uuid
from contextlib import asynccontextmanager

import pytest
from channels.db import database_sync_to_async
from django.db import transaction

from agent.protocol.messages import (
    AttemptAccepted,
    AttemptFinished,
    AttemptStarted,
    AttemptUploads,
    EndReason,
    FileOffer,
    StoredFile,
)
from tasks.dispatch import gateway
from tasks.dispatch.consumer import AgentConsumer
from tasks.lifecycle.attempts import lose_attempt
from tasks.lifecycle.outcomes import LEASE_EXPIRED
from tasks.models import Attempt, TaskEvent
from tasks.tests.make import make_attempt, make_user, make_waiting_task, make_worker
from webprofile.errors import DomainError
from workers.models import Worker
from workers.services import revoke_worker
from workers.tests.make import connect_busy_agent
from workers.tokens import issue_code, redeem_code, revoke_tokens

pytestmark = pytest.mark.usefixtures("disconnect_sockets")
one_thread = pytest.mark.django_db
threads = pytest.mark.django_db(transaction=True)
MD5 = "5eb63bbbe01eeed093cb22bb8f5acdc3"
MODEL = StoredFile(name="model.mge", sha256="a" * 64)
PROFILE = FileOffer(name="profile.json", size_bytes=11, md5=MD5)


def make_attempts(number: int) -> list[Attempt]:
    """Return live attempts on different devices and of different users."""
    users = (make_user(f"user-{next(_numbers)}") for _ in range(number))
    return [make_attempt(make_waiting_task(user, make_worker())) for user in users]


_numbers = itertools.count()


def final_report(attempt_id: uuid.UUID, **changes) -> AttemptFinished:
    facts = {"reason": EndReason.EXITED, "exit_code": 0, "files": (PROFILE,)} | changes
    return AttemptFinished(attempt=attempt_id, at=0, **facts)


def reports_about(attempt: Attempt) -> list:
    return [
        AttemptAccepted(attempt=attempt.pk),
        AttemptStarted(attempt=attempt.pk, at=0),
        final_report(attempt.pk),
    ]


@one_thread
def test_a_report_about_an_attempt_of_another_device_is_ignored():
    own, other = make_attempts(2)
    for report in reports_about(other):
        answers = gateway.handle(own.worker, report)
        assert [answer.attempt for answer in answers] in ([], [other.pk])
    other.refresh_from_db()
    assert (other.accepted_at, other.started_at, other.ended_at) == (None, None, None)


@one_thread
@pytest.mark.parametrize("sizes", [(149 << 20, 5 << 29), (149 << 20, None), (None, None)])
def test_the_peak_memory_of_a_final_report_is_stored_also_after_a_failure(sizes):
    (attempt,) = make_attempts(1)
    document = json.loads(final_report(attempt.pk, exit_code=134).model_dump_json())
    for name, size in zip(("host_memory_bytes", "gpu_memory_bytes"), sizes, strict=True):
        if size is None:  # as of an agent that does not know it
            del document[name]
        else:
            document[name] = size
    gateway.handle(attempt.worker, AttemptFinished.model_validate_json(json.dumps(document)))
    attempt.refresh_from_db()
    assert (attempt.host_memory_bytes, attempt.gpu_memory_bytes) == sizes


@one_thread
def test_a_report_with_a_revoked_token_is_ignored():
    (attempt,) = make_attempts(1)
    worker, revoked_token = redeem_code(issue_code(attempt.worker))
    revoke_tokens(worker)
    for token, code in (("mgw_unknown", "token_unknown"), (revoked_token, "token_revoked")):
        for report in reports_about(attempt):
            with pytest.raises(DomainError) as caught:
                gateway.handle(attempt.worker, report, token)
            assert caught.value.code == code
    attempt.refresh_from_db()
    assert (attempt.accepted_at, attempt.started_at, attempt.ended_at) == (None, None, None)


@one_thread
def test_a_repeated_final_report_is_ignored():
    (attempt,) = make_attempts(1)
    more = FileOffer(name="log.txt", size_bytes=1, md5=MD5)
    first = final_report(attempt.pk, exit_code=1)
    for report in (first, final_report(attempt.pk, files=(more,))):
        gateway.handle(attempt.worker, report)
    attempt.refresh_from_db()
    assert (attempt.exit_code, attempt.task.state) == (1, "processing")
    assert not attempt.artifacts.exists()


@threads
async def test_concurrent_reports_of_a_device_are_handled_in_order():
    agent, order = await connect_busy_agent()
    await agent.send(AttemptAccepted(attempt=order.attempt))
    await agent.send(AttemptStarted(attempt=order.attempt, at=0))
    await agent.send(final_report(order.attempt))
    await agent.send(AttemptUploads(attempt=order.attempt, files=(PROFILE,)))
    answers = [await agent.receive() for _ in range(3)]
    assert [item.type for item in answers] == ["ack", "ack", "uploads"]
    (target,) = answers[2].targets
    assert target.url == ""  # the attempt had ended
    states = [event.kind async for event in TaskEvent.objects.order_by("seq")]
    assert states[2:] == ["task.running", "task.processing"]


@threads
async def test_a_failing_report_does_not_block_others(monkeypatch):
    bad, bad_order = await connect_busy_agent("bad")
    good, order = await connect_busy_agent("good")
    apply_report = gateway.apply_report

    def fail_for_bad(attempt, report):
        if attempt.pk == bad_order.attempt:
            raise RuntimeError("a row that cannot be written")
        return apply_report(attempt, report)

    monkeypatch.setattr(gateway, "apply_report", fail_for_bad)
    await bad.send(final_report(bad_order.attempt))
    await good.send(final_report(order.attempt))
    assert (await good.receive()).attempt == order.attempt
    assert await bad.close_code() == 1011  # the agent reconnects and repeats its report


@threads
async def test_a_slow_receiver_does_not_block_others(monkeypatch):
    slow, slow_order = await connect_busy_agent("slow")
    quick, order = await connect_busy_agent("quick")
    is_ready, send = asyncio.Event(), AgentConsumer.send

    async def wait_and_send(self, *args, **kwargs):
        if self.worker.name == "slow":
            await is_ready.wait()
        await send(self, *args, **kwargs)

    monkeypatch.setattr(AgentConsumer, "send", wait_and_send)
    await slow.send(AttemptAccepted(attempt=slow_order.attempt))
    await slow.send(final_report(slow_order.attempt))
    await asyncio.sleep(0.1)
    await quick.send(final_report(order.attempt))
    assert (await quick.receive()).attempt == order.attempt
    is_ready.set()
    assert [(await slow.receive()).of for _ in range(2)] == ["attempt.accepted", "attempt.finished"]


@threads
async def test_reports_of_a_revoked_agent_are_ignored():
    bad, bad_order = await connect_busy_agent("bad")
    good, order = await connect_busy_agent("good")
    worker = await Worker.objects.aget(name="bad")
    await database_sync_to_async(revoke_worker)(worker, by=None)
    await bad.send(final_report(bad_order.attempt))
    await good.send(final_report(order.attempt))
    assert await bad.close_code() == 4403
    assert (await good.receive()).attempt == order.attempt
    assert (await Attempt.objects.aget(pk=bad_order.attempt)).exit_code is None


@asynccontextmanager
async def locked_attempts(*ids: uuid.UUID, lose: bool = False):
    """Lock attempts in a transaction of another thread, which can also end them."""
    locked, released = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def lock() -> None:
        with transaction.atomic():
            attempts = list(Attempt.objects.select_for_update().filter(pk__in=ids))
            assert len(attempts) == len(ids)
            if lose:
                for attempt in attempts:
                    lose_attempt(attempt, reason=LEASE_EXPIRED)
            loop.call_soon_threadsafe(locked.set)
            asyncio.run_coroutine_threadsafe(released.wait(), loop).result(30)

    thread = asyncio.create_task(asyncio.to_thread(lock))
    await locked.wait()
    try:
        yield
    finally:
        released.set()
        await thread


@pytest.mark.production
@threads
async def test_locked_rows_do_not_block_other_reports(settings):
    # more devices than there are threads
    count = settings.AGENT_THREADS + 1
    stuck = [await connect_busy_agent(f"stuck-{number}") for number in range(count)]
    other, order = await connect_busy_agent("other")
    async with locked_attempts(*(stuck_order.attempt for _, stuck_order in stuck)):
        for agent, stuck_order in stuck:
            await agent.send(final_report(stuck_order.attempt))
        await asyncio.sleep(0.2)
        await other.send(final_report(order.attempt))
        assert (await other.receive()).attempt == order.attempt
        assert await stuck[0][0].socket.receive_nothing(0.2)
    for agent, stuck_order in stuck:
        assert (await agent.receive()).attempt == stuck_order.attempt


@pytest.mark.production
@threads
async def test_a_report_whose_rows_stay_locked_closes_the_connection(monkeypatch):
    monkeypatch.setattr("tasks.dispatch.consumer.LOCKED_S", 0.3)
    agent, order = await connect_busy_agent()
    async with locked_attempts(order.attempt):
        await agent.send(AttemptAccepted(attempt=order.attempt))
        # over a new connection, the agent repeats unacknowledged reports
        assert await agent.close_code() == 1011


@pytest.mark.production
@threads
async def test_an_acceptance_after_the_end_of_the_attempt_is_ignored():
    agent, order = await connect_busy_agent()
    async with locked_attempts(order.attempt, lose=True):
        await agent.send(AttemptAccepted(attempt=order.attempt))
        await asyncio.sleep(0.2)
    assert (await agent.receive()).attempt == order.attempt
    attempt = await Attempt.objects.aget(pk=order.attempt)
    assert (attempt.end_reason, attempt.accepted_at) == (LEASE_EXPIRED, None)
