"""Tests of the responses and the log of the proxy in docker/ without an upstream server."""

import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from agent.tests.http_sites import QuietHandler, serving
from webprofile.operations.devserver.layout import free_ports
from webprofile.tests.deployment.services import DOCKER
from webprofile.tests.needs import need

pytestmark = pytest.mark.production
PATIENCE_S = 60


@pytest.fixture(scope="module")
def proxy(tmp_path_factory) -> Iterator[tuple[dict[str, str], httpx2.Client, Path]]:
    """Hosts of the proxy, a client that trusts it, and its log. It has no upstream server."""
    with running(tmp_path_factory.mktemp("proxy")) as running_proxy:
        yield running_proxy


@contextmanager
def running(folder: Path, **more: str) -> Iterator[tuple[dict[str, str], httpx2.Client, Path]]:
    need("caddy")
    log = folder / "log"
    site, viewer, files, http, health, closed = free_ports(6)
    hosts = {
        "SITE_HOST": f"localhost:{site}",
        "VIEWER_HOST": f"127.0.0.1:{viewer}",
        "STORAGE_HOST": f"localhost:{files}",
    }
    settings = {
        "TLS": "tls internal",
        "WEB_UPSTREAMS": f"127.0.0.1:{closed}",
        "STORAGE_UPSTREAM": f"127.0.0.1:{closed}",
        "HTTP_PORT": str(http),
        "HTTPS_PORT": str(site),
        "PROXY_HEALTH_PORT": str(health),
    }
    homes = dict.fromkeys(("XDG_DATA_HOME", "XDG_CONFIG_HOME", "HOME"), str(folder))
    command = ["caddy", "run", "--config", str(DOCKER / "proxy" / "Caddyfile")]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--adapter", "caddyfile"],
            env={**os.environ, **hosts, **settings, **homes, **more},
            stdout=file,
            stderr=file,
        )
    try:
        _until_ready(process, health, log)
        authority = folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"
        _until_certified(hosts, authority, log)
        trusted = ssl.create_default_context(cafile=authority)
        with httpx2.Client(verify=trusted, trust_env=False, timeout=30) as client:
            yield hosts, client, log
    finally:
        process.terminate()
        process.wait(30)


def _until_ready(process: subprocess.Popen, port: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            httpx2.get(f"http://127.0.0.1:{port}/", trust_env=False).raise_for_status()
        except httpx2.HTTPError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(log.read_text())


def _until_certified(hosts: dict[str, str], authority: Path, log: Path) -> None:
    """Wait until each host has its certificate, which may be later than the health check."""
    deadline = time.monotonic() + PATIENCE_S
    waiting = list(hosts.values())
    while waiting:
        name, _, port = waiting[0].partition(":")
        try:
            trusted = ssl.create_default_context(cafile=authority)
            with (
                socket.create_connection((name, int(port)), timeout=5) as plain,
                trusted.wrap_socket(plain, server_hostname=name),
            ):
                waiting.pop(0)
        except OSError:
            if time.monotonic() > deadline:
                pytest.fail(log.read_text())
            time.sleep(0.1)


def test_proxy_log_contains_no_secret_of_an_address(proxy):
    hosts, client, log = proxy
    signed = f"https://{hosts['STORAGE_HOST']}/bucket/tasks/7/1?X-Amz-Signature=opensesame&x=a?y"
    mailed = (
        f"https://{hosts['SITE_HOST']}/accounts/password/reset/key/3-opensesame/?next=opensesame"
    )
    before = {"Referer": signed, "Cookie": "sessionid=opensesame"}
    assert client.put(signed, content=b"1", headers=before).status_code == 502
    shared = f"https://{hosts['SITE_HOST']}/s/mws_opensesame/operators/"
    for address in (shared, mailed):
        assert client.get(address, headers=before).status_code == 503
    deadline = time.monotonic() + PATIENCE_S
    while "/accounts/" not in (text := log.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert '"uri":"/bucket/tasks/7/1?*"' in text
    assert '"uri":"/accounts/*"' in text
    assert '"uri":"/s/*"' in text
    assert "opensesame" not in text


def test_proxy_does_not_advertise_its_internal_port(proxy):
    hosts, client, _ = proxy
    response = client.get(f"https://{hosts['SITE_HOST']}/metrics")
    assert response.status_code == 404
    assert "alt-svc" not in response.headers


@contextmanager
def upstream(name: str) -> Iterator[str]:
    """Run a server that responds to each request with its name; yield its address."""

    class UpstreamHandler(QuietHandler):
        def do_GET(self) -> None:
            self.answer(200, name.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), UpstreamHandler)
    with serving(server):
        yield f"127.0.0.1:{server.server_port}"


@pytest.mark.parametrize("setting", ["some", "", None], ids=["set", "empty", "absent"])
def test_agent_sockets_go_to_agent_upstreams_if_set(tmp_path, setting):
    with ExitStack() as stack:
        web, agents = (stack.enter_context(upstream(name)) for name in ("web", "agents"))
        upstreams = {"WEB_UPSTREAMS": web}
        if setting is not None:
            upstreams["AGENT_UPSTREAMS"] = setting and agents
        hosts, client, _ = stack.enter_context(running(tmp_path, **upstreams))
        places = ("/ws/agent/", "/ws/tasks/1/", "/ws/agents", "/api/v1/agent/beat/", "/")
        servers = [client.get(f"https://{hosts['SITE_HOST']}{place}").text for place in places]
    assert servers == ["agents" if setting else "web", *["web"] * 4]
