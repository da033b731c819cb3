"""Tests of the proxy that cuts, silences and slows down connections."""

import asyncio
import time

import pytest

from bench.chaos.links import Link, Slowness, to_port


@pytest.fixture
async def link():
    async def answer(reader, writer):
        while piece := await reader.read(100):
            writer.write(piece.upper())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    made = Link("to-upper", to_port(server.sockets[0].getsockname()[1]))
    made.port = await made.listen_at_port()
    yield made
    await made.close()
    server.close()


async def ask(link, streams=None):
    reader, writer = streams or await asyncio.open_connection("127.0.0.1", link.port)
    writer.write(b"hello")
    answer = await asyncio.wait_for(reader.read(100), 5)
    if not streams:
        writer.close()
    return answer


async def test_it_passes_on_what_both_sides_say(link):
    assert await ask(link) == b"HELLO"


async def test_a_cut_one_ends_connections_and_refuses_new_ones_until_it_is_healed(link):
    streams = await asyncio.open_connection("127.0.0.1", link.port)
    assert await ask(link, streams) == b"HELLO"
    link.cut()
    with pytest.raises(ConnectionError):
        assert not await ask(link, streams)
        raise ConnectionError
    with pytest.raises(ConnectionError):
        assert not await ask(link)
        raise ConnectionError
    link.heal()
    assert await ask(link) == b"HELLO"


async def test_a_silent_one_keeps_what_was_said_and_goes_on(link):
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    link.silence()
    writer.write(b"hello")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(100), 0.3)
    link.heal()
    assert await asyncio.wait_for(reader.read(100), 5) == b"HELLO"
    writer.close()


async def test_connections_that_were_forgotten_hear_nothing_and_new_ones_work(link):
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    link.silence()
    writer.write(b"hello")
    link.forget_connections()
    link.heal()
    assert await ask(link) == b"HELLO"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(100), 0.3)
    writer.close()


async def test_a_slow_one_takes_its_time(link):
    link.slow(Slowness(latency_s=0.1, bytes_per_s=1e6))
    begin = time.monotonic()
    assert await ask(link) == b"HELLO"
    assert time.monotonic() - begin >= 0.2
