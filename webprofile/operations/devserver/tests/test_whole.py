"""`demo --once` profiles a model as a user does, and leaves no process running."""

import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from webprofile.operations.devserver.layout import REPOSITORY
from webprofile.operations.devserver.parts import http_answers


def embedded(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "webprofile.operations.devserver", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "MGW_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def left_of(home: Path) -> list[str]:
    """The command lines that still name this home."""
    command_lines = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MGW_HOME={home}".encode() in file.read_bytes().split(b"\0"):
                command_lines.append((file.parent / "cmdline").read_text())
        except OSError:
            continue
    return command_lines


def test_a_stranger_at_our_port_is_not_taken_for_our_server() -> None:
    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever).start()
        assert http_answers(server.server_port)()
        assert not http_answers(server.server_port, "/healthz", ("x-start", "1"))()
        server.shutdown()


@pytest.mark.alone
@pytest.mark.embedded
@pytest.mark.megengine
def test_the_demo_profiles_a_model_and_leaves_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = embedded(home, "demo", "--once")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "succeeded" in first.stdout
    assert "total device time" in first.stdout
    assert "device self time" in first.stdout
    assert "Administrator: admin@example.com, password" in first.stdout
    assert left_of(home) == []
    # the second time the passwords are not shown again, the device is not enrolled again
    second = embedded(home, "demo", "--once")
    assert second.returncode == 0, second.stdout + second.stderr
    assert "password" not in second.stdout
    assert "Task 2" in second.stdout
    assert left_of(home) == []


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = embedded(tmp_path / "home", "run", "--port", str(port))
    assert ended.returncode == 1
    assert ended.stderr == f"Port {port} is in use: choose another one (make run PORT=...).\n"
