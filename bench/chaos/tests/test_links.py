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
    link = Link("to-upper", to_port(server.sockets[0].getsockname()[1]))
    link.port = await link.listen_at_port()
    yield link
    await link.close()
    server.close()


async def exchange(link, streams=None):
    reader, writer = streams or await asyncio.open_connection("127.0.0.1", link.port)
    writer.write(b"hello")
    answer = await asyncio.wait_for(reader.read(100), 5)
    if not streams:
        writer.close()
    return answer


async def test_link_forwards_data_in_both_directions(link):
    assert await exchange(link) == b"HELLO"


async def test_cut_link_ends_connections_and_refuses_new_ones_until_it_is_healed(link):
    streams = await asyncio.open_connection("127.0.0.1", link.port)
    assert await exchange(link, streams) == b"HELLO"
    link.cut()
    with pytest.raises(ConnectionError):
        assert not await exchange(link, streams)
        raise ConnectionError
    with pytest.raises(ConnectionError):
        assert not await exchange(link)
        raise ConnectionError
    link.heal()
    assert await exchange(link) == b"HELLO"


async def test_silent_link_holds_data_back_and_delivers_it_later(link):
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    link.silence()
    writer.write(b"hello")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(100), 0.3)
    link.heal()
    assert await asyncio.wait_for(reader.read(100), 5) == b"HELLO"
    writer.close()


async def test_forgotten_connections_receive_nothing_and_new_ones_work(link):
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    link.silence()
    writer.write(b"hello")
    link.forget_connections()
    link.heal()
    assert await exchange(link) == b"HELLO"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(100), 0.3)
    writer.close()


async def test_slow_link_delays_data(link):
    link.slow(Slowness(latency_s=0.1, bytes_per_s=1e6))
    begin = time.monotonic()
    assert await exchange(link) == b"HELLO"
    assert time.monotonic() - begin >= 0.2
