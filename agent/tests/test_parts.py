"""Facts, limits, sandbox, retries and inventory."""

import itertools
import json
import os
from dataclasses import asdict
from pathlib import Path

import httpx2
import pytest

from agent.config import Config, RunLimits, RuntimeEntry
from agent.device.cores import Cores
from agent.device.facts import read_facts, usable_memory_bytes
from agent.execution.runner import choose_limits
from agent.execution.sandbox import Sandbox, find_sandbox
from agent.inventory import take_inventory
from agent.link.outbox import Outbox
from agent.link.retries import Policies, Policy, is_transport, may_pass
from agent.protocol.messages import AttemptLog, Facts
from agent.protocol.notes import Note


def test_facts_describe_this_machine():
    facts = read_facts("http://127.0.0.1:8000")
    assert facts.ip == "127.0.0.1"
    assert facts.hostname
    assert facts.machine
    assert facts.cpu_model


def test_facts_with_an_unresolvable_server_lack_only_the_address():
    assert read_facts("http://no-such-host.invalid").ip == ""


@pytest.mark.parametrize(
    ("group", "files", "memory_bytes"),
    [
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "1048576"}, 1 << 20),
        ("0::/host/path", {"memory.max": "1048576"}, 1 << 20),
        ("4:cpu,memory:/a", {"memory/a/memory.limit_in_bytes": "1048576"}, 1 << 20),
        ("0::/a", {"a/memory.max": "max", "memory.max": str(1 << 62)}, None),
        ("5:cpu:/a", {"a/memory.max": "1048576"}, None),
    ],
    ids=["a group above", "a container", "cgroup v1", "no limit", "another controller"],
)
def test_memory_of_a_limited_control_group_is_its_limit(tmp_path, group, files, memory_bytes):
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(f"{group}\n")
    for name, text in files.items():
        path = tmp_path / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    expected = memory_bytes or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert usable_memory_bytes(str(tmp_path)) == expected


def test_memory_is_limited_to_a_share_of_the_machine():
    limits = limits_of(1000 << 20)
    assert limits.memory_bytes == 900 << 20
    assert "data" in [row[0] for row in limits.rows()]
    assert limits_of(1000, configured=0).memory_bytes is None


def limits_of(memory_bytes: int, configured: int | None = None):
    config = Config(
        server="http://site", token="mgw_x", spool=Path("spool"), memory_limit_bytes=configured
    )
    facts = Facts(hostname="h", platform="p", machine="m", cores=1, memory_bytes=memory_bytes)
    return choose_limits(config, facts)


def test_limits_follow_the_configuration_and_become_json():
    runs = RunLimits(silence_s=7.0, disk_bytes=1, print_bytes=2, processes=3)
    config = Config(server="http://site", token="mgw_x", spool=Path("spool"), limits=runs, nice=3)
    limits = choose_limits(config, read_facts("http://127.0.0.1:8000"), Cores((0, 1), (2,)))
    watch = limits.watch
    assert (watch.silence_s, watch.disk_bytes, watch.print_bytes) == (7.0, 1, 2)
    assert (watch.processes, limits.processes, limits.cores) == (3, 3, (0, 1))
    assert (limits.nice, watch.memory_bytes) == (3, limits.memory_bytes)
    assert json.loads(json.dumps(asdict(limits)))["watch"]["silence_s"] == 7.0


def test_only_temporary_statuses_are_retried():
    assert [s for s in (400, 401, 403, 404, 408, 409, 413, 429, 500, 503) if may_pass(s)] == [
        408,
        429,
        500,
        503,
    ]
    assert is_transport(httpx2.ReadTimeout("late"))
    assert not is_transport(httpx2.UnsupportedProtocol("ftp"))


def test_delays_are_random_in_windows_that_double():
    waits = [list(Policy(tries=5, first_s=1, most_s=4).delays()) for _ in range(200)]
    for window, column in zip((1, 2, 4, 4), zip(*waits, strict=True), strict=True):
        assert 0 <= min(column) <= max(column) <= window
        assert max(column) > window / 2
    last = list(itertools.islice(Policies().reconnect.delays(), 200))[100:]
    assert 15 < max(last) <= 30


def test_a_frame_that_is_too_large_is_not_sent(caplog):
    sent: list[str] = []
    outbox = Outbox(1)
    outbox.attach(sent.append)
    log = {"attempt": "5f0c1d2e-3b4a-4c5d-8e6f-7a8b9c0d1e2f", "seq": 1, "offset": 0, "size": 1}
    outbox.post(AttemptLog(**log, text="\0" * 16_000))
    assert sent == []
    assert "frame_too_large" in caplog.text


def test_a_missing_runtime_is_reported_as_a_problem():
    entries = (
        RuntimeEntry(version="1.13.0", kind="binary", path="/nowhere/load_and_run"),
        RuntimeEntry(version="1.12.0", kind="wheel", problem="No Python 3.6 to 3.10 found"),
    )
    runtimes = take_inventory(entries)
    assert "/nowhere/load_and_run" in str(runtimes["1.13.0"].info.problem)
    assert runtimes["1.13.0"].command == ()
    assert str(runtimes["1.12.0"].info.problem) == "No Python 3.6 to 3.10 found"


def test_a_runtime_of_another_version_is_reported_as_a_problem(tmp_path):
    binary = tmp_path / "load_and_run"
    binary.write_text("#!/bin/sh\necho 'using MegBrain 1.12.0(0) and MegDNN 9.3.0' >&2\n")
    binary.chmod(0o755)
    entry = RuntimeEntry(version="1.13.0", kind="binary", path=str(binary))
    assert "is MegEngine 1.12.0" in str(take_inventory([entry])["1.13.0"].info.problem)


def test_home_folders_are_hidden_except_for_the_runtime(tmp_path):
    home = tmp_path / "ann"
    prefix, base = home / "runtimes" / "mge", home / ".pyenv" / "versions" / "3.10"
    for folder in (prefix, base):
        (folder / "bin").mkdir(parents=True)
    (base / "bin" / "python").write_text("")
    (prefix / "bin" / "python").symlink_to(base / "bin" / "python")
    (home / "load_and_run").write_text("")
    (home / ".local" / "bin").mkdir(parents=True)
    (home / ".local" / "bin" / "python").write_text("")
    sandbox = Sandbox("/usr/bin/bwrap", "", homes=(home,), visible=(home / "cuda",))

    def visible_paths(program: Path) -> list[str]:
        command = sandbox.wrap([str(program)], Path("/srv/work"))
        assert ["--tmpfs", str(home)] == command[command.index(str(home)) - 1 :][:2]
        pairs = itertools.pairwise(command)
        return [path for option, path in pairs if option == "--ro-bind-try" and "ann" in path]

    cuda = str(home / "cuda")
    assert visible_paths(prefix / "bin" / "python") == [str(prefix), str(base), cuda]
    # a program directly in the home folder does not make the folder visible
    assert visible_paths(home / "load_and_run") == [str(home / "load_and_run"), cuda]
    parts = [str(home / ".local" / part) for part in ("bin", "lib", "lib64", "libexec")]
    assert visible_paths(home / ".local" / "bin" / "python") == [*parts, cuda]
    assert visible_paths(Path("/usr/bin/python3")) == [cuda]
    script = tmp_path / "script"
    script.write_text(f"#!{base}/bin/python -SE\n")
    assert visible_paths(script) == [str(base), cuda]


def test_a_broken_bubblewrap_is_not_used(tmp_path, monkeypatch):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho no permission >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    sandbox = find_sandbox((tmp_path,), ())
    assert sandbox.problem == Note.of("bwrap_failed", cause="no permission")
    assert sandbox.wrap(["x"], tmp_path) == ["x"]


def test_without_bubblewrap_the_problem_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_sandbox((tmp_path,), ()).problem == Note.of("bwrap_missing")
