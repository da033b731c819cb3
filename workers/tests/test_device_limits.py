"""What one device may occupy: log pieces, sockets, heartbeats, and files that it did not store."""

import asyncio
import hashlib
import json
import time
import uuid

import pytest
from channels.layers import get_channel_layer
from django.test import Client

from agent.protocol.messages import (
    CAUSE_DIGEST,
    AttemptFinished,
    AttemptLog,
    AttemptUploads,
    EndReason,
    FileOffer,
)
from tasks.dispatch import gateway
from tasks.lifecycle.outcomes import ENDS
from tasks.models import Artifact, Attempt, LogChunk, Task, artifact_key
from tasks.tests.make import make_attempt, make_worker
from webprofile.realtime import consumers
from webprofile.storage import storage as object_store
from workers.tests.make import FakeAgent, connect_agent, enrol_device
from workers.tokens import issue_code, redeem_code, worker_group
from workers.views.agents import HTTP_FRAMES

sockets = pytest.mark.usefixtures("disconnect_sockets")
in_transactions = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def new_paces(monkeypatch):
    monkeypatch.setattr(consumers, "_AGENT_PACES", consumers.Paces())


@pytest.mark.django_db
def test_pieces_of_a_log_are_counted_and_empty_ones_not_stored(settings):
    settings.LOG_PIECES_LIMIT = 5
    attempt = make_attempt()

    def send(seq, text):
        size = len(text)
        piece = AttemptLog(attempt=attempt.pk, seq=seq, offset=0, size=size, text=text)
        gateway.handle(attempt.worker, piece)

    for seq in range(1, 4):
        send(seq, "")
    assert not LogChunk.objects.exists()
    for seq in range(1, 20):
        send(seq, "x")
    assert LogChunk.objects.count() == 5


@in_transactions
@sockets
async def test_a_socket_without_hello_is_closed(settings):
    settings.AGENT_HELLO_S = 0.2
    _, token = await enrol_device()
    greeted = await connect_agent(token)
    silent = await FakeAgent(token).connect()
    assert await silent.close_code() == 4400
    assert await greeted.socket.receive_nothing(0.3)


@in_transactions
@sockets
async def test_of_several_sockets_without_hello_only_the_newest_stays_open():
    _, token = await enrol_device()
    working = await connect_agent(token)
    silent = [await FakeAgent(token).connect() for _ in range(4)]
    assert [await agent.close_code() for agent in silent[:-1]] == [4400] * 3
    assert await silent[-1].socket.receive_nothing(0.1)
    assert await working.socket.receive_nothing(0.1)
    # after a change of the network the former connection may look open for minutes: the new wins
    assert (await silent[-1].send_hello()).type == "welcome"
    assert await working.close_code() == 4409


@in_transactions
@sockets
async def test_an_older_connection_that_joins_late_hears_of_the_newer_one():
    worker, token = await enrol_device()
    layer, group = get_channel_layer(), worker_group(worker.pk)
    older = await layer.new_channel()
    newer = await FakeAgent(token).connect()
    # the newer one has joined and announced itself before the older one joins
    assert await newer.socket.receive_nothing(0.5)
    await layer.group_add(group, older)
    await layer.group_send(group, {"type": "worker.connected", "by": older, "at": 0.0})
    async with asyncio.timeout(10):
        own, event = await layer.receive(older), await layer.receive(older)
    assert own["by"] == older
    assert (event["type"], event["at"] > 0) == ("worker.connected", True)


@in_transactions
@sockets
async def test_a_new_connection_does_not_begin_with_a_full_burst(settings):
    settings.AGENT_FRAMES_BURST, settings.AGENT_FRAMES_PER_S = 3, 0.001
    _, token = await enrol_device()
    for _ in range(3):
        agent = await connect_agent(token)
        await agent.socket.disconnect()
    agent = await FakeAgent(token).connect()
    await agent.send("{}")
    assert await agent.close_code() == 4429


def heartbeat(token, body, **headers):
    headers = {"Authorization": f"Bearer {token}"} | headers
    return Client().post(
        "/api/agent/heartbeat/", body, content_type="application/json", headers=headers
    )


def body_of(count):
    return json.dumps({"running": [str(uuid.uuid4()) for _ in range(count)], "sent_at": 1})


@pytest.mark.django_db
def test_heartbeats_by_http_have_the_limits_of_the_socket(settings):
    settings.AGENT_FRAMES_BURST, settings.AGENT_FRAMES_PER_S = 10 * HTTP_FRAMES, 0.001
    _, token = redeem_code(issue_code(make_worker()))
    codes = [heartbeat(token, body_of(1)).status_code for _ in range(12)]
    assert codes == [200] * 10 + [429] * 2


@pytest.mark.django_db
def test_a_heartbeat_names_few_attempts_in_a_short_body():
    _, token = redeem_code(issue_code(make_worker()))
    assert heartbeat(token, body_of(100)).status_code == 200
    assert heartbeat(token, body_of(101)).status_code == 400
    assert heartbeat(token, body_of(6000)).status_code == 413
    # as in a body in chunks, whose length is not announced
    unannounced = Client().generic(
        "POST",
        "/api/agent/heartbeat/",
        body_of(6000),
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
        CONTENT_LENGTH="",
    )
    assert unannounced.status_code in (400, 413)


def offer(name, content):
    return FileOffer(name=name, size_bytes=len(content), md5=hashlib.md5(content).hexdigest())


@pytest.mark.django_db
def test_a_file_counts_as_stored_when_storage_holds_it(storage):
    attempt = make_attempt()
    files = {name: offer(name, name.encode()) for name in ("log.txt", "profile.json")}
    files["profile-2.json"] = offer("profile-2.json", b"as announced")
    wanted = AttemptUploads(attempt=attempt.pk, files=tuple(files.values()))
    gateway.handle(attempt.worker, wanted)
    object_store.write(artifact_key(str(attempt.pk), "profile.json"), b"profile.json")
    object_store.write(artifact_key(str(attempt.pk), "profile-2.json"), b"of other bytes")
    never_offered = offer("measurement.json", b"{}")
    object_store.write(artifact_key(str(attempt.pk), "measurement.json"), b"{}")
    reported = (*files.values(), never_offered)
    report = AttemptFinished(
        attempt=attempt.pk, at=time.time(), reason=EndReason.EXITED, exit_code=0, files=reported
    )
    gateway.handle(attempt.worker, report)
    stored = Artifact.objects.filter(is_stored=True)
    assert list(stored.values_list("name", flat=True)) == ["profile.json"]
    attempt.refresh_from_db()
    assert attempt.end_reason == "exited"


@pytest.mark.django_db
def test_other_bytes_than_announced_fail_the_task_at_once_and_do_not_blame_the_device():
    attempt = make_attempt()
    report = AttemptFinished(
        attempt=attempt.pk,
        at=time.time(),
        reason=EndReason.DOWNLOAD_FAILED,
        cause=CAUSE_DIGEST,
        detail="model.mge: MD5 differs from what was announced",
    )
    gateway.handle(attempt.worker, report)
    task = Task.objects.get()
    assert (task.status, task.reason, task.detail) == ("failed", "file_changed", report.detail)
    assert not ENDS[Attempt.objects.get().end_reason].is_device_at_fault
    assert task.attempts.count() == 1
