"""The agent under test: its real code with shorter delays."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.config import Config
from agent.daemon import work
from agent.execution import process_pool
from agent.execution.sandbox import Sandbox
from agent.inventory import LocalRuntime
from agent.link.retries import Policies, Policy
from agent.protocol.messages import RuntimeInfo
from agent.tests.fakes import TOKEN, FakeServer, Storage, make_load_and_run, wait_until
from agent.tests.http_sites import serving
from agent.tests.script_device import ScriptDevice, allow_scripts
from agent.tests.warm_device import WarmDevice
from agent.tests.watched_run import WatchedRun

QUICK = Policies(
    download=Policy(tries=3, first_s=0.01, most_s=0.02),
    upload=Policy(tries=4, first_s=0.01, most_s=0.02),
    reconnect=Policy(tries=None, first_s=0.05, most_s=0.1),
    ping_s=0.5,
    repeat_s=0.1,
    unanswered=4,
    watch_s=0.05,
)


class AgentDevice:
    """A device whose agent can be started, stopped and started again over the same spool."""

    def __init__(self, folder: Path, server: FakeServer) -> None:
        self.folder, self.server = folder, server
        self.spool = folder / "spool"
        self.changes: dict[str, Any] = {}
        self.runtimes: dict[str, LocalRuntime] = {}
        # none, so that tests do not depend on the programs of this machine
        self.sandbox = Sandbox()
        self.running: asyncio.Task[None] | None = None
        self.install()

    def install(self, body: str | None = None) -> None:
        """Install a load_and_run that runs the script `body`."""
        args = () if body is None else (body,)
        path = make_load_and_run(self.folder, *args)
        info = RuntimeInfo(version="1.13.0", kind="binary")
        self.runtimes = {"1.13.0": LocalRuntime(info, (str(path),), path=str(path))}

    def config(self) -> Config:
        facts: dict[str, Any] = {
            "server": self.server.url,
            "token": TOKEN,
            "spool": self.spool,
            "grace_s": 0.3,
            # a reading before and after each attempt would prolong all tests
            "canary": False,
        }
        return Config(**{**facts, **self.changes})

    def start(self, body: str | None = None) -> asyncio.Task[None]:
        """Start the agent, with a load_and_run that runs `body` (or the installed one)."""
        if body is not None:
            self.install(body)
        self.running = asyncio.create_task(work(self.config(), QUICK, self.runtimes, self.sandbox))
        return self.running

    async def stop(self) -> None:
        if self.running is not None:
            self.running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.running
            self.running = None

    def attempts(self) -> list[Path]:
        folder = self.spool / "attempts"
        return sorted(folder.iterdir()) if folder.exists() else []

    async def wait_until_forgotten(self) -> None:
        await wait_until(lambda: not self.attempts())


@pytest.fixture
def storage() -> Iterator[Storage]:
    storage = Storage()
    with serving(storage.http):
        yield storage
        storage.closing.set()


@pytest.fixture
async def server(storage: Storage) -> AsyncIterator[FakeServer]:
    async with FakeServer(storage) as server:
        yield server


@pytest.fixture
def watched_run(tmp_path: Path) -> WatchedRun:
    return WatchedRun(tmp_path)


@pytest.fixture
async def device(tmp_path: Path, server: FakeServer) -> AsyncIterator[AgentDevice]:
    device = AgentDevice(tmp_path, server)
    yield device
    await device.stop()


@pytest.fixture
def warm_device(device: AgentDevice, monkeypatch: pytest.MonkeyPatch) -> WarmDevice:
    monkeypatch.setattr(process_pool, "REST_S", 0.1)
    return WarmDevice(device)


@pytest.fixture
async def script_device(
    device: AgentDevice, server: FakeServer, megengine_python: str
) -> ScriptDevice:
    """A started device that runs scripts with MegEngine."""
    allow_scripts(device, megengine_python)
    device.start()
    return ScriptDevice(device, server)
