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
from workers.tests.make import FakeAgent, dispatched, enrolled, greeted, waiting
from workers.tokens import issue_code, redeem_code, worker_group

pytestmark = pytest.mark.django_db(transaction=True)


@database_sync_to_async
def enrolled_again(worker: Worker) -> tuple[Worker, str]:
    return redeem_code(issue_code(worker))


async def test_hello_stores_facts_and_is_answered_with_intervals(settings):
    worker, token = await enrolled()
    agent = await FakeAgent(token).connect()
    welcome = await agent.greet()
    assert (welcome.worker, welcome.heartbeat_s) == ("box", settings.HEARTBEAT_S)
    worker = await Worker.objects.aget(pk=worker.pk)
    assert worker.is_online
    assert worker.facts["hostname"] == FACTS.hostname
    assert [r.version async for r in worker.runtimes.all()] == ["1.13.0"]
    await agent.socket.disconnect()


async def test_nul_characters_are_replaced_before_they_reach_the_database():
    """PostgreSQL rejects NUL in text and JSON; an escaped backslash before "u0000" is allowed."""
    worker, token = await enrolled()
    agent = await FakeAgent(token).connect()
    odd = FACTS.model_copy(update={"hostname": "a\x00b", "platform": "\\u0000"})
    await agent.say(Hello(agent_version="1\x00", facts=odd, runtimes=RUNTIMES))
    assert (await agent.hear()).type == "welcome"
    await worker.arefresh_from_db()
    assert worker.facts["hostname"] == "a\ufffdb"
    assert worker.facts["platform"] == "\\u0000"
    assert worker.agent_version == "1\ufffd"
    await agent.socket.disconnect()


@pytest.mark.parametrize("token", ["", "mgw_nonsense"])
async def test_an_unknown_token_closes_with_its_code(token):
    agent = await FakeAgent(token).connect()
    assert await agent.closed_with() == 4401


async def test_a_revoked_token_closes_with_its_code():
    worker, token = await enrolled()
    await database_sync_to_async(revoke_worker)(worker, by=None)
    agent = await FakeAgent(token).connect()
    assert await agent.closed_with() == 4403


async def test_a_token_revoked_during_a_connection_closes_it_at_the_next_frame():
    worker, token = await enrolled()
    agent = await greeted(token)
    await database_sync_to_async(revoke_worker)(worker, by=None)
    await agent.say(Heartbeat(sent_at=0))
    assert await agent.closed_with() == 4403


async def test_a_second_connection_with_the_same_token_replaces_the_first():
    _, token = await enrolled()
    first = await greeted(token)
    second = await greeted(token)
    assert await first.closed_with() == 4409
    await second.say(Heartbeat(sent_at=0))
    assert await second.socket.receive_nothing(0.2)
    await second.socket.disconnect()


async def test_enrolling_again_closes_only_the_former_connection():
    worker, token = await enrolled()
    former = await greeted(token)
    _, token = await enrolled_again(worker)
    assert await former.closed_with() == 4403
    new = await greeted(token)
    # a wake-up that comes late
    await get_channel_layer().group_send(worker_group(worker.pk), {"type": "worker.revoked"})
    assert await new.socket.receive_nothing(0.3)
    await new.socket.disconnect()


async def test_a_revoked_token_does_not_replace_a_valid_connection(monkeypatch):
    """Both agents are connected, and the one with the revoked token got no wake-up."""
    worker, token = await enrolled()
    stale = await FakeAgent(token).connect()

    async def lost(*_):
        pass

    with monkeypatch.context() as patched:
        patched.setattr("channels.layers.InMemoryChannelLayer.group_send", lost)
        _, token = await enrolled_again(worker)
        good = await greeted(token)
    await stale.say(Hello(agent_version="1", facts=FACTS, runtimes=RUNTIMES))
    assert await stale.closed_with() == 4403
    await good.say(Heartbeat(sent_at=0))
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
    _, token = await enrolled()
    agent = await FakeAgent(token).connect()
    await agent.say(frame)
    assert await agent.closed_with() == 4400


async def test_an_agent_with_an_unsupported_protocol_is_closed_with_its_code():
    _, token = await enrolled()
    agent = await FakeAgent(token).connect()
    await agent.say(Hello(protocol=0, agent_version="0", facts=FACTS))
    assert await agent.closed_with() == 4426


async def test_a_task_is_sent_run_and_finished():
    worker, token = await enrolled()
    agent = await greeted(token)
    task = await waiting(worker)
    start = await agent.hear()
    assert (start.type, start.runtime, start.model.name) == ("start", "1.13.0", "model.mge")
    assert [(f.name, f.input) for f in start.data] == [("input-0.npy", "data")]

    await agent.say(AttemptAccepted(attempt=start.attempt))
    assert (await agent.hear()).of == "attempt.accepted"
    await agent.say(AttemptStarted(attempt=start.attempt, at=0, command="load_and_run model.mge"))
    await agent.say(AttemptLog(attempt=start.attempt, seq=1, offset=0, size=3, text="hi\n"))
    files = (FileOffer(name="profile.json", size_bytes=2, md5=MD5),)
    await agent.say(AttemptUploads(attempt=start.attempt, files=files))
    (target,) = (await agent.hear()).targets
    assert f"attempts/{start.attempt}/profile.json" in target.url
    await agent.say(
        AttemptFinished(
            attempt=start.attempt, at=0, reason=EndReason.EXITED, exit_code=0, files=files
        )
    )
    assert (await agent.hear()).of == "attempt.finished"
    await task.arefresh_from_db()
    assert task.state == "processing"
    attempt = await Attempt.objects.aget(pk=start.attempt)
    assert attempt.command == "load_and_run model.mge"
    assert [c.text async for c in attempt.log.all()] == ["hi\n"]
    assert [a.name async for a in attempt.artifacts.all()] == ["profile.json"]
    await agent.socket.disconnect()


async def test_a_start_is_repeated_after_a_lost_connection_until_it_was_accepted():
    worker, token = await enrolled()
    agent = await greeted(token)
    await waiting(worker)
    first = await agent.hear()
    await agent.socket.disconnect()
    again = await greeted(token)
    second = await again.hear()
    assert second.attempt == first.attempt
    await again.say(AttemptAccepted(attempt=first.attempt))
    await again.hear()
    await again.socket.disconnect()
    third = await greeted(token, running=frozenset({first.attempt}))
    assert await third.socket.receive_nothing(0.2)
    await third.socket.disconnect()


async def test_an_agent_that_lost_an_accepted_attempt_gets_the_task_again():
    worker, token = await enrolled()
    agent = await greeted(token)
    task = await waiting(worker)
    first = await agent.hear()
    await agent.say(AttemptAccepted(attempt=first.attempt))
    await agent.hear()
    await agent.socket.disconnect()
    again = await greeted(token)
    await dispatched(worker)
    second = await again.hear()
    assert second.attempt != first.attempt
    attempt = await Attempt.objects.aget(pk=second.attempt)
    assert (attempt.task_id, attempt.number) == (task.pk, 2)
    await again.socket.disconnect()


@pytest.mark.parametrize("how", ["hello", "heartbeat"])
async def test_an_agent_must_cancel_attempts_that_the_server_gave_up(how):
    """The lease expired while the connection was down, and the task has another attempt."""
    worker, token = await enrolled()
    agent = await greeted(token)
    await waiting(worker)
    start = await agent.hear()
    await agent.say(AttemptAccepted(attempt=start.attempt))
    await agent.hear()
    attempt = await Attempt.objects.select_related("task").aget(pk=start.attempt)
    await database_sync_to_async(lose_attempt)(attempt, reason="lease_expired")
    await dispatched(worker)
    assert (await agent.hear()).type == "start"  # the next attempt
    running = frozenset({start.attempt})
    if how == "hello":
        await agent.socket.disconnect()
        agent = await greeted(token, running=running)
    else:
        await agent.say(Heartbeat(sent_at=0, running=running))
    order = await agent.hear()
    assert (order.type, order.attempt) == ("cancel", start.attempt)
    await agent.socket.disconnect()


async def test_a_cancel_reaches_the_agent():
    worker, token = await enrolled()
    agent = await greeted(token)
    task = await waiting(worker)
    start = await agent.hear()
    await agent.say(AttemptAccepted(attempt=start.attempt))
    await agent.hear()
    await database_sync_to_async(cancel_task)(await Task.objects.aget(pk=task.pk))
    cancel = await agent.hear()
    assert (cancel.type, cancel.attempt) == ("cancel", start.attempt)
    await agent.say(AttemptFinished(attempt=start.attempt, at=0, reason=EndReason.CANCELLED))
    await agent.hear()
    await task.arefresh_from_db()
    assert task.status == "cancelled"
    await agent.socket.disconnect()


async def test_reports_about_an_attempt_of_another_device_are_acknowledged_and_ignored():
    worker, token = await enrolled()
    agent = await greeted(token)
    await waiting(worker)
    start = await agent.hear()
    _, other_token = await enrolled("other")
    stranger = await greeted(other_token)
    for attempt in (start.attempt, uuid.uuid4()):
        report = AttemptFinished(attempt=attempt, at=0, reason=EndReason.EXITED, exit_code=0)
        await stranger.say(report)
        assert (await stranger.hear()).of == "attempt.finished"
    offered = (FileOffer(name="profile.json", size_bytes=1, md5=MD5),)
    await stranger.say(AttemptUploads(attempt=start.attempt, files=offered))
    assert (await stranger.hear()).targets[0].url == ""
    attempt = await Attempt.objects.aget(pk=start.attempt)
    assert attempt.ended_at is None
    await agent.socket.disconnect()
    await stranger.socket.disconnect()


async def test_an_agent_can_upload_only_files_of_its_attempt():
    worker, token = await enrolled()
    agent = await greeted(token)
    await waiting(worker)
    start = await agent.hear()
    files = (FileOffer(name="other.bin", size_bytes=1, md5=MD5),)
    await agent.say(AttemptUploads(attempt=start.attempt, files=files))
    assert (await agent.hear()).targets[0].url == ""
    await agent.socket.disconnect()
    await asyncio.sleep(0)


async def test_welcome_contains_the_served_agent_version(settings, tmp_path):
    settings.AGENT_FOLDER = str(tmp_path)
    _, token = await enrolled()
    agent = await FakeAgent(token).connect()
    assert (await agent.greet()).agent_version == ""
    (tmp_path / "manifest.json").write_text(
        '{"version": "0.5.0+1a2b3c4d", "files": {}, "wheel": {"name": "w.whl"}}'
    )
    again = await FakeAgent(token).connect()
    assert (await again.greet()).agent_version == "0.5.0+1a2b3c4d"


async def test_labels_of_administrators_override_those_of_the_agent():
    worker, token = await enrolled()
    await Worker.objects.filter(pk=worker.pk).aupdate(labels={"chip": "set here"})
    agent = await FakeAgent(token).connect()
    labels = {"chip": "said there", "build": "nightly"}
    await agent.say(
        Hello(agent_version="1", facts=FACTS.model_copy(update={"labels": labels}), runtimes=())
    )
    assert (await agent.hear()).type == "welcome"
    await worker.arefresh_from_db()
    assert labels_of(worker) == {"build": "nightly", "chip": "set here"}
    assert worker.labels == {"chip": "set here"}
