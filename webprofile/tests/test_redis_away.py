"""Tests of WebSockets while Redis fails and returns."""

import asyncio
import signal
import socket
import subprocess
import time

import pytest
from redis import Redis

from webprofile.operations.devserver.parts import redis_program
from webprofile.realtime.layer import SEND_S, PatientLayer
from webprofile.settings.connections import broker_of, patient


class RedisServer:
    """A server at one port, which may be ended, stopped and started again."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        arguments = ["--port", str(self.port), "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(
            [redis_program(), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError("Redis did not start")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def redis():
    server = RedisServer()
    server.start()
    yield server
    server.end()


@pytest.fixture
async def layer(redis):
    made = PatientLayer(hosts=[{"address": patient(f"redis://127.0.0.1:{redis.port}/0")}])
    yield made
    await made.flush()


async def poke_until_heard(layer, hearing, *, by=None) -> None:
    """Messages may be lost while Redis is away; one after it is back is heard."""
    poke = by or (lambda: layer.group_send("worker.1", {"type": "poke"}))
    async with asyncio.timeout(60):
        while not hearing.done():
            await poke()
            await asyncio.wait({hearing}, timeout=0.2)
    assert hearing.result() == {"type": "poke"}


async def test_who_listens_goes_on_listening_when_redis_was_away(redis, layer):
    channel = await layer.new_channel()
    await layer.group_add("worker.1", channel)
    hearing = asyncio.create_task(layer.receive(channel))
    await asyncio.sleep(0.3)
    redis.end()
    await layer.group_send("worker.1", {"type": "poke"})
    await asyncio.sleep(1)
    assert not hearing.done()
    redis.start()
    await poke_until_heard(layer, hearing)


async def test_a_message_reaches_who_is_in_its_group_now(layer):
    staying, leaving = await layer.new_channel(), await layer.new_channel()
    await layer.group_add("worker.1", staying)
    await layer.group_add("worker.1", leaving)
    await layer.group_add("worker.2", leaving)
    await layer.group_discard("worker.1", leaving)
    hearing = [asyncio.create_task(layer.receive(channel)) for channel in (staying, leaving)]
    await poke_until_heard(layer, hearing[0])
    assert not hearing[1].done()
    await layer.group_send("worker.2", {"type": "told"})
    assert await asyncio.wait_for(hearing[1], 10) == {"type": "told"}


@pytest.mark.exhaustive
async def test_who_comes_while_redis_is_away_listens_once_it_is_back(redis, layer):
    redis.end()
    channel = await layer.new_channel()
    await layer.group_add("worker.1", channel)
    hearing = asyncio.create_task(layer.receive(channel))
    redis.start()
    await poke_until_heard(layer, hearing)


@pytest.mark.exhaustive
async def test_who_sends_is_not_held_up_by_a_redis_that_says_nothing(redis, layer):
    channel = await layer.new_channel()
    await layer.group_add("worker.1", channel)
    hearing = asyncio.create_task(layer.receive(channel))
    redis.process.send_signal(signal.SIGSTOP)
    try:
        begin = time.monotonic()
        for _ in range(20):
            await layer.group_send("worker.1", {"type": "poke"})
        took_s = time.monotonic() - begin
    finally:
        redis.process.send_signal(signal.SIGCONT)
    # the first one finds out, the others do not try
    assert took_s < 20
    await poke_until_heard(layer, hearing)


async def test_a_thread_tells_many_groups_at_once_and_what_was_closed_is_opened_again(redis, layer):
    hearing = []
    for group in ("worker.1", "worker.2"):
        channel = await layer.new_channel()
        await layer.group_add(group, channel)
        hearing.append(asyncio.create_task(layer.receive(channel)))
    message = {"type": "poke"}
    await asyncio.to_thread(layer.send_to_groups, {"worker.1", "worker.2", "worker.3"}, message)
    assert await asyncio.wait_for(asyncio.gather(*hearing), 10) == [message, message]
    # its connection is gone, and nothing is lost by that alone
    with Redis.from_url(f"redis://127.0.0.1:{redis.port}/0") as other:
        assert other.client_kill_filter(_type="normal", skipme=True)
    again = asyncio.create_task(layer.receive(channel))
    await asyncio.to_thread(layer.send_to_groups, {group}, message)
    assert await asyncio.wait_for(again, 10) == message


async def test_a_thread_is_not_held_up_by_a_redis_that_is_gone_or_says_nothing(redis, layer):
    def told_twenty_times_s() -> float:
        begin = time.monotonic()
        for _ in range(20):
            layer.send_to_groups({"worker.1"}, {"type": "poke"})
        return time.monotonic() - begin

    await asyncio.to_thread(layer.send_to_groups, {"worker.1"}, {"type": "poke"})
    redis.process.send_signal(signal.SIGSTOP)
    try:
        assert await asyncio.to_thread(told_twenty_times_s) < 2 * SEND_S
    finally:
        redis.process.send_signal(signal.SIGCONT)
    redis.end()
    assert await asyncio.to_thread(told_twenty_times_s) < SEND_S


def test_an_address_says_how_long_to_wait_unless_its_owner_said_it():
    limits = "socket_timeout=10&health_check_interval=10"
    assert patient("unix:///run/redis.sock?db=0") == f"unix:///run/redis.sock?{limits}&db=0"
    assert patient("redis://:secret@redis:6379/1") == (
        f"redis://:secret@redis:6379/1?{limits}&socket_connect_timeout=5"
    )
    assert "socket_timeout=60" in patient("redis://redis:6379/1?socket_timeout=60")


def test_a_redis_that_is_the_broker_by_its_own_address_is_waited_for_as_long():
    url = broker_of("redis://broker:6379/0")["OPTIONS"]["url"]
    assert url == patient("redis://broker:6379/0") == patient(url)
