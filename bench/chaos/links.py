"""TCP proxy between two parts that can cut, silence and slow down connections."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bench.chaos.frames import Fate, Frames, always_once

_PIECE = 1 << 16
_CLIENT_HEAD = b"GET /ws/"
_SERVER_HEAD = b"HTTP/1.1 101 "

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Slowness:
    """`latency_s` of each piece, and a rate for all bytes of one direction."""

    latency_s: float
    bytes_per_s: float


def to_port(port: int) -> Callable[[], Awaitable[Streams]]:
    return lambda: asyncio.open_connection("127.0.0.1", port)


def to_socket(path: Path) -> Callable[[], Awaitable[Streams]]:
    return lambda: asyncio.open_unix_connection(path)


class Link:
    """Listens where one part believes the other to be. `frames`: it can lose single frames too."""

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
        """Listen at a free port of the loopback address; return it."""
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def listen_at_socket(self, path: Path) -> None:
        self._server = await asyncio.start_unix_server(self._take, path)

    async def close(self) -> None:
        """Serve nobody any more, for good."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    # -- what is done to it ---------------------------------------------------------------------

    def cut(self) -> None:
        """End every connection and every attempt to make one."""
        self._is_cut = True
        self.break_connections()

    def silence(self) -> None:
        """Let nothing through and say nothing about it, as a firewall does that drops packets."""
        self._flowing.clear()

    def forget_connections(self) -> None:
        """Those that are open never hear anything again, nor their end; new ones work."""
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

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
            pass  # the part behind is away: its caller sees a connection that breaks
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _join(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event
    ) -> None:
        behind, answers = await self._upstream()
        self._open.add(answers)
        there = Frames(_CLIENT_HEAD, lambda: self._fate) if self._frames else None
        back = Frames(_SERVER_HEAD, lambda: self._fate) if self._frames else None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(_Way(reader, answers, there, flowing)))
                group.create_task(self._pump(_Way(behind, writer, back, flowing)))
        except* OSError:
            pass  # one side broke the connection: the other side is told below
        finally:
            self._open.discard(answers)
            answers.transport.abort()

    async def _pump(self, way: "_Way") -> None:
        while piece := await way.source.read(_PIECE):
            await way.flowing.wait()
            if self._is_cut:
                raise ConnectionResetError
            if slowness := self._slowness:
                await asyncio.sleep(slowness.latency_s + len(piece) / slowness.bytes_per_s)
            way.sink.write(way.frames.feed(piece) if way.frames else piece)
            await way.sink.drain()
        await way.flowing.wait()
        with contextlib.suppress(OSError, RuntimeError):
            way.sink.write_eof()


@dataclass(frozen=True)
class _Way:
    """One direction of one connection."""

    source: asyncio.StreamReader
    sink: asyncio.StreamWriter
    frames: Frames | None
    flowing: asyncio.Event
