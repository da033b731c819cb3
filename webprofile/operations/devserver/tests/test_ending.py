"""No child process outlives a supervisor, however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from webprofile.operations.devserver.guard import family_of, is_alive
from webprofile.operations.devserver.layout import REPOSITORY
from webprofile.tests.site import command_lines_of

COMMAND = [sys.executable, "-m", "webprofile.operations.devserver.tests.fake_site"]
Running = subprocess.Popen[str]


def start(home: Path) -> Running:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen(
        [*COMMAND, str(home)],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Running]:
    running = start(tmp_path)
    assert running.stdout is not None
    try:
        assert running.stdout.readline() == "up\n"
        yield running
    finally:
        running.kill()
        running.communicate(timeout=30)


def parts_of(running: Running) -> set[int]:
    """Return the pids below a supervisor, without the guard, which exits a little later."""
    descendants = {pid for pid, _ in family_of(running.pid)} - {running.pid}
    return {pid for pid in descendants if b"devserver.guard" not in command_of(pid)}


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # the shell starts short sleeps
        return b""


def wait_until_gone(pids: set[int], seconds: float) -> set[int]:
    deadline = time.monotonic() + seconds
    while (living := {pid for pid in pids if is_alive(pid)}) and time.monotonic() < deadline:
        time.sleep(0.05)
    return living


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_all_processes_with_exit_code_0(
    site: Running, tmp_path: Path, number: signal.Signals
) -> None:
    family = parts_of(site)
    assert len(family) >= 6
    site.send_signal(number)
    output, errors = site.communicate(timeout=30)
    assert site.returncode == 0, errors
    assert "Stopping." in output
    # they end before the supervisor
    assert {pid for pid in family if is_alive(pid)} == set()
    assert not (tmp_path / "socket-folder").exists()


def test_second_signal_stops_all_processes_at_once(site: Running) -> None:
    family = parts_of(site)
    site.send_signal(signal.SIGINT)
    time.sleep(0.2)
    site.send_signal(signal.SIGINT)
    site.communicate(timeout=30)
    assert {pid for pid in family if is_alive(pid)} == set()


def test_killed_supervisor_leaves_no_process(site: Running, tmp_path: Path) -> None:
    family = parts_of(site)
    assert len(family) >= 6
    site.kill()
    assert wait_until_gone(family, 60) == set()
    deadline = time.monotonic() + 60
    while (tmp_path / "socket-folder").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not (tmp_path / "socket-folder").exists()


@pytest.mark.exhaustive
def test_supervisor_stops_all_processes_without_its_guard(site: Running, tmp_path: Path) -> None:
    guard = next(pid for pid, _ in family_of(site.pid) if b"devserver.guard" in command_of(pid))
    os.kill(guard, signal.SIGKILL)
    site.send_signal(signal.SIGINT)
    site.communicate(timeout=30)
    assert site.returncode == 0
    assert command_lines_of(tmp_path) == []


def test_second_start_names_the_running_process(site: Running, tmp_path: Path) -> None:
    second = start(tmp_path)
    output, _ = second.communicate(timeout=30)
    assert second.returncode == 3
    assert f"Process {site.pid} serves http://127.0.0.1:1" in output


@pytest.mark.exhaustive
def test_start_after_a_kill_waits_for_old_processes(site: Running, tmp_path: Path) -> None:
    family = parts_of(site)
    site.kill()
    second = start(tmp_path)
    assert second.stdout is not None
    try:
        assert second.stdout.readline() == "up\n"
        assert {pid for pid in family if is_alive(pid)} == set()
    finally:
        second.send_signal(signal.SIGINT)
        second.communicate(timeout=30)
