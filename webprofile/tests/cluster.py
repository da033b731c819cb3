"""A site with the processes of production for tests, which can be killed one by one."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psycopg

from testdata import DATA
from webprofile.operations.devserver import device, parts, process
from webprofile.operations.devserver.demo import Visitor
from webprofile.operations.devserver.layout import REPOSITORY, free_ports, load_keys, open_home
from webprofile.operations.devserver.supervisor import Part
from webprofile.tests.end_to_end.runs import send

READY_WITHIN_S = 180.0
USER = "demo@example.com"
WORKER = device.WORKER


class Cluster:
    """PostgreSQL, Redis, storage, the dispatcher and `webs` web processes.

    Tests start actors, sweep and agent themselves. `environment` is added to that of `manage.py`
    and of every process. Logs are in `folder`.
    """

    def __init__(self, folder: Path, *, webs: int = 1, **environment: str) -> None:
        self.folder = folder
        self.layout = open_home(folder / "home")
        self.layout.make_folders()
        *self.ports, storage_port = free_ports(webs + 1)
        # the path of a Unix socket has at most 107 bytes
        self._sockets = tempfile.TemporaryDirectory(prefix="mgw-")
        socket = Path(self._sockets.name) / "redis.sock"
        keys = load_keys(self.layout)
        self.site = parts.SiteConfig(self.layout, keys, socket, self.ports[0], storage_port)
        self.environment = parts.environment(self.site, os.environ)
        self.environment |= {"DATABASE_URL": fresh_database(), **environment}
        self._parts: dict[str, Part] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Cluster":
        with contextlib.ExitStack() as stack:
            stack.push(self)
            self._start_all()
            stack.pop_all()
        return self

    def _start_all(self) -> None:
        self.start("redis", parts.redis(self.site))
        self.start("storage", parts.storage(self.site))
        result = self.manage(
            "embedded_prepare", "--admin-email", "root@example.com",
            "--demo-user", USER, "--worker", WORKER, "--enrol",
        )  # fmt: skip
        self.prepared = json.loads(result.stdout.splitlines()[-1])
        self.start("dispatch", parts.dispatch())
        for number, port in enumerate(self.ports):
            self.start(f"web{number}", parts.web(replace(self.site, port=port)))

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self.processes)):
            self.stop(name)
        self._sockets.cleanup()

    def start(self, name: str, part: Part | None = None) -> None:
        """Start a part, or restart one that was stopped, and wait until it is ready."""
        part = self._parts.setdefault(name, part or self._parts.get(name) or parts.sweep())
        with (self.folder / f"{name}.log").open("ab") as log:
            started = subprocess.Popen(
                with_parent_death_signal(part.command),
                cwd=REPOSITORY,
                env=self.environment | dict(part.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes[name] = started
        until(lambda: part.ready is None or part.ready(), what=f"{name} is ready")

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop a part and its child processes; after 12 s it is killed."""
        running = self.processes.pop(name)
        _signal(running.pid, number)
        try:
            running.wait(12)
        except subprocess.TimeoutExpired:
            _signal(running.pid, signal.SIGKILL)
            running.wait(5)
        _signal(running.pid, signal.SIGKILL)

    def manage(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        result = self.try_manage(*arguments, **environment)
        assert result.returncode == 0, result.stdout + result.stderr
        return result

    def try_manage(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            parts.manage(*arguments),
            cwd=REPOSITORY,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def state_of(self, task: int) -> str:
        with psycopg.connect(self.environment["DATABASE_URL"]) as database:
            cursor = database.execute("SELECT state FROM tasks_task WHERE id = %s", [task])
            return str(cursor.fetchone()[0])

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def address(self, web: int = 0) -> str:
        return f"http://127.0.0.1:{self.ports[web]}"

    @contextlib.contextmanager
    def login(self, web: int = 0) -> Iterator[Visitor]:
        """Log in as the ordinary user at one of the web processes."""
        account = {"email": USER, "password": self.prepared["demo"]["password"]}
        visitor = Visitor(self.address(web), account)
        try:
            yield visitor
        finally:
            visitor.close()

    def start_agent(self, program: Path, *, server: str = "") -> None:
        """Enrol a device at `server` whose load_and_run is `program`, and start its agent."""
        server = server or self.address()
        code = self.prepared["enrolment"]["code"]
        enrol = device.enrol_command(self.layout, server, code)
        result = subprocess.run(
            enrol, cwd=REPOSITORY, env=self.environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
        config = self.layout.agent_config
        with config.open("a", encoding="utf-8") as file:
            file.write(f'\n[[runtime]]\nversion = "1.13.0"\nkind = "binary"\npath = "{program}"\n')
        self.start("agent", parts.agent(config))


@contextlib.contextmanager
def balancer(ports: Sequence[int]) -> Iterator[int]:
    """Pass each connection to the first port that accepts it; yield the port of this block."""
    loop = asyncio.new_event_loop()
    up: list[int] = []
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with await asyncio.start_server(
            lambda reader, writer: _pass_on(ports, reader, writer), "127.0.0.1", 0
        ) as server:
            up.append(server.sockets[0].getsockname()[1])
            ready.set()
            await stop.wait()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    ready.wait(10)
    try:
        yield up[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


async def _pass_on(
    ports: Sequence[int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    for port in ports:
        with contextlib.suppress(OSError):
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
            return
    writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until either side closes, then close the writer."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


def submit_tiny(visitor: Visitor, **options: int) -> int:
    """Submit a task with a small model; return its id."""
    data = {"data": DATA / "inputs" / "tiny" / "data.npy"}
    return send(visitor, DATA / "models" / "tiny.mge", data, **options)


def with_parent_death_signal(command: list[str]) -> list[str]:
    """Wrap a command so that the kernel kills it when the test process dies."""
    return [sys.executable, "-I", "-S", process.__file__, str(os.getpid()), *command]


def fresh_database() -> str:
    """Create an empty database on the server of this test run; return its URL."""
    address = os.environ["DATABASE_URL"]
    name = f"cluster_{uuid.uuid4().hex}"
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
    return address.replace("/postgres?", f"/{name}?")


def until(condition: Callable[[], object], *, what: str, within_s: float = READY_WITHIN_S) -> None:
    """Wait until `condition` is true. Raises AssertionError after `within_s`."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if condition():
                return
        time.sleep(0.05)
    raise AssertionError(f"not within {within_s:.0f} s: {what}")


def write_replayer(folder: Path, profile: Path) -> Path:
    """Write a fake load_and_run that takes 5 ms per iteration and copies this profile."""
    path = folder / "load_and_run"
    # next to the program, because the sandbox hides home folders, which may hold the test data
    copy = shutil.copyfile(profile, folder / "replayed.json")
    path.write_text(_REPLAYER.format(python=sys.executable, profile=copy))
    path.chmod(0o755)
    return path


_REPLAYER = """#!{python} -SE
import os, shutil, sys, time
def say(text):
    os.write(2, text.encode() + b"\\n")
if "--help" in sys.argv:
    for name in ("input", "iter", "warmup_iter", "no_sanity_check", "profile", "model_info"):
        print("    -" + name + " (as in load_and_run) type: string default: none")
    print("using MegBrain 1.13.0(0) and MegDNN 9.3.0")
    sys.exit(0)
say("load model: 3.985ms")
say("=== prepare: 2.418ms; going to warmup")
say("warm up 0  17.724ms")
options = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[2:])
time.sleep(0.005 * int(options.get("iter", 3)))
for index in range(3):
    say("iter %d/3: e2e=7.751 ms (host=0.250 ms)" % index)
say("=== finished test #0: time=23.253 ms avg_time=7.751 ms "
    "standard_deviation=0.000 ms min=7.751 ms max=7.751 ms")
say("=== total time: 23.253ms")
if options.get("profile"):
    shutil.copyfile("{profile}", options["profile"])
"""


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)
