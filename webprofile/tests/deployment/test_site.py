"""Tests of a site from docker/compose.yaml: start by its scripts, enrolment, a task.

The tests depend on each other in this order: a device enrols, runs a task, the web servers are
replaced during another task, and the site is backed up and restored elsewhere.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from agent.runtimes.tests.fake_load_and_run import install_fake
from webprofile.tests.cluster import fresh_database
from webprofile.tests.deployment.services import (
    BUCKET,
    DOCKER,
    PATIENCE_S,
    ROOT,
    ServiceStack,
    running_stack,
)

pytestmark = pytest.mark.production

_PREPARE = """
import json
from accounts.tokens.access import issue_token
from accounts.services import ensure_user
from profiles.viewer_packages import viewer_address
from workers.services import ensure_worker
from workers.tokens import issue_code
user, _ = ensure_user(email="alice@example.com")
_, token = issue_token(user, name="tests", scopes=["read", "write"], days=1)
code = issue_code(ensure_worker(name="x86-1"))
print(json.dumps({"token": token, "code": code, "viewer": viewer_address()}))
"""
#: fake `docker`, which sends its arguments to the test and exits with the code that it returns
_DOCKER = """#!{python} -IS
import socket, sys
with socket.socket(socket.AF_UNIX) as test:
    test.connect({address!r})
    test.sendall(" ".join(sys.argv[1:]).encode() + b"\\n")
    sys.exit(int(test.makefile().readline()))
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory) -> Iterator[ServiceStack]:
    with running_stack(tmp_path_factory.mktemp("stack")) as stack:
        stack.build()
        assert "created" in stack.once("storage")
        stack.once("migrate")
        for name in ("web-1", "web-2", "dispatch", "actors", "sweep"):
            stack.start(name)
        for name in ("web-1", "web-2", "dispatch", "actors", "sweep"):
            stack.wait_for(name)
        yield stack


@pytest.fixture(scope="module")
def credentials(stack) -> dict[str, str]:
    """The token of a user, the enrolment code of a device, and the address of the viewer."""
    secrets: dict[str, str] = json.loads(stack.manage("shell", "-v", "0", "-c", _PREPARE))
    return secrets


@pytest.fixture(scope="module")
def device(stack, credentials, tmp_path_factory) -> Iterator[ServiceStack]:
    """The agent of its container, with a fake load_and_run."""
    folder = tmp_path_factory.mktemp("device")
    (stack.secrets / "enrol_code").write_text(credentials["code"])
    stack.start(
        "agent",
        AGENT_HOME=str(folder),
        RUNTIME_BINARY=str(install_fake(folder, "1.13.0", "-nocuda")),
        # the sandbox would hide the folder of this test
        REQUIRE_SANDBOX="false",
        SSL_CERT_FILE=str(stack.authority),
    )
    stack.wait_for("agent")
    until_online(stack, credentials)
    yield stack


def until_online(stack: ServiceStack, credentials: dict[str, str]) -> None:
    """Wait until the device is online."""
    deadline = time.monotonic() + PATIENCE_S
    headers = {"Authorization": f"Bearer {credentials['token']}"}
    with stack.client() as http:
        while not http.get("/api/v1/workers/", headers=headers).json()["results"][0]["is_online"]:
            assert time.monotonic() < deadline, stack.log("agent")
            time.sleep(0.5)


def run_client(stack: ServiceStack, credentials: dict[str, str], *arguments: object) -> str:
    """Run the command-line client over the proxy; return its output."""
    environment = {
        **os.environ,
        "WEBPROFILE_SITE": stack.address,
        "WEBPROFILE_TOKEN": credentials["token"],
        "SSL_CERT_FILE": str(stack.authority),
        "NO_PROXY": "localhost,127.0.0.1",
    }
    result = subprocess.run(
        [sys.executable, "-m", "webprofile.client", *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr + stack.log("web-1")
    return result.stdout


def submit(stack: ServiceStack, credentials: dict[str, str], testdata: Path, *more: str) -> str:
    model, data = testdata / "models" / "tiny.mge", testdata / "inputs" / "tiny" / "data.npy"
    words = ["submit", "-m", model, "-w", "x86-1", "-V", "1.13.0", "-d", f"data={data}"]
    return run_client(stack, credentials, *words, "-p", "quick", "--timeout", "240", *more)


def latest_operators(get: Callable[[str], httpx2.Response]) -> dict:
    """Return the operators of the latest result. `get` requests a path of the API."""
    newest = get("/api/v1/profiles/").json()["results"][0]
    operators: dict = get(f"/api/v1/profiles/{newest['id']}/operators/").json()
    return operators


def test_task_runs_through_proxy_web_servers_and_agent(device, credentials, testdata):
    assert "succeeded" in submit(device, credentials, testdata, "--json")
    with device.client() as http:
        page = http.get("/accounts/login/")
        assert page.status_code == 200
        assert page.headers["strict-transport-security"]
        assert http.get("/metrics").status_code == 404
        # the proxy replaces these headers of a client
        headers = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "http"}
        assert http.get("/accounts/login/", headers=headers).status_code == 200
        # refused by the proxy, before version 2.7 with "bad gateway"; the server may answer first
        http.headers["Authorization"] = f"Bearer {credentials['token']}"
        http.headers["Content-Type"] = "application/json"
        assert http.post("/api/v1/tasks/", content=b"x" * 10_000_000).status_code in {413, 502}
    viewer = httpx2.Client(
        base_url=f"https://{device.names['VIEWER_HOST']}", verify=False, timeout=60
    )
    with viewer:
        assert viewer.get("/tasks/").status_code == 404
        assert credentials["viewer"].startswith(str(viewer.base_url))
        assert viewer.get(credentials["viewer"]).status_code == 200


def test_agent_without_a_sandbox_names_what_its_container_lacks(device, tmp_path):
    folder = device.parts["agent"].environment["AGENT_HOME"]
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "dirname", "grep", "cat"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "python").chmod(0o755)
    environment = {**device.parts["agent"].environment, "PATH": str(programs)}
    environment |= {"RUN_FOLDER": str(tmp_path), "AGENT_HOME": folder, "REQUIRE_SANDBOX": "true"}
    agent = subprocess.Popen(
        [DOCKER / "agent" / "entrypoint.sh", "run"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert agent.stderr is not None
    output = agent.stderr.readline() + agent.stderr.readline()
    agent.terminate()
    agent.communicate()
    assert "bubblewrap is not installed" in output
    assert 'docs/deploy.md, "The sandbox in a container"' in output


def serve_engine(
    stack: ServiceStack, address: Path, commands: list[str], done: threading.Event
) -> None:
    """Execute commands of `docker compose` with the processes of the stack."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        listener.settimeout(0.5)
        while not done.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                words = connection.makefile().readline().split()
                commands.append(" ".join(words))
                if words[1:3] == ["up", "-d"] and words[-1] in stack.parts:
                    stack.replace(words[-1])
                elif words[1] == "run":
                    stack.once(words[-1])
                connection.sendall(b"0\n")


def test_site_serves_all_requests_during_an_upgrade(device, credentials, testdata, tmp_path):
    address, commands, done = tmp_path / "engine", [], threading.Event()
    program = tmp_path / "docker"
    program.write_text(_DOCKER.format(python=sys.executable, address=str(address)))
    program.chmod(0o755)
    before = {name: part.process.pid for name, part in device.parts.items()}
    answers: list[int] = []

    def read() -> None:
        with device.client() as http:
            while not done.wait(0.05):
                answers.append(http.get("/accounts/login/").status_code)

    started: list[str] = []
    threads = [
        threading.Thread(target=serve_engine, args=(device, address, commands, done)),
        threading.Thread(target=read),
        threading.Thread(
            target=lambda: started.append(submit(device, credentials, testdata, "-r3"))
        ),
    ]
    for thread in threads:
        thread.start()
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    upgrade = subprocess.run(
        [DOCKER / "upgrade.sh"], env=environment, capture_output=True, text=True
    )
    threads[2].join()
    done.set()
    for thread in threads:
        thread.join()
    assert upgrade.returncode == 0, upgrade.stderr
    assert commands[:4] == [
        "compose build",
        "compose --profile backup build backup",
        "compose run --rm --no-deps storage",
        "compose run --rm --no-deps migrate",
    ]
    replaced = {name for name in before if device.parts[name].process.pid != before[name]}
    assert replaced == {"web-1", "web-2", "dispatch", "actors", "sweep"}
    assert len(answers) > 20 and set(answers) == {200}
    assert len(started) == 1  # all three tasks succeeded


def test_backup_is_restored_into_an_empty_database_and_bucket(
    device, credentials, testdata, tmp_path
):
    backups = {"BACKUP_FOLDER": str(tmp_path / "backups"), "BACKUP_KEEP": "1"}
    first = device.once("backup", **backups).strip()
    submit(device, credentials, testdata)
    saved = device.once("backup", **backups).strip()
    assert Path(saved).is_dir() and (saved == first or not Path(first).exists())

    with device.client() as http:
        token = {"Authorization": f"Bearer {credentials['token']}"}
        before = latest_operators(lambda path: http.get(path, headers=token))
    other = tmp_path / "database_url"
    other.write_text(fresh_database())
    elsewhere = {"DATABASE_URL_FILE": str(other), "S3_BUCKET": f"{BUCKET}-restored"}
    restore = ("docker/backup/restore.sh", saved)
    device.once("storage", **elsewhere)
    assert "Restored." in device.once("backup", *restore, **elsewhere)
    device.once("migrate", **elsewhere)
    assert "All checks passed." in device.manage("verify", **elsewhere)

    device.parts["web-2"].stop()
    device.start("web-2", **elsewhere)
    device.wait_for("web-2")
    direct = f"http://127.0.0.1:{device.ports['web-2']}"
    headers = token | {"Host": device.names["SITE_HOST"], "X-Forwarded-Proto": "https"}
    after = latest_operators(
        lambda path: httpx2.get(direct + path, headers=headers, trust_env=False, timeout=60)
    )
    assert after == before

    again = subprocess.run(
        [ROOT / restore[0], saved],
        env=device.environment("backup") | elsewhere,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 1 and "Restore into an empty database" in again.stderr
