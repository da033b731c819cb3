"""Fixtures that run the client against a live server, with a proxy between them."""

import contextlib
import http.client
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO
from unittest import mock

import pytest
from django.db import connection

from accounts.models import User
from accounts.tokens.access import issue_token
from agent.protocol.artifacts import profile_name
from agent.protocol.measurement import Disturbance, PassRecord
from agent.protocol.notes import Note
from agent.protocol.plan import Plan
from agent.tests.http_sites import serving
from profiles.models import Profile
from profiles.services import build_attempt_profile
from profiles.tests.make import CLEAN, make_profile, measurement_json, profiled_pass, to_json
from profiles.tests.pages import ended_attempt, make_equal_runs
from tasks.tests.make import MODEL, make_user, make_worker, model_bytes, npy_bytes
from webprofile.client.program import main

ROOT = Path(__file__).parents[3]
SECONDS = 60
#: the language of this terminal is not that of the client
NO_LANGUAGE = dict.fromkeys(("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"), "")


@dataclass
class Client:
    """Runs the client in a folder with its own configuration and environment.

    It usually runs in this process, because the start of another one takes longer than most
    commands. `run_process` and `start` run it as users do.
    """

    home: Path
    environment: dict[str, str]

    def start(
        self, *arguments: object, stdin: str | None = None, stdout: IO[str] | int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "webprofile.client", *map(str, arguments)],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            # pytest in the background ignores SIGINT, and child processes inherit that
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        if stdin is not None:
            assert process.stdin is not None
            process.stdin.write(stdin)
        return process

    def wait(self, process: subprocess.Popen[str], is_done: Callable[[], bool]) -> None:
        """Wait until `is_done()`; fail if the process ends before, or after SECONDS."""
        deadline = time.monotonic() + SECONDS
        while not is_done():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def run(
        self, *arguments: object, stdin: str = "", code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run the client to its end. Raises AssertionError for another exit code."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
        with (
            contextlib.chdir(self.home),
            mock.patch.dict(os.environ, {**NO_LANGUAGE, **self.environment}),
            mock.patch.multiple(sys, stdin=io.StringIO(stdin), stdout=out, stderr=err),
        ):
            try:
                status = main([*map(str, arguments)])
            except SystemExit as exit_:  # of argparse
                status = exit_.code
        for stream in (out, err):
            stream.seek(0)
        done = subprocess.CompletedProcess(arguments, status, out.read(), err.read())
        assert status == code, done.stdout + done.stderr
        return done

    def run_process(
        self, *arguments: object, stdin: str = "", code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run the client like `run`, as a process."""
        process = self.start(*arguments)
        out, err = process.communicate(stdin, timeout=SECONDS)
        assert process.returncode == code, out + err
        return subprocess.CompletedProcess(arguments, code, out, err)

    def json(self, *arguments: object, code: int = 0):
        return json.loads(self.run(*arguments, "--json", code=code).stdout)


@dataclass
class Proxy:
    """A proxy in front of the live server. `plan` decides what happens to each request."""

    address: str
    #: (method, path) -> "" to forward, "lost" to drop the response, or a status such as "503"
    plan: Callable[[str, str], str] = lambda method, path: ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    #: bodies of POST /api/v1/tasks/
    posted_tasks: list[dict] = field(default_factory=list)
    #: size of all request bodies
    received_bytes: int = 0

    def count(self, ending: str) -> int:
        """Return how many requests had a path with this ending."""
        return sum(path.endswith(ending) for _, path in self.requests)

    def lose_first(self, *methods: str, ending: str = "") -> None:
        """Drop the response to the first request with one of these methods and this ending."""
        lost: list[str] = []

        def plan(method: str, path: str) -> str:
            if method not in methods or not path.endswith(ending) or lost:
                return ""
            lost.append(path)
            return "lost"

        self.plan = plan


@pytest.fixture
def proxy(live_server) -> Iterator[Proxy]:
    host, port = live_server.thread.host, live_server.thread.port

    class ProxyHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            state.requests.append((self.command, self.path))
            state.received_bytes += len(body)
            if (self.command, self.path) == ("POST", "/api/v1/tasks/"):
                state.posted_tasks.append(json.loads(body))
            try:
                action = state.plan(self.command, self.path)
            finally:
                connection.close()  # that of this thread, which the plan may have opened
            if action.isdecimal():
                self.send_response(int(action))
                self.send_header("Retry-After", "0")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            site = http.client.HTTPConnection(host, port, timeout=SECONDS)
            headers = {k: v for k, v in self.headers.items() if k.lower() != "connection"}
            site.request(self.command, self.path, body, headers)
            response = site.getresponse()
            content = response.read()
            site.close()
            if action == "lost":
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in {"transfer-encoding", "connection", "content-length"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = forward

        def log_message(self, *args: object) -> None:
            """Do not log requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), ProxyHandler)
    server.handle_error = lambda *args: None  # type: ignore[method-assign]
    state = Proxy(f"http://127.0.0.1:{server.server_address[1]}")
    with serving(server):
        yield state


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "net.mge").write_bytes(MODEL)
    (tmp_path / "other.mge").write_bytes(model_bytes(b"other"))
    (tmp_path / "cat.npy").write_bytes(npy_bytes())
    return tmp_path


@pytest.fixture
def anonymous(home: Path) -> Client:
    """A client without login."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "XDG_CONFIG_HOME": str(home / "config"),
        "HOME": str(home),
        # measured with the other processes of tests (docs/testing.md)
        **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")},
    }
    return Client(home, environment)


@pytest.fixture
def alice(transactional_db, storage, settings) -> User:
    settings.HEARTBEAT_S = 3600  # the device stays online on a slow machine
    make_worker("x86-1")
    return make_user("alice")


@pytest.fixture
def client(request: pytest.FixtureRequest, live_server, alice: User, anonymous: Client) -> Client:
    """A client of alice as in CI, with site and token in the environment.

    It connects to the proxy if the test uses one.
    """
    _, secret = issue_token(alice, name="CI", scopes=["read", "write"], days=1)
    site = live_server.url
    if "proxy" in request.fixturenames:
        site = request.getfixturevalue("proxy").address
    anonymous.environment |= {"WEBPROFILE_SITE": site, "WEBPROFILE_TOKEN": secret}
    return anonymous


@pytest.fixture
def make_steady(alice):
    """Function that creates a task with five profiled passes that differ by up to 0.2 %.

    The device has five equal runs of the first task, which differ by 1 %.
    """
    plan = Plan(preset="standard", clean=True, profiled=5)
    attempts = []

    def clean_passes(seconds: float, is_clean: bool) -> list[PassRecord]:
        times_ms = (1000 * seconds,) * 3
        return [CLEAN.model_copy(update={"e2e_ms": times_ms})] if is_clean else []

    def make(
        seconds: float,
        *,
        is_clean: bool = True,
        disturbed: bool = False,
        disturbed_passes: int = 0,
    ) -> int:
        profiles = {
            profile_name(number): to_json(make_profile({"1": seconds * (1 + number / 2500)}))
            for number in range(1, 6)
        }
        causes = (
            (Disturbance(code="hot", details=(Note.of("hot", degrees=93),)),) if disturbed else ()
        )
        passes = clean_passes(seconds, is_clean)
        for number, name in enumerate(profiles, start=2):
            waited = (Disturbance(code="waited"),) if number < 2 + disturbed_passes else ()
            record = profiled_pass(number, 11.0, profile=name)
            passes.append(record.model_copy(update={"disturbances": waited}))
        files = profiles | {
            "measurement.json": measurement_json(*passes, plan=plan, disturbances=causes)
        }
        attempt = ended_attempt(files, alice, plan=plan)
        # each duration belongs to another model
        attempt.task.files.filter(kind="model").update(md5=f"{seconds:032.4f}")
        build_attempt_profile(attempt)
        if not attempts:
            profile = Profile.objects.get(attempt=attempt)
            for number in range(5):
                total_s = seconds * (1 + number / 400)
                clean = {"kind": "clean", "kept": True, "median_ms": 1000 * total_s}
                make_equal_runs(profile, [total_s] * 5, passes=[clean] if is_clean else [])
        attempts.append(attempt)
        return attempt.task_id

    return make
