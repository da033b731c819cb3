"""The heartbeat process, with a real HTTP server.

`test_quiet` tests that a whole worker keeps its leases under load.
"""

import asyncio
import json
import multiprocessing
import os
import statistics
import time
import uuid
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest

from agent.link import heartbeat as heartbeat_module
from agent.link.heartbeat import HeartbeatProcess
from agent.tests.fakes import wait_until
from agent.tests.http_sites import QuietHandler, serving

LOAD_S = 8.0
#: a lease ends after so many missed heartbeats
MISSED = 3
ONE, TWO = sorted(uuid.uuid4() for _ in range(2))


class HeartbeatSite:
    """Records heartbeats; answers with `statuses` first, then with success."""

    def __init__(self) -> None:
        self.heartbeats: list[tuple[float, dict[str, object], str]] = []
        self.connections = 0
        self.statuses: list[int] = []
        self.delay_s = 0.0
        self.hangs_up = False
        self.answer: dict[str, object] = {"server_time": 1, "has_orders": False}
        site = self

        class HeartbeatHandler(QuietHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                site.connections += 1
                super().setup()

            def do_POST(self) -> None:
                at = time.monotonic()
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.path == "/api/agent/heartbeat/"
                site.heartbeats.append((at, body, self.headers["Authorization"]))
                time.sleep(site.delay_s)
                status = site.statuses.pop(0) if site.statuses else 200
                self.answer(status, json.dumps(site.answer).encode())
                self.close_connection = site.hangs_up

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), HeartbeatHandler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def site() -> Iterator[HeartbeatSite]:
    site = HeartbeatSite()
    with serving(site.http):
        yield site


@pytest.fixture(autouse=True)
def short_restart_delay(monkeypatch):
    """Restart a process that died after 0.1 s."""
    monkeypatch.setattr(heartbeat_module, "_RESTART_S", 0.1)


@pytest.fixture
async def heartbeat(site):
    process = await HeartbeatProcess.start(site.url, "mgw_secret")
    yield process
    await process.close()


async def test_heartbeats_are_sent_at_once_and_regularly_over_one_connection(site, heartbeat):
    heartbeat.renew_leases(frozenset({ONE, TWO}), 0.2)
    await wait_until(lambda: len(site.heartbeats) >= 5)
    for _, body, authorization in site.heartbeats:
        assert body["running"] == [str(ONE), str(TWO)]
        assert abs(body["sent_at"] - time.time()) < 10
        assert authorization == "Bearer mgw_secret"
    gaps = [b[0] - a[0] for a, b in zip(site.heartbeats, site.heartbeats[1:], strict=False)]
    assert 0.1 < statistics.median(gaps) < 2
    assert site.connections == 1


async def test_pause_stops_heartbeats_until_the_next_order(site, heartbeat):
    await asyncio.sleep(0.3)
    assert site.heartbeats == []
    heartbeat.renew_leases(frozenset({ONE}), 0.1)
    await wait_until(lambda: len(site.heartbeats) >= 2)
    heartbeat.pause()
    await asyncio.sleep(0.3)
    count = len(site.heartbeats)
    await asyncio.sleep(0.4)
    assert len(site.heartbeats) == count
    heartbeat.renew_leases(frozenset({TWO}), 60)
    await wait_until(lambda: len(site.heartbeats) == count + 1)
    assert site.heartbeats[-1][1]["running"] == [str(TWO)]


async def test_a_repeated_order_does_not_change_the_interval(site, heartbeat):
    for _ in range(20):
        heartbeat.renew_leases(frozenset({ONE}), 60)
        await asyncio.sleep(0.02)
    await wait_until(lambda: bool(site.heartbeats))
    await asyncio.sleep(0.2)
    assert len(site.heartbeats) == 1


async def test_heartbeats_continue_while_the_agent_is_blocked(site, heartbeat):
    heartbeat.renew_leases(frozenset({ONE}), 0.1)
    await wait_until(lambda: bool(site.heartbeats))
    count = len(site.heartbeats)
    time.sleep(1)  # blocks the event loop
    assert len(site.heartbeats) > count


@pytest.mark.parametrize("status", [500, 404, 302])
async def test_heartbeats_continue_after_server_errors(site, heartbeat, status):
    site.statuses = [status, status]
    heartbeat.renew_leases(frozenset({ONE}), 0.1)
    assert not heartbeat.is_well
    await wait_until(lambda: len(site.heartbeats) >= 4)
    await wait_until(lambda: heartbeat.is_well)


async def test_the_agent_sends_its_own_heartbeats_while_the_server_has_orders(site, heartbeat):
    site.answer["has_orders"] = True
    heartbeat.renew_leases(frozenset({ONE}), 0.1)
    await wait_until(lambda: len(site.heartbeats) >= 3)
    assert not heartbeat.is_well
    site.answer["has_orders"] = False
    await wait_until(lambda: heartbeat.is_well)


async def test_no_heartbeat_fails_if_the_server_closes_the_connection(site, heartbeat, capfd):
    site.hangs_up = True
    heartbeat.renew_leases(frozenset({ONE}), 1.0)
    await wait_until(lambda: len(site.heartbeats) >= 3)
    assert site.connections == 3
    assert "heartbeat_failed" not in capfd.readouterr().err


async def test_heartbeats_arrive_when_the_server_is_back(capfd):
    site = HeartbeatSite()
    site.http.server_close()
    heartbeat = await HeartbeatProcess.start(site.url, "mgw_secret")
    heartbeat.renew_leases(frozenset({ONE}), 0.1)
    await asyncio.sleep(0.5)
    with serving(ThreadingHTTPServer(site.http.server_address, site.http.RequestHandlerClass)):
        await wait_until(lambda: len(site.heartbeats) >= 2)
        await wait_until(lambda: heartbeat.is_well)
        await heartbeat.close()
    errors = capfd.readouterr().err
    assert "heartbeat_failed cause='ConnectionRefusedError" in errors
    assert "mgw_secret" not in errors


async def test_heartbeats_to_a_slow_server_are_skipped(site, heartbeat):
    site.delay_s = 0.35
    heartbeat.renew_leases(frozenset({ONE}), 0.2)
    await wait_until(lambda: len(site.heartbeats) >= 4)
    gaps = [b[0] - a[0] for a, b in zip(site.heartbeats, site.heartbeats[1:], strict=False)]
    assert min(gaps) > 0.3


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_token_stops_the_process_permanently(site, heartbeat, status):
    site.statuses = [status]
    heartbeat.renew_leases(frozenset({ONE}), 0.1)
    await wait_until(lambda: bool(site.heartbeats) and heartbeat.pid is None)
    assert not heartbeat.is_well
    await asyncio.sleep(0.5)  # enough for a restart
    assert (heartbeat.pid, len(site.heartbeats)) == (None, 1)
    heartbeat.renew_leases(frozenset({TWO}), 0.1)
    heartbeat.pause()


async def test_a_killed_process_is_restarted_and_continues(site, heartbeat):
    heartbeat.renew_leases(frozenset({ONE}), 0.1)
    await wait_until(lambda: bool(site.heartbeats))
    first = heartbeat.pid
    os.kill(first, 9)
    await wait_until(lambda: heartbeat.pid not in (None, first))
    count = len(site.heartbeats)
    await wait_until(lambda: len(site.heartbeats) >= count + 2)


async def test_the_process_ends_with_the_agent_and_hides_its_token(site):
    heartbeat = await HeartbeatProcess.start(site.url, "mgw_secret")
    heartbeat.renew_leases(frozenset({ONE}), 0.1)
    await wait_until(lambda: bool(site.heartbeats))
    folder = Path(f"/proc/{heartbeat.pid}")
    for name in ("cmdline", "environ"):
        assert b"mgw_secret" not in (folder / name).read_bytes()
    await heartbeat.close()
    assert not folder.exists()


async def test_the_process_is_small_pinned_and_has_priority(site):
    core = max(os.sched_getaffinity(0))
    heartbeat = await HeartbeatProcess.start(site.url, "mgw_secret", (core,))
    heartbeat.renew_leases(frozenset({ONE}), 0.2)
    await wait_until(lambda: len(site.heartbeats) >= 2)
    status = Path(f"/proc/{heartbeat.pid}/status").read_text()
    resident_kb = int(status.split("VmRSS:")[1].split()[0])
    nice = os.getpriority(os.PRIO_PROCESS, heartbeat.pid)
    affinity = os.sched_getaffinity(heartbeat.pid)
    await heartbeat.close()
    assert resident_kb < 30_000
    assert affinity == {core}
    assert nice == (-5 if os.geteuid() == 0 else os.getpriority(os.PRIO_PROCESS, 0))


def serve_heartbeats(
    port: "multiprocessing.Queue[int]", stop: "multiprocessing.Event", out
) -> None:
    """Run the server in a separate process, which has a higher priority."""
    os.setpriority(os.PRIO_PROCESS, 0, -10) if os.geteuid() == 0 else None
    site = HeartbeatSite()
    port.put(site.http.server_port)
    with serving(site.http):
        stop.wait()
    # one clock for all processes
    out.put([at for at, _, _ in site.heartbeats])


def spin(stop: "multiprocessing.Event") -> None:
    while not stop.is_set():
        sum(range(20_000))


@pytest.mark.alone
async def test_leases_are_renewed_while_all_cores_are_busy_and_the_agent_is_blocked():
    context = multiprocessing.get_context("spawn")
    port, out, stop = context.Queue(), context.Queue(), context.Event()
    helpers = [context.Process(target=serve_heartbeats, args=(port, stop, out))]
    helpers += [context.Process(target=spin, args=(stop,)) for _ in range(2 * os.cpu_count())]
    for helper in helpers:
        helper.start()
    try:
        number = await asyncio.to_thread(port.get, timeout=30)
        heartbeat = await HeartbeatProcess.start(f"http://127.0.0.1:{number}", "mgw_secret")
        await asyncio.sleep(1)
        heartbeat.renew_leases(frozenset({ONE}), 0.5)
        begin = time.monotonic()
        time.sleep(LOAD_S)  # blocks the event loop
        end = time.monotonic()
        await heartbeat.close()
    finally:
        stop.set()
        heartbeats = await asyncio.to_thread(out.get, timeout=30)
        for helper in helpers:
            await asyncio.to_thread(helper.join, 30)
    came = [begin, *(at for at in heartbeats if begin < at < end), end]
    assert max(after - before for before, after in pairwise(came)) < MISSED * 0.5
