"""A simulated agent on the WebSocket: authentication, orders, and reports."""

import asyncio
import hashlib
import json
import uuid

import httpx2
import pytest
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer

from agent.protocol.messages import (
    AttemptAccepted,
    AttemptFinished,
    AttemptLog,
    AttemptStarted,
    AttemptUploads,
    EndReason,
    FileOffer,
    Heartbeat,
    Hello,
)
from tasks.dispatch.consumer import AgentConsumer
from tasks.lifecycle.attempts import lose_attempt
from tasks.lifecycle.cancel import cancel_task
from tasks.models import Attempt, Task
from tasks.tests.make import FACTS, MD5, RUNTIMES, make_attempt, make_waiting_task
from workers.models import Worker
from workers.selectors import labels_of
from workers.services import revoke_worker
from workers.tests.make import (
    FakeAgent,
    connect_agent,
    connect_busy_agent,
    enrol_device,
    run_dispatcher,
)
from workers.tokens import issue_code, redeem_code, worker_group

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("disconnect_sockets"),
]

PROFILE = FileOffer(name="profile.json", size_bytes=2, md5=hashlib.md5(b"{}").hexdigest())


def final_report(attempt_id: uuid.UUID, **fields) -> AttemptFinished:
    return AttemptFinished(attempt=attempt_id, at=0, reason=EndReason.EXITED, exit_code=0, **fields)


@database_sync_to_async
def enrol_again(worker: Worker) -> tuple[Worker, str]:
    return redeem_code(issue_code(worker))


async def test_hello_stores_facts_and_is_answered_with_intervals(settings):
    worker, token = await enrol_device()
    agent = await FakeAgent(token).connect()
    welcome = await agent.send_hello()
    assert (welcome.worker, welcome.heartbeat_s) == ("box", settings.HEARTBEAT_S)
    worker = await Worker.objects.aget(pk=worker.pk)
    assert worker.is_online
    assert worker.facts["hostname"] == FACTS.hostname
    assert [r.version async for r in worker.runtimes.all()] == ["1.13.0"]


async def test_nul_characters_are_replaced_before_they_reach_the_database():
    """PostgreSQL rejects NUL in text and JSON; an escaped backslash before "u0000" is allowed."""
    worker, token = await enrol_device()
    agent = await FakeAgent(token).connect()
    facts = FACTS.model_copy(update={"hostname": "a\x00b", "platform": "\\u0000"})
    await agent.send(Hello(agent_version="1\x00", facts=facts, runtimes=RUNTIMES))
    assert (await agent.receive()).type == "welcome"
    await worker.arefresh_from_db()
    assert worker.facts["hostname"] == "a\ufffdb"
    assert worker.facts["platform"] == "\\u0000"
    assert worker.agent_version == "1\ufffd"


@pytest.mark.parametrize("token", ["", "mgw_nonsense"])
async def test_an_unknown_token_closes_with_its_code(token):
    agent = await FakeAgent(token).connect()
    assert await agent.close_code() == 4401


async def test_a_revoked_token_closes_with_its_code():
    worker, token = await enrol_device()
    await database_sync_to_async(revoke_worker)(worker, by=None)
    agent = await FakeAgent(token).connect()
    assert await agent.close_code() == 4403


async def test_a_token_revoked_during_a_connection_closes_it_at_the_next_frame():
    worker, token = await enrol_device()
    agent = await connect_agent(token)
    await database_sync_to_async(revoke_worker)(worker, by=None)
    await agent.send(Heartbeat(sent_at=0))
    assert await agent.close_code() == 4403


async def test_a_second_connection_with_the_same_token_replaces_the_first():
    _, token = await enrol_device()
    first = await connect_agent(token)
    second = await connect_agent(token)
    assert await first.close_code() == 4409
    await second.send(Heartbeat(sent_at=0))
    assert await second.socket.receive_nothing(0.2)


async def send_late_hello(token: str, monkeypatch) -> tuple[FakeAgent, asyncio.Event]:
    """Connect and say Hello, which the server answers once the returned event is set."""
    agent = await FakeAgent(token).connect()
    assert await agent.socket.receive_nothing(0.2)
    authenticate, has_begun, goes_on = AgentConsumer.authenticate, asyncio.Event(), asyncio.Event()

    async def stall(consumer):
        has_begun.set()
        await goes_on.wait()
        return await authenticate(consumer)

    with monkeypatch.context() as patch:
        patch.setattr(AgentConsumer, "authenticate", stall)
        await agent.send(Hello(agent_version="1", facts=FACTS, runtimes=RUNTIMES))
        async with asyncio.timeout(10):
            await has_begun.wait()
    return agent, goes_on


async def test_a_hello_that_is_answered_late_does_not_stop_an_agent_that_connected_again(
    monkeypatch,
):
    """While the database stalls, an agent gives up waiting for its welcome after 20 s."""
    _, token = await enrol_device()
    given_up, goes_on = await send_late_hello(token, monkeypatch)
    again = await FakeAgent(token).connect()
    assert await again.socket.receive_nothing(0.2)
    goes_on.set()
    assert (await given_up.receive()).type == "welcome"
    assert (await again.send_hello()).type == "welcome"
    assert await given_up.close_code() == 4409
    assert await again.socket.receive_nothing(0.2)


async def test_a_hello_that_is_answered_late_does_not_lose_an_attempt_accepted_meanwhile(
    monkeypatch,
):
    worker, token = await enrol_device()
    given_up, goes_on = await send_late_hello(token, monkeypatch)
    again = await connect_agent(token)
    attempt = await database_sync_to_async(lambda: make_attempt(make_waiting_task(worker=worker)))()
    await again.send(AttemptAccepted(attempt=attempt.pk))
    while (await again.receive()).type != "ack":
        pass
    goes_on.set()
    assert (await given_up.receive()).type == "welcome"
    await attempt.arefresh_from_db()
    assert (attempt.ended_at, attempt.end_reason) == (None, "")


async def test_a_connection_that_breaks_while_it_is_answered_is_logged_and_forgotten(
    monkeypatch, caplog
):
    worker, token = await enrol_device()
    agent = await connect_agent(token)

    async def fail(*_):
        raise ConnectionError("the agent has gone")

    monkeypatch.setattr(AgentConsumer, "send", fail)
    await agent.send(final_report(uuid.uuid4()))
    with pytest.raises(ConnectionError):
        await agent.socket.wait()
    assert worker_group(worker.pk) not in get_channel_layer().groups
    assert "agent_disconnected" in caplog.text


async def test_enrolling_again_closes_only_the_former_connection():
    worker, token = await enrol_device()
    former = await connect_agent(token)
    _, token = await enrol_again(worker)
    assert await former.close_code() == 4403
    new = await connect_agent(token)
    # a late wake-up
    await get_channel_layer().group_send(worker_group(worker.pk), {"type": "worker.revoked"})
    assert await new.socket.receive_nothing(0.3)


async def test_a_revoked_token_does_not_replace_a_valid_connection(monkeypatch):
    """Both agents are connected, and the one with the revoked token got no wake-up."""
    worker, token = await enrol_device()
    stale = await FakeAgent(token).connect()

    async def lose(*_):
        pass

    with monkeypatch.context() as patch:
        patch.setattr("channels.layers.InMemoryChannelLayer.group_send", lose)
        _, token = await enrol_again(worker)
        good = await connect_agent(token)
    await stale.send(Hello(agent_version="1", facts=FACTS, runtimes=RUNTIMES))
    assert await stale.close_code() == 4403
    await good.send(Heartbeat(sent_at=0))
    assert await good.socket.receive_nothing(0.3)


@pytest.mark.parametrize(
    "frame",
    [
        "no json",
        "[]",
        json.dumps({"type": "attempt.exploded"}),
        json.dumps({"type": "hello"}),
        json.dumps({"type": "heartbeat", "sent_at": 0}),  # before hello
        "x" * 70_000,
    ],
)
async def test_an_invalid_frame_closes_the_socket(frame):
    _, token = await enrol_device()
    agent = await FakeAgent(token).connect()
    await agent.send(frame)
    assert await agent.close_code() == 4400


async def test_an_agent_with_an_unsupported_protocol_is_closed_with_its_code():
    _, token = await enrol_device()
    agent = await FakeAgent(token).connect()
    await agent.send(Hello(protocol=0, agent_version="0", facts=FACTS))
    assert await agent.close_code() == 4426


async def test_a_task_is_sent_run_and_finished(storage):
    agent, order = await connect_busy_agent()
    assert (order.runtime, order.model.name) == ("1.13.0", "model.mge")
    assert [(file.name, file.input) for file in order.data] == [("input-0.npy", "data")]

    await agent.accept(order)
    await agent.send(AttemptStarted(attempt=order.attempt, at=0, command="load_and_run model.mge"))
    await agent.send(AttemptLog(attempt=order.attempt, seq=1, offset=0, size=3, text="hi\n"))
    await agent.send(AttemptUploads(attempt=order.attempt, files=(PROFILE,)))
    (target,) = (await agent.receive()).targets
    assert f"attempts/{order.attempt}/profile.json" in target.url
    await asyncio.to_thread(httpx2.put, target.url, content=b"{}", headers=target.headers)
    await agent.send(final_report(order.attempt, files=(PROFILE,)))
    assert (await agent.receive()).of == "attempt.finished"
    attempt = await Attempt.objects.select_related("task").aget(pk=order.attempt)
    assert attempt.task.state == "processing"
    assert attempt.command == "load_and_run model.mge"
    assert [chunk.text async for chunk in attempt.log.all()] == ["hi\n"]
    assert [artifact.name async for artifact in attempt.artifacts.all()] == ["profile.json"]


async def test_a_start_is_repeated_after_a_lost_connection_until_it_was_accepted():
    first, order = await connect_busy_agent()
    await first.socket.disconnect()
    second = await connect_agent(first.token)
    assert (await second.receive()).attempt == order.attempt
    await second.accept(order)
    await second.socket.disconnect()
    third = await connect_agent(first.token, running=frozenset({order.attempt}))
    assert await third.socket.receive_nothing(0.2)


async def test_an_agent_that_lost_an_accepted_attempt_gets_the_task_again():
    agent, order = await connect_busy_agent()
    await agent.accept(order)
    await agent.socket.disconnect()
    agent = await connect_agent(agent.token)
    await run_dispatcher()
    second = await Attempt.objects.aget(pk=(await agent.receive()).attempt)
    assert second.pk != order.attempt
    assert (second.task_id, second.number) == ((await Task.objects.aget()).pk, 2)


@pytest.mark.parametrize("how", ["hello", "heartbeat"])
async def test_an_agent_must_cancel_attempts_that_the_server_gave_up(how):
    """The lease expired while the connection was down, and the task has another attempt."""
    agent, order = await connect_busy_agent()
    await agent.accept(order)
    attempt = await Attempt.objects.select_related("task").aget(pk=order.attempt)
    await database_sync_to_async(lose_attempt)(attempt, reason="lease_expired")
    await run_dispatcher()
    assert (await agent.receive()).type == "start"  # the next attempt
    running = frozenset({order.attempt})
    if how == "hello":
        await agent.socket.disconnect()
        agent = await connect_agent(agent.token, running=running)
    else:
        await agent.send(Heartbeat(sent_at=0, running=running))
    cancel = await agent.receive()
    assert (cancel.type, cancel.attempt) == ("cancel", order.attempt)


async def test_a_cancel_reaches_the_agent():
    agent, order = await connect_busy_agent()
    await agent.accept(order)
    task = await Task.objects.aget()
    await database_sync_to_async(cancel_task)(task)
    cancel = await agent.receive()
    assert (cancel.type, cancel.attempt) == ("cancel", order.attempt)
    await agent.send(AttemptFinished(attempt=order.attempt, at=0, reason=EndReason.CANCELLED))
    await agent.receive()
    await task.arefresh_from_db()
    assert task.status == "cancelled"


async def test_reports_about_an_attempt_of_another_device_are_acknowledged_and_ignored():
    _, order = await connect_busy_agent()
    _, other_token = await enrol_device("other")
    stranger = await connect_agent(other_token)
    for attempt_id in (order.attempt, uuid.uuid4()):
        await stranger.send(final_report(attempt_id))
        assert (await stranger.receive()).of == "attempt.finished"
    await stranger.send(AttemptUploads(attempt=order.attempt, files=(PROFILE,)))
    assert (await stranger.receive()).targets[0].url == ""
    attempt = await Attempt.objects.aget(pk=order.attempt)
    assert attempt.ended_at is None


async def test_an_agent_can_upload_only_files_of_its_attempt():
    agent, order = await connect_busy_agent()
    files = (FileOffer(name="other.bin", size_bytes=1, md5=MD5),)
    await agent.send(AttemptUploads(attempt=order.attempt, files=files))
    assert (await agent.receive()).targets[0].url == ""


async def test_welcome_contains_the_served_agent_version(settings, tmp_path):
    settings.AGENT_FOLDER = str(tmp_path)
    _, token = await enrol_device()
    agent = await FakeAgent(token).connect()
    assert (await agent.send_hello()).agent_version == ""
    (tmp_path / "manifest.json").write_text(
        '{"version": "0.5.0+1a2b3c4d", "files": {}, "wheel": {"name": "w.whl"}}'
    )
    again = await FakeAgent(token).connect()
    assert (await again.send_hello()).agent_version == "0.5.0+1a2b3c4d"


async def test_labels_of_administrators_override_those_of_the_agent():
    worker, token = await enrol_device()
    await Worker.objects.filter(pk=worker.pk).aupdate(labels={"chip": "of administrators"})
    agent = await FakeAgent(token).connect()
    labels = {"chip": "of the agent", "build": "nightly"}
    await agent.send(
        Hello(agent_version="1", facts=FACTS.model_copy(update={"labels": labels}), runtimes=())
    )
    assert (await agent.receive()).type == "welcome"
    await worker.arefresh_from_db()
    assert labels_of(worker) == {"build": "nightly", "chip": "of administrators"}
    assert worker.labels == {"chip": "of administrators"}
