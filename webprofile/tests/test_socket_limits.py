"""Tests of the limits of WebSockets on a running server: origin, lifetime, number and rate."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.test import Client
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tasks.tests.make import make_user, make_worker
from webprofile.realtime.consumers import Pace, SocketCounter, is_own_page
from workers.tokens import issue_code, redeem_code

pytestmark = pytest.mark.django_db(transaction=True)
SITE = "https://profile.example.org"


@pytest.fixture(scope="module")
def server(database_url, tmp_path_factory):
    """Start a web server with low limits; yield its address and log."""
    log = tmp_path_factory.mktemp("server") / "log.txt"
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "webprofile.settings.test",
        "DATABASE_URL": database_url,
        "AGENT_FRAMES_BURST": "20", "AGENT_FRAMES_PER_S": "1", "READER_FRAMES_BURST": "10",
        "READER_FRAMES_PER_S": "1", "SOCKETS_PER_USER": "3", "SITE_URL": "http://127.0.0.1",
        "NETRON_ORIGIN": "http://viewer.example.org",
    }  # fmt: skip
    command = [sys.executable, "-m", "webprofile.web", "webprofile.asgi:application", "--port", "0"]
    command += ["--ws-max-size", "65536"]
    root = Path(__file__).parents[2]
    with log.open("wb") as file:
        running = subprocess.Popen(command, cwd=root, env=environment, stderr=file, stdout=file)
    try:
        yield f"127.0.0.1:{_port(running, log)}", log
    finally:
        running.terminate()
        running.wait(20)


def _port(running, log):
    for _ in range(600):
        assert running.poll() is None, log.read_text()
        for line in log.read_text().splitlines():
            if "running on http://127.0.0.1:" in line:
                return int(line.split("http://127.0.0.1:")[1].split(" ")[0])
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def agent_headers():
    _, token = redeem_code(issue_code(make_worker("box", online=False)))
    return {"Authorization": f"Bearer {token}"}


def browser_headers():
    client = Client()
    client.force_login(make_user("alice"))
    return {"Cookie": f"sessionid={client.cookies['sessionid'].value}"}


async def refusal(address, path, headers, origin):
    """Return the HTTP status with which the socket is refused, or None."""
    try:
        async with connect(f"ws://{address}{path}", additional_headers=headers, origin=origin):
            return None
    except InvalidStatus as error:
        return error.response.status_code


async def close_code(address, path, headers, frames, **more):
    """Return the code with which the server closes the socket, None if it does not."""
    async with connect(f"ws://{address}{path}", additional_headers=headers, **more) as socket:
        try:
            for frame in frames:
                await socket.send(frame)
            while True:
                await asyncio.wait_for(socket.recv(), 3)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 0
        except TimeoutError:
            return None


FOREIGN = (
    "http://evil.example",
    "http://127.0.0.1.evil.example",
    "http://viewer.example.org",
    "http://127.0.0.1:1",
    "null",
)


async def test_page_sockets_require_the_own_origin_and_agent_sockets_none(server):
    address, _ = server
    browser, agent = await asyncio.to_thread(lambda: (browser_headers(), agent_headers()))
    for origin in FOREIGN:
        assert await refusal(address, "/ws/tasks/", browser, origin) == 403
        assert await refusal(address, "/ws/agent/", agent, origin) == 403
    assert await refusal(address, "/ws/tasks/", browser, None) == 403
    assert await refusal(address, "/ws/tasks/", browser, f"http://{address}") is None
    for origin in ("http://127.0.0.1", f"http://{address}", ""):  # the first is SITE_URL
        assert await refusal(address, "/ws/agent/", agent, origin) == 403
    assert await refusal(address, "/ws/agent/", agent, None) is None


@pytest.mark.exhaustive
async def test_exceeded_limits_close_the_socket_without_an_error(server):
    address, log = server
    browser, agent = await asyncio.to_thread(lambda: (browser_headers(), agent_headers()))
    own = {"origin": f"http://{address}"}
    beat = json.dumps({"type": "heartbeat", "sent_at": 0})
    hello = json.dumps(
        {
            "type": "hello", "agent_version": "1",
            "facts": {"hostname": "h", "platform": "Linux", "machine": "x", "cores": 1,
                      "memory_bytes": 1},
        }
    )  # fmt: skip
    assert await close_code(address, "/ws/agent/", agent, ["x" * 70_000]) == 1009
    assert await close_code(address, "/ws/agent/", agent, [b"\x00binary"]) == 4400
    assert await close_code(address, "/ws/agent/", agent, ["[" * 60_000]) == 4400
    assert await close_code(address, "/ws/agent/", agent, [hello, *[beat] * 40]) == 4429
    assert await close_code(address, "/ws/tasks/", browser, ["{}"] * 30, **own) == 4429
    assert await close_code(address, "/ws/tasks/", browser, ["x" * 2_000], **own) == 4400
    assert await close_code(address, "/ws/tasks/", browser, [b"\x00binary"], **own) == 4400
    ignored = ["no json", "[" * 900, '{"after": 1e999}', '{"after": 99999999999999999999}']
    assert await close_code(address, "/ws/tasks/", browser, ignored, **own) is None
    open_sockets = [
        await connect(f"ws://{address}/ws/tasks/", additional_headers=browser, **own)
        for _ in range(3)
    ]
    assert await close_code(address, "/ws/tasks/", browser, [], **own) == 4429
    for socket in open_sockets:
        await socket.close()
    # the server counts a socket until it has handled its end
    codes = [4429]
    while codes[-1] == 4429 and len(codes) < 50:
        await asyncio.sleep(0.1)
        codes.append(await close_code(address, "/ws/tasks/", browser, [], **own))
    assert codes[-1] is None
    text = log.read_text()
    assert "Traceback" not in text, text[text.find("Traceback") - 500 :][:4000]


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        (SITE, "profile.example.org", True),
        ("https://other.example.org", "other.example.org", True),
        ("http://other.example.org", "other.example.org", False),
        ("https://viewer.example.org", "viewer.example.org", False),
        ("https://viewer.example.org", "profile.example.org", False),
        ("https://strange.example", "strange.example", False),
        ("https://profile.example.org.evil.example", "profile.example.org", False),
        ("null", "null", False),
        ("https://[", "[", False),
        ("https://other.example.org", None, False),
    ],
)
def test_own_page_is_recognised_by_origin_and_host(origin, host, own, settings):
    settings.SITE_URL = SITE
    settings.NETRON_ORIGIN = "https://viewer.example.org"
    settings.ALLOWED_HOSTS = ["profile.example.org", "other.example.org", "viewer.example.org"]
    assert is_own_page(origin, host=host) is own


def test_pace_allows_a_burst_and_then_limits_the_rate(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("webprofile.realtime.consumers.time.monotonic", lambda: now[0])
    pace = Pace(3, 2)
    assert [pace.has_room() for _ in range(4)] == [True, True, True, False]
    now[0] = 0.5
    assert [pace.has_room() for _ in range(2)] == [True, False]


def test_socket_counter_releases_places(settings):
    settings.SOCKETS_PER_USER = 1
    counter = SocketCounter()
    assert [counter.take(1), counter.take(1), counter.take(2)] == [True, False, True]
    counter.give_back(1)
    assert counter.take(1)
