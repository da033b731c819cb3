"""`demo --once` profiles a model as a user does, and leaves no process running."""

import os
import re
import socket
import subprocess
import sys
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from agent.tests.http_sites import QuietHandler, serving
from webprofile.operations.devserver.layout import REPOSITORY
from webprofile.operations.devserver.parts import http_answers
from webprofile.tests.site import command_lines_of


def run_devserver(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "webprofile.operations.devserver", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "MGW_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_another_server_on_the_port_is_recognised() -> None:
    class OtherHandler(QuietHandler):
        def do_GET(self) -> None:
            self.answer(200, b"")

    server = ThreadingHTTPServer(("127.0.0.1", 0), OtherHandler)
    with serving(server):
        assert http_answers(server.server_port)()
        assert not http_answers(server.server_port, "/healthz", ("x-start", "1"))()


def task_of(demo: subprocess.CompletedProcess[str]) -> int:
    """Return the number of the task that a demo has submitted."""
    number = re.search(r"^Task (\d+): ", demo.stdout, re.MULTILINE)
    assert number, demo.stdout
    return int(number[1])


@pytest.mark.exhaustive
@pytest.mark.embedded
@pytest.mark.megengine
def test_demo_profiles_a_model_and_leaves_no_process(tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = run_devserver(home, "demo", "--once")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "succeeded" in first.stdout
    assert "total device time" in first.stdout
    assert "device self time" in first.stdout
    assert "Administrator: admin@example.com, password" in first.stdout
    assert command_lines_of(home) == []
    # the second start neither prints passwords nor enrols the device again
    second = run_devserver(home, "demo", "--once")
    assert second.returncode == 0, second.stdout + second.stderr
    assert "password" not in second.stdout
    # the device may have measured its scatter between the two, which is a task, too
    first_task, second_task = map(task_of, (first, second))
    assert second_task > first_task
    assert f"/tasks/{second_task}/" in second.stdout
    assert command_lines_of(home) == []


def test_port_in_use_is_reported_on_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run_devserver(tmp_path / "home", "run", "--port", str(port))
    assert result.returncode == 1
    assert result.stderr == f"Port {port} is in use: choose another one (make run PORT=...).\n"
