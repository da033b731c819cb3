"""Tests of WebSockets while Redis fails and returns."""

import asyncio
import contextlib
import signal
import time

import pytest
from redis import Redis

from webprofile.observability.tests.parts import RedisServer
from webprofile.operations.devserver.layout import free_ports
from webprofile.realtime.layer import SEND_S, PatientLayer
from webprofile.settings.environment import broker_of, patient


@pytest.fixture
def redis(tmp_path):
    server = RedisServer(tmp_path, port=free_ports(1)[0])
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def layer(redis):
    layer = PatientLayer(patient(redis.url))
    yield layer
    await layer.flush()


async def send_until_received(layer, receiver) -> None:
    """Send messages until the receiver gets one, as messages are lost while Redis is down."""
    async with asyncio.timeout(60):
        while not receiver.done():
            await layer.group_send("worker.1", {"type": "poke"})
            await asyncio.wait({receiver}, timeout=0.2)
    assert receiver.result() == {"type": "poke"}


async def test_receiver_continues_after_a_redis_restart(redis, layer):
    channel = await layer.new_channel()
    await layer.group_add("worker.1", channel)
    receiver = asyncio.create_task(layer.receive(channel))
    await asyncio.sleep(0.3)
    redis.kill()
    await layer.group_send("worker.1", {"type": "poke"})
    await asyncio.sleep(1)
    assert not receiver.done()
    redis.start()
    await send_until_received(layer, receiver)


async def test_message_reaches_current_members_of_its_group(layer):
    staying, leaving = await layer.new_channel(), await layer.new_channel()
    await layer.group_add("worker.1", staying)
    await layer.group_add("worker.1", leaving)
    await layer.group_add("worker.2", leaving)
    await layer.group_discard("worker.1", leaving)
    receivers = [asyncio.create_task(layer.receive(channel)) for channel in (staying, leaving)]
    await send_until_received(layer, receivers[0])
    assert not receivers[1].done()
    await layer.group_send("worker.2", {"type": "other"})
    assert await asyncio.wait_for(receivers[1], 10) == {"type": "other"}


@pytest.mark.exhaustive
async def test_receiver_that_joins_without_redis_receives_once_it_is_back(redis, layer):
    redis.kill()
    channel = await layer.new_channel()
    await layer.group_add("worker.1", channel)
    receiver = asyncio.create_task(layer.receive(channel))
    redis.start()
    await send_until_received(layer, receiver)


@pytest.mark.exhaustive
async def test_sender_is_not_blocked_by_a_hanging_redis(redis, layer):
    channel = await layer.new_channel()
    await layer.group_add("worker.1", channel)
    receiver = asyncio.create_task(layer.receive(channel))
    redis.process.send_signal(signal.SIGSTOP)
    try:
        begin = time.monotonic()
        for _ in range(20):
            await layer.group_send("worker.1", {"type": "poke"})
        took_s = time.monotonic() - begin
    finally:
        redis.process.send_signal(signal.SIGCONT)
    # only the first call waits for a timeout
    assert took_s < 10 * SEND_S
    await send_until_received(layer, receiver)


async def test_listener_ends_although_a_library_drops_its_cancellation(layer, monkeypatch):
    """The thread of `/readyz` that ends its listener would hang, and no other would be started."""
    subscribe = layer._redis.new_channel

    async def subscribe_late() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return await subscribe()

    monkeypatch.setattr(layer._redis, "new_channel", subscribe_late)
    await layer.new_channel()
    await asyncio.wait_for(layer.flush(), 30)


async def test_thread_sends_to_many_groups_and_reconnects(redis, layer):
    receivers = []
    for group in ("worker.1", "worker.2"):
        channel = await layer.new_channel()
        await layer.group_add(group, channel)
        receivers.append(asyncio.create_task(layer.receive(channel)))
    message = {"type": "poke"}
    await asyncio.to_thread(layer.send_to_groups, {"worker.1", "worker.2", "worker.3"}, message)
    assert await asyncio.wait_for(asyncio.gather(*receivers), 10) == [message, message]
    # a closed connection loses no message
    with Redis.from_url(redis.url) as other:
        assert other.client_kill_filter(_type="normal", skipme=True)
    again = asyncio.create_task(layer.receive(channel))
    await asyncio.to_thread(layer.send_to_groups, {group}, message)
    assert await asyncio.wait_for(again, 10) == message


async def test_thread_is_not_blocked_by_a_hanging_or_dead_redis(redis, layer):
    def send_20_times_s() -> float:
        begin = time.monotonic()
        for _ in range(20):
            layer.send_to_groups({"worker.1"}, {"type": "poke"})
        return time.monotonic() - begin

    await asyncio.to_thread(layer.send_to_groups, {"worker.1"}, {"type": "poke"})
    redis.process.send_signal(signal.SIGSTOP)
    try:
        assert await asyncio.to_thread(send_20_times_s) < 10 * SEND_S
    finally:
        redis.process.send_signal(signal.SIGCONT)
    redis.kill()
    assert await asyncio.to_thread(send_20_times_s) < 10 * SEND_S


def test_redis_url_gets_default_timeouts():
    limits = "socket_timeout=10&health_check_interval=10"
    assert patient("unix:///run/redis.sock?db=0") == f"unix:///run/redis.sock?{limits}&db=0"
    assert patient("redis://:secret@redis:6379/1") == (
        f"redis://:secret@redis:6379/1?{limits}&socket_connect_timeout=5"
    )
    assert "socket_timeout=60" in patient("redis://redis:6379/1?socket_timeout=60")


def test_broker_url_of_redis_gets_the_same_timeouts():
    url = broker_of("redis://broker:6379/0")["OPTIONS"]["url"]
    assert url == patient("redis://broker:6379/0") == patient(url)
