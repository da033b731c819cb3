"""Connections that a firewall dropped: after one timeout, all of them are replaced."""

import asyncio
import contextlib
import hashlib

import httpx2
import pytest

from agent.link import transfers
from agent.link.cache import ContentCache
from agent.link.retries import Policies, Policy
from agent.link.transfers import Transfer
from agent.protocol.messages import InputFile
from agent.tests.fakes import wait_until

CONTENT = b"model" * 100
POLICIES = Policies(download=Policy(tries=3, first_s=0.01, most_s=0.02))


class Storage:
    """Answers requests over persistent connections, until the connections are dropped."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.unanswered: list[str] = []
        #: sends the rest of slow answers at once
        self.hurry = asyncio.Event()
        #: number of requests that must arrive before the first is answered
        self.awaited_requests = 1
        self._known: set[asyncio.StreamWriter] = set()
        self._forgotten: set[asyncio.StreamWriter] = set()
        self._requested = asyncio.Condition()

    async def close_connections(self) -> None:
        for writer in self._known:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def forget(self) -> None:
        self._forgotten |= self._known

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._known.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                name = head.split()[1].decode().removeprefix("/")
                self.requests.append(name)
                if writer in self._forgotten:
                    self.unanswered.append(name)
                    continue
                async with self._requested:
                    self._requested.notify_all()
                    await self._requested.wait_for(
                        lambda: len(self.requests) >= self.awaited_requests
                    )
                await self._answer(writer, slowly=name == "slow")
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, *, slowly: bool) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CONTENT))
        for begin in range(len(CONTENT)):
            writer.write(CONTENT[begin : begin + 1])
            await writer.drain()
            if slowly and not self.hurry.is_set():
                await asyncio.sleep(0.1)


@pytest.fixture
async def storage():
    fake = Storage()
    async with await asyncio.start_server(fake.serve, "127.0.0.1", 0) as server:
        fake.port = server.sockets[0].getsockname()[1]
        yield fake
        await fake.close_connections()


@pytest.fixture
async def transfer(monkeypatch, tmp_path):
    monkeypatch.setattr(transfers, "_TIMEOUT", httpx2.Timeout(2.0))
    fake = Transfer(POLICIES, ContentCache(tmp_path / "cache", 0))
    yield fake
    await fake.close()


def files(storage, *names):
    digest = hashlib.md5(CONTENT).hexdigest()
    address = f"http://127.0.0.1:{storage.port}"
    return tuple(
        InputFile(name=name, url=f"{address}/{name}", size_bytes=len(CONTENT), md5=digest)
        for name in names
    )


async def test_only_one_of_several_dropped_connections_times_out(storage, transfer, tmp_path):
    storage.awaited_requests = 4
    await transfer.fetch_all(files(storage, "a", "b", "c", "d"), tmp_path)
    storage.forget()
    await transfer.fetch_all(files(storage, "next"), tmp_path)
    assert storage.unanswered == ["next"]
    assert (tmp_path / "next").read_bytes() == CONTENT


async def test_a_dropped_connection_does_not_break_a_slow_one(storage, transfer, tmp_path):
    storage.awaited_requests = 2
    await transfer.fetch_all(files(storage, "a", "b"), tmp_path)
    slow = asyncio.create_task(transfer.fetch_all(files(storage, "slow"), tmp_path))
    await wait_until(lambda: "slow" in storage.requests)
    storage.forget()
    await transfer.fetch_all(files(storage, "next"), tmp_path)
    assert not slow.done()
    storage.hurry.set()
    await slow
    assert (tmp_path / "slow").read_bytes() == (tmp_path / "next").read_bytes() == CONTENT
    assert storage.requests.count("slow") == 1
    assert storage.unanswered == ["next"]
