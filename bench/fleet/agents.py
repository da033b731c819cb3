"""Run many simulated agents in one process: `python -m bench.fleet.agents`.

Each agent enrols for a token of its own, opens a real WebSocket and uses the messages of
`agent.protocol`. It accepts a task at once, reports the start, uploads the file that `leave` asks
for and reports the end. It downloads no model and executes nothing.

Commands are lines of JSON on stdin, answers are lines of JSON on stdout:

    {"socket": "ws://...", "http": "http://...", "leave": "profile", "file": "/path"}   first
    {"connect": ["<code>", ...]}         -> {"connected": n, "seconds": s}
    {"count": true}                      -> counters since the previous "count"
"""

import asyncio
import contextlib
import hashlib
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from agent.protocol.artifacts import MEASUREMENT_NAME, profile_name
from agent.protocol.measurement import Measurement, PassRecord
from agent.protocol.messages import (
    AttemptAccepted,
    AttemptFinished,
    AttemptStarted,
    AttemptUploads,
    Cancel,
    EndReason,
    Facts,
    FileOffer,
    Heartbeat,
    Hello,
    RuntimeInfo,
    Start,
    Uploads,
    Welcome,
    decode_server,
    encode,
)
from agent.protocol.plan import Plan

#: most agents that enrol or connect at the same time
AT_ONCE = 16
FACTS = Facts(
    hostname="simulated", platform="Linux", machine="x86_64", cores=2, memory_bytes=1 << 30
)
RUNTIMES = (RuntimeInfo(version="1.13.0", kind="wheel", python="3.10.13"),)


def file_to_leave(leave: str, file: str) -> tuple[str, bytes]:
    """Return name and content of the file that each attempt uploads; ("", b"") for none."""
    if leave == "profile":
        return profile_name(1), Path(file).read_bytes()
    if leave == "times":
        record = PassRecord(number=1, kind="clean", exit_code=0, e2e_ms=tuple([1.5] * 20))
        plan = Plan(preset="custom", clean=True, profiled=0)
        return MEASUREMENT_NAME, Measurement(plan=plan, passes=(record,)).model_dump_json().encode()
    return "", b""


class Fleet:
    """All simulated agents of this process."""

    def __init__(self, first: dict[str, Any], client: httpx2.AsyncClient) -> None:
        self.socket, self.http, self.client = first["socket"], first["http"], client
        self.name, self.content = file_to_leave(first["leave"], first["file"])
        self.counted: Counter[str] = Counter()
        self.connected = 0
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._agents: set[asyncio.Task[None]] = set()

    def offer(self) -> FileOffer:
        digest = hashlib.md5(self.content, usedforsecurity=False).hexdigest()
        return FileOffer(name=self.name, size_bytes=len(self.content), md5=digest)

    async def connect(self, codes: list[str]) -> dict[str, Any]:
        """Enrol and connect one agent for each code, and wait until the server has welcomed all."""
        begin = time.monotonic()
        await asyncio.gather(*map(self._join, codes))
        return {"connected": self.connected, "seconds": time.monotonic() - begin}

    async def _join(self, code: str) -> None:
        async with self._gate:
            answer = await self.client.post(f"{self.http}/api/agent/enrol/", json={"code": code})
            answer.raise_for_status()
            welcomed = asyncio.Event()
            agent = SimulatedAgent(self, answer.json()["token"], welcomed)
            task = asyncio.create_task(agent.live())
            self._agents.add(task)
            task.add_done_callback(self._agents.discard)
            await welcomed.wait()


class SimulatedAgent:
    """One simulated agent. It reconnects after 1 s when its connection breaks."""

    def __init__(self, fleet: Fleet, token: str, welcomed: asyncio.Event) -> None:
        self._fleet, self._token, self._welcomed = fleet, token, welcomed
        self._held: set[UUID] = set()

    async def live(self) -> None:
        headers = {"Authorization": f"Bearer {self._token}"}
        while True:
            try:
                async with connect(
                    self._fleet.socket,
                    additional_headers=headers,
                    compression=None,
                    ping_timeout=60,
                    proxy=None,
                ) as socket:
                    await self._serve(socket)
            except (OSError, WebSocketException, httpx2.HTTPError) as exc:
                code = exc.rcvd.code if isinstance(exc, ConnectionClosed) and exc.rcvd else 0
                self._fleet.counted[f"broken {type(exc).__name__} {code}"] += 1
            await asyncio.sleep(1)

    async def _serve(self, socket: ClientConnection) -> None:
        hello = Hello(
            agent_version="0",
            facts=FACTS,
            runtimes=RUNTIMES,
            running=frozenset(self._held),
        )
        await socket.send(encode(hello))
        beating: asyncio.Task[None] | None = None
        try:
            async for frame in socket:
                match message := decode_server(str(frame)):
                    case Welcome():
                        beating = asyncio.create_task(self._beat(socket, message.heartbeat_s))
                        self._fleet.connected += 1
                        self._welcomed.set()
                    case Start():
                        await self._run(socket, message)
                    case Uploads():
                        await self._store(socket, message)
                    case Cancel():
                        self._held.discard(message.attempt)
        finally:
            if beating is not None:
                self._fleet.connected -= 1
                beating.cancel()

    async def _beat(self, socket: ClientConnection, every_s: float) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await asyncio.sleep(every_s)
                heartbeat = Heartbeat(sent_at=time.time(), running=frozenset(self._held))
                await socket.send(encode(heartbeat))
                self._fleet.counted["heartbeats"] += 1

    async def _run(self, socket: ClientConnection, order: Start) -> None:
        if order.attempt in self._held:
            self._fleet.counted["starts repeated"] += 1
            return
        self._held.add(order.attempt)
        await socket.send(encode(AttemptAccepted(attempt=order.attempt)))
        await socket.send(encode(AttemptStarted(attempt=order.attempt, at=time.time())))
        if self._fleet.name:
            question = AttemptUploads(attempt=order.attempt, files=(self._fleet.offer(),))
            await socket.send(encode(question))
        else:
            await self._finish(socket, order.attempt, exit_code=1)

    async def _store(self, socket: ClientConnection, answer: Uploads) -> None:
        (target,) = answer.targets
        if target.url:
            stored = await self._fleet.client.put(
                target.url, headers=target.headers, content=self._fleet.content
            )
            self._fleet.counted[f"stored {stored.status_code}"] += 1
        await self._finish(socket, answer.attempt, exit_code=0, files=(self._fleet.offer(),))

    async def _finish(
        self,
        socket: ClientConnection,
        attempt: UUID,
        *,
        exit_code: int,
        files: tuple[FileOffer, ...] = (),
    ) -> None:
        end = AttemptFinished(
            attempt=attempt,
            at=time.time(),
            reason=EndReason.EXITED,
            exit_code=exit_code,
            run_s=0.01,
            files=files,
        )
        await socket.send(encode(end))
        self._held.discard(attempt)
        self._fleet.counted["finished"] += 1


async def main() -> None:
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    first = json.loads(await orders.readline())
    limits = httpx2.Limits(max_connections=AT_ONCE)
    async with httpx2.AsyncClient(trust_env=False, timeout=60, limits=limits) as client:
        fleet = Fleet(first, client)
        while line := await orders.readline():
            order = json.loads(line)
            if "connect" in order:
                answer = await fleet.connect(order["connect"])
            else:
                answer = {"connected": fleet.connected, **fleet.counted}
                fleet.counted.clear()
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
