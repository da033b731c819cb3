"""Proxy between two parts that can cut, silence and slow down their connections."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bench.chaos.frames import Fate, Frames, always_once

_CHUNK_BYTES = 1 << 16
_CLIENT_HEAD = b"GET /ws/"
_SERVER_HEAD = b"HTTP/1.1 101 "

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Slowness:
    """Delay of each chunk in s, and bandwidth of one direction in bytes/s."""

    latency_s: float
    bytes_per_s: float


def to_port(port: int) -> Callable[[], Awaitable[Streams]]:
    return lambda: asyncio.open_connection("127.0.0.1", port)


def to_socket(path: Path) -> Callable[[], Awaitable[Streams]]:
    return lambda: asyncio.open_unix_connection(path)


class Link:
    """A proxy that listens at the address where one part expects the other.

    `frames`: it can also drop and repeat single WebSocket frames.
    """

    def __init__(
        self, name: str, upstream: Callable[[], Awaitable[Streams]], *, frames: bool = False
    ) -> None:
        self.name = name
        self._upstream, self._frames = upstream, frames
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._is_cut = False
        self._slowness: Slowness | None = None
        self._fate: Fate = always_once
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def listen_at_port(self) -> int:
        """Listen at a free port of the loopback address and return the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def listen_at_socket(self, path: Path) -> None:
        self._server = await asyncio.start_unix_server(self._accept, path)

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    # -- faults ---------------------------------------------------------------------------------

    def cut(self) -> None:
        """Close all connections and refuse new ones until `heal`."""
        self._is_cut = True
        self.break_connections()

    def silence(self) -> None:
        """Hold back all data without closing connections, as a firewall that drops packets."""
        self._flowing.clear()

    def forget_connections(self) -> None:
        """Leave open connections silent for ever, without closing them. New connections work."""
        self._flowing.clear()
        self._flowing = asyncio.Event()
        self._flowing.set()

    def break_connections(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    def slow(self, slowness: Slowness) -> None:
        self._slowness = slowness

    def lose_frames(self, fate: Fate) -> None:
        self._fate = fate

    def heal(self) -> None:
        self._is_cut, self._slowness, self._fate = False, None, always_once
        self._flowing.set()

    # -- connections ----------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        flowing = self._flowing
        try:
            await flowing.wait()
            if not self._is_cut:
                await self._join(reader, writer, flowing)
        except OSError:
            pass  # the upstream part does not listen: the caller sees a broken connection
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _join(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event
    ) -> None:
        upstream_reader, upstream_writer = await self._upstream()
        self._open.add(upstream_writer)
        to_upstream = Frames(_CLIENT_HEAD, lambda: self._fate) if self._frames else None
        to_client = Frames(_SERVER_HEAD, lambda: self._fate) if self._frames else None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, upstream_writer, to_upstream, flowing))
                group.create_task(self._pump(upstream_reader, writer, to_client, flowing))
        except* OSError:
            pass  # one side broke the connection: the other one is closed below
        finally:
            self._open.discard(upstream_writer)
            upstream_writer.transport.abort()

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        frames: Frames | None,
        flowing: asyncio.Event,
    ) -> None:
        """Pass on one direction of one connection."""
        while chunk := await source.read(_CHUNK_BYTES):
            await flowing.wait()
            if self._is_cut:
                raise ConnectionResetError
            if slowness := self._slowness:
                await asyncio.sleep(slowness.latency_s + len(chunk) / slowness.bytes_per_s)
            sink.write(frames.feed(chunk) if frames else chunk)
            await sink.drain()
        await flowing.wait()
        with contextlib.suppress(OSError, RuntimeError):
            sink.write_eof()
