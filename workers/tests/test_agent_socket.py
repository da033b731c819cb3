"""A simulated agent on the WebSocket: authentication, orders, and reports."""

import asyncio
import json
import uuid

import pytest
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer

from agent.protocol import (
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
from tasks.lifecycle.attempts import lose_attempt
from tasks.lifecycle.cancel import cancel_task
from tasks.models import Attempt, Task
from tasks.tests.make import FACTS, MD5, RUNTIMES
from workers.models import Worker
from workers.selectors import labels_of
from workers.services import revoke_worker
from workers.tests.make import (
    FakeAgent,
    connect_agent,
    enrol_device,
    run_dispatcher,
    submit_task_for,
)
from workers.tokens import issue_code, redeem_code, worker_group

pytestmark = pytest.mark.django_db(transaction=True)


@database_sync_to_async
def enrolled_again(worker: Worker) -> tuple[Worker, str]:
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
    await agent.socket.disconnect()


async def test_nul_characters_are_replaced_before_they_reach_the_database():
    """PostgreSQL rejects NUL in text and JSON; an escaped backslash before "u0000" is allowed."""
    worker, token = await enrol_device()
    agent = await FakeAgent(token).connect()
    odd = FACTS.model_copy(update={"hostname": "a\x00b", "platform": "\\u0000"})
    await agent.send(Hello(agent_version="1\x00", facts=odd, runtimes=RUNTIMES))
    assert (await agent.receive()).type == "welcome"
    await worker.arefresh_from_db()
    assert worker.facts["hostname"] == "a\ufffdb"
    assert worker.facts["platform"] == "\\u0000"
    assert worker.agent_version == "1\ufffd"
    await agent.socket.disconnect()


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
    await second.socket.disconnect()


async def test_enrolling_again_closes_only_the_former_connection():
    worker, token = await enrol_device()
    former = await connect_agent(token)
    _, token = await enrolled_again(worker)
    assert await former.close_code() == 4403
    new = await connect_agent(token)
    # a wake-up that comes late
    await get_channel_layer().group_send(worker_group(worker.pk), {"type": "worker.revoked"})
    assert await new.socket.receive_nothing(0.3)
    await new.socket.disconnect()


async def test_a_revoked_token_does_not_replace_a_valid_connection(monkeypatch):
    """Both agents are connected, and the one with the revoked token got no wake-up."""
    worker, token = await enrol_device()
    stale = await FakeAgent(token).connect()

    async def lost(*_):
        pass

    with monkeypatch.context() as patched:
        patched.setattr("channels.layers.InMemoryChannelLayer.group_send", lost)
        _, token = await enrolled_again(worker)
        good = await connect_agent(token)
    await stale.send(Hello(agent_version="1", facts=FACTS, runtimes=RUNTIMES))
    assert await stale.close_code() == 4403
    await good.send(Heartbeat(sent_at=0))
    assert await good.socket.receive_nothing(0.3)
    await good.socket.disconnect()


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


async def test_a_task_is_sent_run_and_finished():
    worker, token = await enrol_device()
    agent = await connect_agent(token)
    task = await submit_task_for(worker)
    start = await agent.receive()
    assert (start.type, start.runtime, start.model.name) == ("start", "1.13.0", "model.mge")
    assert [(f.name, f.input) for f in start.data] == [("input-0.npy", "data")]

    await agent.send(AttemptAccepted(attempt=start.attempt))
    assert (await agent.receive()).of == "attempt.accepted"
    await agent.send(AttemptStarted(attempt=start.attempt, at=0, command="load_and_run model.mge"))
    await agent.send(AttemptLog(attempt=start.attempt, seq=1, offset=0, size=3, text="hi\n"))
    files = (FileOffer(name="profile.json", size_bytes=2, md5=MD5),)
    await agent.send(AttemptUploads(attempt=start.attempt, files=files))
    (target,) = (await agent.receive()).targets
    assert f"attempts/{start.attempt}/profile.json" in target.url
    await agent.send(
        AttemptFinished(
            attempt=start.attempt, at=0, reason=EndReason.EXITED, exit_code=0, files=files
        )
    )
    assert (await agent.receive()).of == "attempt.finished"
    await task.arefresh_from_db()
    assert task.state == "processing"
    attempt = await Attempt.objects.aget(pk=start.attempt)
    assert attempt.command == "load_and_run model.mge"
    assert [c.text async for c in attempt.log.all()] == ["hi\n"]
    assert [a.name async for a in attempt.artifacts.all()] == ["profile.json"]
    await agent.socket.disconnect()


async def test_a_start_is_repeated_after_a_lost_connection_until_it_was_accepted():
    worker, token = await enrol_device()
    agent = await connect_agent(token)
    await submit_task_for(worker)
    first = await agent.receive()
    await agent.socket.disconnect()
    again = await connect_agent(token)
    second = await again.receive()
    assert second.attempt == first.attempt
    await again.send(AttemptAccepted(attempt=first.attempt))
    await again.receive()
    await again.socket.disconnect()
    third = await connect_agent(token, running=frozenset({first.attempt}))
    assert await third.socket.receive_nothing(0.2)
    await third.socket.disconnect()


async def test_an_agent_that_lost_an_accepted_attempt_gets_the_task_again():
    worker, token = await enrol_device()
    agent = await connect_agent(token)
    task = await submit_task_for(worker)
    first = await agent.receive()
    await agent.send(AttemptAccepted(attempt=first.attempt))
    await agent.receive()
    await agent.socket.disconnect()
    again = await connect_agent(token)
    await run_dispatcher(worker)
    second = await again.receive()
    assert second.attempt != first.attempt
    attempt = await Attempt.objects.aget(pk=second.attempt)
    assert (attempt.task_id, attempt.number) == (task.pk, 2)
    await again.socket.disconnect()


@pytest.mark.parametrize("how", ["hello", "heartbeat"])
async def test_an_agent_must_cancel_attempts_that_the_server_gave_up(how):
    """The lease expired while the connection was down, and the task has another attempt."""
    worker, token = await enrol_device()
    agent = await connect_agent(token)
    await submit_task_for(worker)
    start = await agent.receive()
    await agent.send(AttemptAccepted(attempt=start.attempt))
    await agent.receive()
    attempt = await Attempt.objects.select_related("task").aget(pk=start.attempt)
    await database_sync_to_async(lose_attempt)(attempt, reason="lease_expired")
    await run_dispatcher(worker)
    assert (await agent.receive()).type == "start"  # the next attempt
    running = frozenset({start.attempt})
    if how == "hello":
        await agent.socket.disconnect()
        agent = await connect_agent(token, running=running)
    else:
        await agent.send(Heartbeat(sent_at=0, running=running))
    order = await agent.receive()
    assert (order.type, order.attempt) == ("cancel", start.attempt)
    await agent.socket.disconnect()


async def test_a_cancel_reaches_the_agent():
    worker, token = await enrol_device()
    agent = await connect_agent(token)
    task = await submit_task_for(worker)
    start = await agent.receive()
    await agent.send(AttemptAccepted(attempt=start.attempt))
    await agent.receive()
    await database_sync_to_async(cancel_task)(await Task.objects.aget(pk=task.pk))
    cancel = await agent.receive()
    assert (cancel.type, cancel.attempt) == ("cancel", start.attempt)
    await agent.send(AttemptFinished(attempt=start.attempt, at=0, reason=EndReason.CANCELLED))
    await agent.receive()
    await task.arefresh_from_db()
    assert task.status == "cancelled"
    await agent.socket.disconnect()


async def test_reports_about_an_attempt_of_another_device_are_acknowledged_and_ignored():
    worker, token = await enrol_device()
    agent = await connect_agent(token)
    await submit_task_for(worker)
    start = await agent.receive()
    _, other_token = await enrol_device("other")
    stranger = await connect_agent(other_token)
    for attempt in (start.attempt, uuid.uuid4()):
        report = AttemptFinished(attempt=attempt, at=0, reason=EndReason.EXITED, exit_code=0)
        await stranger.send(report)
        assert (await stranger.receive()).of == "attempt.finished"
    offered = (FileOffer(name="profile.json", size_bytes=1, md5=MD5),)
    await stranger.send(AttemptUploads(attempt=start.attempt, files=offered))
    assert (await stranger.receive()).targets[0].url == ""
    attempt = await Attempt.objects.aget(pk=start.attempt)
    assert attempt.ended_at is None
    await agent.socket.disconnect()
    await stranger.socket.disconnect()


async def test_an_agent_can_upload_only_files_of_its_attempt():
    worker, token = await enrol_device()
    agent = await connect_agent(token)
    await submit_task_for(worker)
    start = await agent.receive()
    files = (FileOffer(name="other.bin", size_bytes=1, md5=MD5),)
    await agent.send(AttemptUploads(attempt=start.attempt, files=files))
    assert (await agent.receive()).targets[0].url == ""
    await agent.socket.disconnect()
    await asyncio.sleep(0)


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
    await Worker.objects.filter(pk=worker.pk).aupdate(labels={"chip": "set here"})
    agent = await FakeAgent(token).connect()
    labels = {"chip": "said there", "build": "nightly"}
    await agent.send(
        Hello(agent_version="1", facts=FACTS.model_copy(update={"labels": labels}), runtimes=())
    )
    assert (await agent.receive()).type == "welcome"
    await worker.arefresh_from_db()
    assert labels_of(worker) == {"build": "nightly", "chip": "set here"}
    assert worker.labels == {"chip": "set here"}
