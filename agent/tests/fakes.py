"""A fake server for the real agent: a socket, object storage, and a fake load_and_run."""

import asyncio
import contextlib
import hashlib
import io
import json
import stat
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from agent.device.process_table import read_environment, read_pids, read_stat
from agent.execution.processes import ATTEMPT_VARIABLE
from agent.execution.sandbox import Sandbox, find_sandbox
from agent.protocol.messages import (
    Ack,
    AgentMessage,
    AttemptFinished,
    AttemptStarted,
    AttemptUploads,
    Hello,
    InputFile,
    ServerMessage,
    Start,
    Uploads,
    UploadTarget,
    Welcome,
    decode_agent,
    encode,
)
from agent.protocol.notes import Note
from agent.tests.http_sites import QuietHandler
from webprofile.tests.needs import need

TOKEN = "mgw_secret"
MODEL = b"mgv2" * 100
#: for events that take much less time unless the machine is busy
TIMEOUT_S = 30.0


def explanation(end: AttemptFinished) -> str:
    """Return the English text that explains the end of an attempt."""
    return " ".join([*map(str, end.notes), end.detail]).strip()


def npy_bytes(values: list[Any]) -> bytes:
    """An npy file of float32."""
    file = io.BytesIO()
    np.save(file, np.array(values, dtype=np.float32))
    return file.getvalue()


class Storage:
    """Object storage: GET returns `files`, PUT fills `stored`. `error_statuses` come first."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"model.mge": MODEL, "data.npy": npy_bytes([1.0, 2.0, 3.0])}
        self.stored: dict[str, bytes] = {}
        self.put_headers: list[dict[str, str]] = []
        self.error_statuses: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.delay_s = 0.0
        self.closing = threading.Event()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(self))

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/{name}?signature=secret"

    def input_file(self, name: str, variable: str = "", **changes: Any) -> InputFile:
        content = self.files[name]
        facts = {
            "name": name,
            "input": variable,
            "url": self.url(name),
            "size_bytes": len(content),
            "md5": hashlib.md5(content).hexdigest(),
        }
        return InputFile(**{**facts, **changes})


def _make_handler(storage: Storage) -> type[BaseHTTPRequestHandler]:
    class StorageHandler(QuietHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        timeout = 10

        def do_GET(self) -> None:
            name = self._name()
            if not self._sent_error(name):
                storage.closing.wait(storage.delay_s)
                self.answer(200, storage.files[name])

        def do_PUT(self) -> None:
            name = self._name()
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not self._sent_error(name):
                storage.stored[name] = body
                storage.put_headers.append(dict(self.headers))
                self.answer(200, b"")

        def _name(self) -> str:
            name = self.path.split("?")[0].strip("/")
            storage.requests.append(f"{self.command} {name}")
            return name

        def _sent_error(self, name: str) -> bool:
            statuses = storage.error_statuses.get(name)
            if statuses:
                self.answer(statuses.pop(0), b"no")
                return True
            return False

    return StorageHandler


@dataclass(frozen=True)
class HeartbeatRequest:
    """A heartbeat over HTTP; `at` is monotonic."""

    at: float
    running: frozenset[uuid.UUID]


class FrontServer:
    """A front server: answers heartbeats over HTTP, forwards the rest to the socket's server.

    `status` is the answer to a heartbeat; 404 is that of a server without such a URL. `has_orders`
    tells the agent to fetch orders by a heartbeat on the socket.
    """

    def __init__(self) -> None:
        self.heartbeats: list[HeartbeatRequest] = []
        self.status = 200
        self.has_orders = False
        self._inner_port = 0
        self._forgotten = 0

    async def open(self, port: int, inner_port: int) -> int:
        """Listen; return the port."""
        self._inner_port = inner_port
        self._server = await asyncio.start_server(self._greet, "127.0.0.1", port)
        return self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        self._server.close()

    def forget(self) -> None:
        """Drop all data of the open tunnels silently."""
        self._forgotten += 1

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET "):
                await self._tunnel(head, reader, writer)
                return
            while head:
                await self._receive_heartbeat(head, reader, writer)
                head = await reader.readuntil(b"\r\n\r\n")

    async def _receive_heartbeat(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        first, *lines = head.decode().split("\r\n")
        fields = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines)
        }
        assert first == "POST /api/agent/heartbeat/ HTTP/1.1"
        assert fields["authorization"] == f"Bearer {TOKEN}"
        body = json.loads(await reader.readexactly(int(fields["content-length"])))
        if self.status == 200:
            self.heartbeats.append(
                HeartbeatRequest(time.monotonic(), frozenset(map(uuid.UUID, body["running"])))
            )
        answer = json.dumps({"has_orders": self.has_orders}).encode()
        writer.write(b"HTTP/1.1 %d -\r\nContent-Length: %d\r\n\r\n" % (self.status, len(answer)))
        writer.write(answer)
        await writer.drain()

    async def _tunnel(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._inner_port)
        with contextlib.closing(inner_writer):
            inner_writer.write(head)
            directions = (self._pump(reader, inner_writer), self._pump(inner_reader, writer))
            await asyncio.gather(*directions, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one direction until its end, including the end."""
        since = self._forgotten
        while piece := await reader.read(1 << 16):
            if since == self._forgotten:
                writer.write(piece)
                await writer.drain()
        writer.write_eof()


class FakeServer:
    """Speaks the protocol and records all frames. Its answers can be disabled."""

    def __init__(self, storage: Storage, port: int = 0) -> None:
        self.storage, self.port = storage, port
        self.received: list[AgentMessage] = []
        self.times: list[float] = []
        self.acks = {"attempt.accepted", "attempt.finished"}
        self.answers_uploads = True
        #: name of a file -> reason why the server rejects it
        self.rejected_files: dict[str, Note] = {}
        self.welcomes = True
        self.heartbeat_s = 60.0
        #: version of the agent that the server offers
        self.agent_version = ""
        #: whether the end of each attempt is followed by the order of another one
        self.has_full_queue = False
        self.reject_status: int | None = None
        self.authorization: list[str] = []
        self.connection: ServerConnection | None = None
        self.front = FrontServer()
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> "FakeServer":
        self._server = await serve(
            self._handle, "127.0.0.1", 0, process_request=self._check, compression=None
        )
        inner_port = self._server.sockets[0].getsockname()[1]
        self.port = await self.front.open(self.port, inner_port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.front.close()
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def make_order(self, **changes: Any) -> Start:
        facts = {
            "attempt": uuid.uuid4(),
            "runtime": "1.13.0",
            "model": self.storage.input_file("model.mge"),
            # most programs of these tests do not list the inputs of the model
            "fill": False,
            "timeout_s": 30,
            "grace_s": 0.3,
        }
        return Start(**{**facts, **changes})

    async def send(self, message: ServerMessage) -> None:
        await self.wait(lambda: self.connection is not None)
        assert self.connection is not None
        await self.connection.send(encode(message))

    async def drop(self, code: int = 1012) -> None:
        assert self.connection is not None
        connection, self.connection = self.connection, None
        await connection.close(code)

    async def wait(self, predicate: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(predicate)

    def messages(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.received if isinstance(message, kind)]

    async def expect(self, kind: type[Any], count: int = 1) -> Any:
        """Wait for the count-th message of this kind and return it."""
        await self.wait(lambda: len(self.messages(kind)) >= count)
        return self.messages(kind)[count - 1]

    async def send_order(self, **changes: Any) -> Start:
        """Order an attempt; return the order."""
        order = self.make_order(**changes)
        await self.send(order)
        return order

    async def start_attempt(self, **changes: Any) -> Start:
        """Order an attempt and wait until its process runs."""
        order = await self.send_order(**changes)
        await self.wait(
            lambda: order.attempt in {started.attempt for started in self.messages(AttemptStarted)}
        )
        return order

    async def run(self, **changes: Any) -> AttemptFinished:
        """Order an attempt and wait for its end."""
        return await self.wait_for_end(await self.send_order(**changes))

    def between(self, begin_s: float, end_s: float) -> list[AgentMessage]:
        """Return the messages received between two monotonic times."""
        pairs = zip(self.received, self.times, strict=True)
        return [message for message, at in pairs if begin_s < at < end_s]

    async def wait_for_end(self, order: Start, timeout_s: float = TIMEOUT_S) -> AttemptFinished:
        def find_ends() -> list[AttemptFinished]:
            return [end for end in self.messages(AttemptFinished) if end.attempt == order.attempt]

        await self.wait(lambda: bool(find_ends()), timeout_s)
        return find_ends()[0]

    def log_text(self) -> str:
        return self.storage.stored["log.txt"].decode()

    async def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        self.authorization.append(request.headers.get("Authorization", ""))
        if self.reject_status is not None:
            return connection.respond(HTTPStatus(self.reject_status), "no\n")
        assert request.path == "/ws/agent/"
        return None

    async def _handle(self, connection: ServerConnection) -> None:
        try:
            await self._converse(connection)
        except ConnectionClosed:
            pass
        finally:
            if self.connection is connection:
                self.connection = None

    async def _converse(self, connection: ServerConnection) -> None:
        while True:
            frame = await connection.recv()
            message = decode_agent(frame)
            if isinstance(message, Hello) and self.welcomes:
                welcome = Welcome(
                    worker="local",
                    server_time=time.time(),
                    heartbeat_s=self.heartbeat_s,
                    agent_version=self.agent_version,
                )
                await connection.send(encode(welcome))
                self.connection = connection
            async with self._changed:
                self.received.append(message)
                self.times.append(time.monotonic())
                self._changed.notify_all()
            await self._answer(connection, message)

    async def _answer(self, connection: ServerConnection, message: AgentMessage) -> None:
        if message.type in self.acks:
            await connection.send(encode(Ack(of=message.type, attempt=message.attempt)))
        if isinstance(message, AttemptFinished) and self.has_full_queue:
            await connection.send(encode(self.make_order()))
        if isinstance(message, AttemptUploads) and self.answers_uploads:
            targets = tuple(
                UploadTarget(name=file.name, url="", refused=self.rejected_files[file.name])
                if file.name in self.rejected_files
                else UploadTarget(
                    name=file.name, url=self.storage.url(file.name), headers={"X-Given": "1"}
                )
                for file in message.files
            )
            await connection.send(encode(Uploads(attempt=message.attempt, targets=targets)))


def profile_of(operators: list[tuple[str, str, float]]) -> bytes:
    """Return a profile of operators: name, type and time in s."""
    return json.dumps(
        {
            "graph_exec": {
                "operator": {
                    str(key): {"name": name, "type": kind, "id": str(key)}
                    for key, (name, kind, _) in enumerate(operators)
                }
            },
            "profiler": {
                "device": {
                    str(key): {"cpu0": {"start": 1.0, "kern": 1.0, "end": 1.0 + time_s}}
                    for key, (_, _, time_s) in enumerate(operators)
                }
            },
        }
    ).encode()


#: imports little: `signal` and `subprocess` take as long as the start of the interpreter
PREAMBLE = """\
import os, sys, time
def say(text):
    os.write(2, text.encode() + b"\\n")
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)
def write_profile(text='{"graph_exec": {}}'):
    for argument in sys.argv:
        if argument.startswith("--profile="):
            open(argument.split("=", 1)[1], "w").write(text)
"""

NORMAL_RUN = """\
say("load model: 55.830ms")
say("=== prepare: 5.544ms; going to warmup")
say("warm up 0  159.245ms")
for i in range(3):
    say(f"iter {i}/3: e2e=116.643 ms (host=0.778 ms)")
say("=== finished test #0: time=350 ms avg_time=116 ms standard_deviation=6 ms min=1 ms max=2 ms")
say("=== total time: 350.0ms")
write_profile()
"""


def make_load_and_run(folder: Path, body: str = NORMAL_RUN) -> Path:
    """Write a program that runs the script `body`."""
    path = folder / "load_and_run"
    # -S -E: no site packages, a start within 20 ms
    path.write_text(f"#!{sys.executable} -SE\n{PREAMBLE}\n{textwrap.dedent(body)}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


#: program of an agent; arguments: URL of the server, spool, kind of the runtime, whether it uses
#: the sandbox, Python of a wheel that runs scripts (or nothing), and the command of the runtime
_AGENT = """\
import asyncio, sys
from pathlib import Path
from agent.config import Config
from agent.daemon import work
from agent.inventory import LocalRuntime
from agent.protocol.messages import RuntimeInfo
from agent.link.retries import Policies
from agent.execution.runner import adopt_orphans
from agent.execution.sandbox import Sandbox
_, server, spool, kind, boxed, python, *command = sys.argv
adopt_orphans()
config = Config(
    server=server,
    token="mgw_secret",
    spool=Path(spool),
    allow_scripts=bool(python),
    canary=False,
)
runtime = LocalRuntime(RuntimeInfo(version="1.13.0", kind=kind), tuple(command), path=python)
sandbox = None if boxed else Sandbox()
asyncio.run(work(config, Policies(), {"1.13.0": runtime}, sandbox))
"""


async def start_agent(
    server: FakeServer,
    spool: Path,
    kind: str,
    command: Sequence[str],
    *,
    boxed: bool = False,
    python: str = "",
) -> asyncio.subprocess.Process:
    """Start an agent that a test can kill."""
    words = [server.url, str(spool), kind, "boxed" if boxed else "", python, *command]
    return await asyncio.create_subprocess_exec(sys.executable, "-c", _AGENT, *words)


def marked_processes(attempt: uuid.UUID) -> list[int]:
    """Return the pids of the processes that have the mark of an attempt."""
    variable, pids = f"{ATTEMPT_VARIABLE}={attempt}".encode(), []
    for pid in read_pids():
        with contextlib.suppress(OSError):
            if variable in read_environment(pid):
                pids.append(pid)
    return pids


def is_alive(pid: int) -> bool:
    """Return whether a process is running; a zombie is not, as some inits do not reap."""
    row = read_stat(pid)
    return row is not None and row.state not in "ZX"


def require_sandbox(
    folders: tuple[Path, ...], files: tuple[Path, ...] = (), visible: tuple[Path, ...] = ()
) -> Sandbox:
    """Return the sandbox of this machine; skip the test if there is none."""
    need("bubblewrap")
    sandbox = find_sandbox(folders, files, visible)
    if sandbox.problem:
        pytest.skip(sandbox.problem)
    return sandbox


async def wait_until(predicate: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
    """Poll until a condition is true."""
    async with asyncio.timeout(timeout_s):
        while not predicate():
            await asyncio.sleep(0.01)


async def read_pid(path: Path) -> int:
    """Wait until a process has written its number into a file."""
    await wait_until(lambda: path.exists() and bool(path.read_text().strip()))
    return int(path.read_text())
