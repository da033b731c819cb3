"""Updates of the agent between attempts, and the reasons for no update."""

import asyncio
import hashlib
import json
import platform
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent import __version__, daemon
from agent.install import update
from agent.install.update import Replaced, UpdateFailed, Updater, is_other
from agent.link.session import AgentTooOld
from agent.protocol.messages import AttemptAccepted, AttemptFinished
from agent.tests.conftest import AgentDevice
from agent.tests.fakes import TIMEOUT_S, wait_until
from agent.tests.http_sites import HttpSite, serving

KIND = f"linux-{platform.machine()}-cp3{sys.version_info[1]}"
NEW = b"new agent" * 100_000
OTHER = "9.9.9+1a2b3c4d"


class UpdateSite(HttpSite):
    """A fake site that serves the manifest and a file."""

    def __init__(self) -> None:
        super().__init__()
        self.file = {"name": "a.pyz", "sha256": hashlib.sha256(NEW).hexdigest(), "size_bytes": 1}
        self.manifest: Any = {"version": OTHER, "files": {KIND: self.file}}
        #: the file is sent when this is set
        self.may_send = threading.Event()
        self.may_send.set()

    def reply(self, path: str, authorization: str, body: bytes) -> tuple[int, bytes]:
        if not path.endswith(".pyz"):
            return 200, json.dumps(self.manifest).encode()
        self.may_send.wait(TIMEOUT_S)
        return 200, NEW


@pytest.fixture
def site() -> Iterator[UpdateSite]:
    site = UpdateSite()
    with serving(site.http):
        yield site


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(update.HOME_VARIABLE, str(tmp_path))
    monkeypatch.setattr(update, "_IDLE_POLL_S", 0.01)
    (tmp_path / "agent.pyz").write_bytes(b"old agent")
    return tmp_path


@pytest.fixture
def updating_device(device: AgentDevice, site: UpdateSite, home: Path, monkeypatch) -> AgentDevice:
    """A device whose agent may update itself from `site`."""
    monkeypatch.setattr(daemon, "Updater", lambda _, held, **more: Updater(site.url, held, **more))
    device.changes["update"] = True
    return device


async def run(updater: Updater) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        await updater.run()


async def test_an_update_replaces_the_agent_and_keeps_the_old_file(site: UpdateSite, home: Path):
    updater = Updater(site.url, set, allowed=True)
    updater.welcomed(OTHER)
    with pytest.raises(Replaced):
        await run(updater)
    assert (home / "agent.pyz").read_bytes() == NEW
    assert (home / "agent.pyz").stat().st_mode & 0o777 == 0o700
    assert (home / "agent.before.pyz").read_bytes() == b"old agent"
    assert (home / "trial").exists()


async def test_an_update_waits_until_no_attempt_is_held(site: UpdateSite, home: Path):
    held = {"an attempt"}
    updater = Updater(site.url, lambda: held, allowed=True)
    updater.welcomed(OTHER)
    running = asyncio.create_task(run(updater))
    await asyncio.sleep(0.1)
    assert "/agent/a.pyz" not in site.requested_paths
    held.clear()
    with pytest.raises(Replaced):
        await running


async def test_orders_are_taken_while_there_is_no_update(site: UpdateSite, home: Path):
    site.manifest = {}
    updater = Updater(site.url, lambda: {"an attempt"}, allowed=True)
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(UpdateFailed):
            await updater.replace()
    assert not updater.leaves_order()


async def test_an_update_that_the_site_withdrew_while_it_waited_is_not_installed(
    site: UpdateSite, home: Path
):
    held = {"an attempt"}
    updater = Updater(site.url, lambda: held, allowed=True)
    replacing = asyncio.create_task(updater.replace())
    await wait_until(updater.leaves_order)
    site.manifest = {}
    held.clear()
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(UpdateFailed):
            await replacing
    assert (home / "agent.pyz").read_bytes() == b"old agent"


async def test_an_update_that_the_site_withdrew_is_not_tried_again(
    site: UpdateSite, home: Path, monkeypatch
):
    monkeypatch.setattr(update, "AGAIN_S", 0.05)
    site.manifest = {}
    updater = Updater(site.url, set, allowed=True)
    updater.welcomed(OTHER)
    running = asyncio.create_task(run(updater))
    await wait_until(lambda: len(site.requested_paths) > 1)
    updater.welcomed(__version__)
    await asyncio.sleep(0.2)
    requests = len(site.requested_paths)
    await asyncio.sleep(0.3)
    assert len(site.requested_paths) == requests
    running.cancel()


async def test_an_agent_whose_queue_is_never_empty_updates_between_two_attempts(
    site: UpdateSite, home: Path, updating_device, server
):
    """It leaves the next order to the new agent, without starting the attempt."""
    server.agent_version, server.has_full_queue = OTHER, True
    agent = updating_device.start()
    await server.send_order()
    await wait_until(lambda: agent.done() or len(server.messages(AttemptFinished)) > 5)
    assert agent.done()
    with pytest.raises(Replaced):
        await agent
    updating_device.running = None
    assert (home / "agent.pyz").read_bytes() == NEW
    accepted = {message.attempt for message in server.messages(AttemptAccepted)}
    assert accepted == {message.attempt for message in server.messages(AttemptFinished)}
    await updating_device.wait_until_forgotten()


async def test_orders_are_taken_again_after_a_failed_update(
    site: UpdateSite, updating_device, server, caplog
):
    site.manifest = {}
    server.agent_version = OTHER
    updating_device.start()
    await wait_until(lambda: "update_failed" in caplog.text)
    assert (await server.run()).exit_code == 0


async def test_a_slow_download_is_given_up_if_an_order_waits(
    site: UpdateSite, updating_device, server, caplog, monkeypatch
):
    """The order's lease on the server would expire, and the task lose an attempt."""
    monkeypatch.setattr(update, "_ORDER_S", 0.2)
    site.may_send.clear()
    server.agent_version = OTHER
    updating_device.start()
    await wait_until(lambda: "/agent/a.pyz" in site.requested_paths)
    await server.send_order()
    await wait_until(lambda: "update_failed" in caplog.text)
    site.may_send.set()
    assert (await server.run()).exit_code == 0


async def test_a_damaged_download_changes_nothing(site: UpdateSite, home: Path):
    site.file["sha256"] = "0" * 64
    updater = Updater(site.url, set, allowed=True)
    with pytest.raises(UpdateFailed, match="damaged"):
        await updater.replace()
    assert (home / "agent.pyz").read_bytes() == b"old agent"
    assert not (home / "trial").exists()


@pytest.mark.parametrize(
    "manifest",
    [
        [],
        {},
        {"version": OTHER, "files": {}},
        {"version": OTHER, "files": {"linux-riscv64-cp311": {}}},
        {"version": __version__, "files": {}},
    ],
)
async def test_a_manifest_without_a_file_for_this_device_changes_nothing(site, home, manifest):
    site.manifest = manifest
    with pytest.raises(UpdateFailed):
        await Updater(site.url, set, allowed=True).replace()
    assert (home / "agent.pyz").read_bytes() == b"old agent"


async def test_a_version_that_failed_is_not_installed_before_its_time(site: UpdateSite, home: Path):
    refused = {"sha256": site.file["sha256"], "times": 1, "until": time.time() + 60}
    (home / "refused.json").write_text(json.dumps(refused))
    with pytest.raises(UpdateFailed, match="did not work"):
        await Updater(site.url, set, allowed=True).replace()
    (home / "refused.json").write_text(json.dumps(refused | {"until": time.time() - 1}))
    with pytest.raises(Replaced):
        await Updater(site.url, set, allowed=True).replace()


async def test_a_successful_login_ends_the_trial(site: UpdateSite, home: Path):
    (home / "trial").touch()
    Updater(site.url, set, allowed=True).welcomed(__version__)
    assert not (home / "trial").exists()


async def test_an_outdated_agent_that_may_not_update_logs_a_warning(site, home, caplog):
    updater = Updater(site.url, set, allowed=False)
    updater.welcomed(OTHER)
    assert not updater.can_update
    assert f"agent_behind own={__version__} served={OTHER}" in caplog.text
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await updater.run()
    assert site.requested_paths == []


async def test_an_agent_in_a_clone_is_never_replaced(site: UpdateSite, monkeypatch, caplog):
    monkeypatch.delenv(update.HOME_VARIABLE, raising=False)
    updater = Updater(site.url, set, allowed=True)
    updater.welcomed(OTHER)
    assert not updater.can_update
    assert "agent_behind" in caplog.text


@pytest.mark.parametrize(
    ("own", "served", "other"),
    [
        ("0.1.0+aaaaaaaa", "0.1.0+bbbbbbbb", True),
        ("0.1.0+aaaaaaaa", "0.1.0+aaaaaaaa", False),
        ("0.1.0+aaaaaaaa", "", False),
        ("0.1.0", "0.1.0+bbbbbbbb", False),
        ("0.1.0", "0.2.0+bbbbbbbb", True),
    ],
)
def test_versions_are_compared_with_their_build(monkeypatch, own, served, other):
    monkeypatch.setattr(update, "__version__", own)
    assert is_other(served) is other


class RefusedSession:
    """A session that is always rejected as too old."""

    def __init__(self) -> None:
        self.tries = 0

    async def run(self) -> None:
        self.tries += 1
        raise AgentTooOld("too old")


async def test_an_agent_that_is_too_old_retries_until_the_update_is_available(
    site: UpdateSite, home: Path, monkeypatch
):
    monkeypatch.setattr(update, "AGAIN_S", 0.01)
    good, site.manifest = site.manifest, {}
    session = RefusedSession()
    updater = Updater(site.url, set, allowed=True)
    running = asyncio.create_task(daemon._serve_or_update(session, updater))
    await wait_until(lambda: session.tries >= 3 or running.done())
    assert not running.done()
    site.manifest = good
    with pytest.raises(Replaced):
        async with asyncio.timeout(TIMEOUT_S):
            await running
    assert (home / "agent.pyz").read_bytes() == NEW


@pytest.mark.parametrize("case", ["not allowed", "busy", "on trial"])
async def test_an_agent_that_is_too_old_and_cannot_update_stops(site, home, case):
    if case == "on trial":
        (home / "trial").touch()
    held = {"an attempt"} if case == "busy" else set()
    updater = Updater(site.url, lambda: held, allowed=case != "not allowed")
    with pytest.raises(AgentTooOld):
        async with asyncio.timeout(TIMEOUT_S):
            await daemon._serve_or_update(RefusedSession(), updater)
    assert site.requested_paths == []
