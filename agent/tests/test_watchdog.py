"""Real processes that exceed a limit, and are ended."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from agent.device.disk_usage import measure_folder
from agent.device.process_table import read_table
from agent.execution import runner, watchdog
from agent.execution.runner import Limits, cpu_limit_s, limit_cpu
from agent.execution.spool import remove_tree
from agent.execution.watchdog import signal_name
from agent.protocol.messages import EndReason
from agent.tests.fakes import marked_processes

PYTHON = [sys.executable, "-SEc"]


#: grows by one level each 50 ms, and has a limited depth in case the test fails
FORK_BOMB = "f() { [ $1 -gt 7 ] && sleep 30; sleep 0.05; f $(($1+1)) & f $(($1+1)) & wait; }; f 0"
LEAVE = "for i in 1 2 3 4 5 6 7 8; do setsid -f sleep 30; done; sleep 30"
FLOOD = "yes 0123456789012345678901234567890123456789 | head -c 1G; sleep 30"
MAKE_FILES = "for i in range(60): open(str(i), 'w')\nimport time; time.sleep(30)"
USE_MEMORY = """\
b = b'x' * (60 << 20); import os, time; os.fork(); b2 = b'y' * (60 << 20)
time.sleep(30)
"""
DELETE_OPEN_FILES = """\
import os, time
files = []
for n in range(3):
    files.append(open('f', 'wb', 0)); os.unlink('f')
    files[-1].write(b'x' * (2 << 20))
time.sleep(30)
"""


@pytest.mark.parametrize(
    ("command", "limits", "reason", "text"),
    [
        (["sh", "-c", FORK_BOMB], {"processes": 40}, "TOO_MANY_PROCESSES", "the limit is 40"),
        (["sh", "-c", LEAVE], {"processes": 6}, "TOO_MANY_PROCESSES", "the limit is 6"),
        (["sh", "-c", FLOOD], {"print_bytes": 10 << 20}, "LOG_TOO_LONG", "the limit is 10 MiB"),
        ([*PYTHON, MAKE_FILES], {}, "OUTPUT_TOO_LARGE", "more than"),
        (
            [*PYTHON, USE_MEMORY],
            {"memory_bytes": 100 << 20},
            "OUT_OF_MEMORY",
            "the limit is 100 MiB",
        ),
        (
            [*PYTHON, DELETE_OPEN_FILES],
            {"disk_bytes": 5 << 20},
            "OUTPUT_TOO_LARGE",
            "wrote 6 MiB into its folder; the limit is 5 MiB",
        ),
    ],
    ids=["fork bomb", "left the tree", "output", "files", "memory", "deleted open files"],
)
async def test_a_run_that_exceeds_a_limit_is_ended(
    watched_run, monkeypatch, command, limits, reason, text
):
    monkeypatch.setattr("agent.execution.watchdog.MOST_FILES", 50)
    result = await watched_run.run(command, **limits)
    assert result.limit.reason is EndReason[reason]
    assert text in str(result.limit.note)
    assert marked_processes(watched_run.mark) == []
    watched_run.output.unlink()


async def test_files_that_existed_before_the_run_do_not_count(watched_run, monkeypatch):
    """A script may come in a zip with thousands of files."""
    monkeypatch.setattr("agent.execution.watchdog.MOST_FILES", 50)
    for number in range(60):
        (watched_run.work / f"given-{number}").touch()
    body = "import time\nfor i in range(40): open(f'made-{i}', 'w').close()\ntime.sleep(2)"
    result = await watched_run.run([*PYTHON, body])
    assert (result.exit_code, result.limit) == (0, None)


async def test_processes_of_one_attempt_share_the_limit_of_files(watched_run, monkeypatch):
    monkeypatch.setattr("agent.execution.watchdog.MOST_FILES", 50)
    begin = measure_folder(watched_run.work)
    body = "import time\nfor i in range(40): open(f'{}-{{i}}', 'w').close()\ntime.sleep(2)"
    first = await watched_run.run([*PYTHON, body.format("one")], begin=begin)
    assert first.limit is None
    second = await watched_run.run([*PYTHON, body.format("two")], begin=begin)
    assert second.limit.reason is EndReason.OUTPUT_TOO_LARGE


async def test_a_silent_run_ends_before_its_timeout(watched_run):
    result = await watched_run.run(["sleep", "30"], silence_s=1.0)
    assert (result.reason, result.limit.reason) == (EndReason.EXITED, EndReason.SILENT)
    assert watched_run.duration_s >= 1.0


#: computes a fifth of the time, for 3.8 s or more
COMPUTE = """\
import time
for n in range(1, 13):
    while time.process_time() < 0.07 * n: pass
    time.sleep(.25)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "body",
    [
        COMPUTE,
        "import time\nfor i in range(8): print(i, flush=True); time.sleep(.5)",
    ],
    ids=["computes", "prints"],
)
async def test_a_run_that_computes_or_prints_is_not_silent(watched_run, body):
    result = await watched_run.run([*PYTHON, body], silence_s=2.0)
    assert (result.limit, result.exit_code) == (None, 0)
    assert watched_run.duration_s > 3.5


@pytest.mark.exhaustive
async def test_a_run_whose_child_computes_is_not_silent(watched_run):
    body = f"{sys.executable} -SEc '{COMPUTE}'; true"
    result = await watched_run.run(["sh", "-c", body], silence_s=2.0)
    assert (result.limit, result.exit_code) == (None, 0)


async def test_written_bytes_are_limited_without_existing_files(watched_run):
    (watched_run.work / "model").write_bytes(os.urandom(6 << 20))
    write = "open('out', 'wb').write(b'x' * (4 << 20)); import time; time.sleep({})"
    fine = await watched_run.run([*PYTHON, write.format(1)], disk_bytes=5 << 20)
    assert (fine.limit, fine.exit_code) == (None, 0)
    more = "open('more', 'wb').write(b'x' * (6 << 20)); import time; time.sleep(30)"
    result = await watched_run.run([*PYTHON, more], disk_bytes=5 << 20)
    assert result.limit.reason is EndReason.OUTPUT_TOO_LARGE
    assert "wrote 6 MiB" in str(result.limit.note)


async def test_a_sparse_file_counts_by_size_towards_the_limit_of_a_file_only(watched_run):
    sparse = "open('hole', 'wb').truncate(1 << 30); import time; time.sleep({})"
    fine = await watched_run.run([*PYTHON, sparse.format(1)], disk_bytes=1 << 20)
    assert (fine.limit, fine.exit_code) == (None, 0)
    (watched_run.work / "hole").unlink()
    result = await watched_run.run([*PYTHON, sparse.format(30)], file_bytes=1 << 30)
    assert result.limit.reason is EndReason.OUTPUT_TOO_LARGE
    assert "hole reached the size limit of 1.0 GiB" in str(result.limit.note)


async def test_the_kernel_enforces_the_limit_of_a_file(watched_run):
    write = ["sh", "-c", "exec dd if=/dev/zero of=out bs=1M count=8"]
    result = await watched_run.run(write, Limits(file_bytes=1 << 20))
    assert result.limit.reason is EndReason.OUTPUT_TOO_LARGE
    assert (watched_run.work / "out").stat().st_size == 1 << 20


async def test_sigxcpu_is_reported_as_the_limit_of_cpu_time(watched_run):
    result = await watched_run.run([*PYTHON, "while True: pass"], Limits(cpu_s=1))
    assert signal_name(result.exit_code) == "SIGXCPU"
    assert result.limit.reason is EndReason.TIMED_OUT


@pytest.mark.parametrize("limits", [None, Limits(cpu_s=1000)], ids=["no limit", "limit"])
@pytest.mark.parametrize("code", [137, 143, 152, 153])
async def test_an_exit_code_of_a_signal_is_not_reported_as_a_limit_or_kill(
    watched_run, code, limits
):
    result = await watched_run.run([*PYTHON, f"raise SystemExit({code})"], limits, wary=True)
    assert (result.reason, result.exit_code, result.limit) == (EndReason.EXITED, code, None)


async def test_sigxcpu_in_a_sandbox_is_reported_as_the_limit_of_cpu_time(watched_run):
    # bubblewrap hands on what its program ended with
    inside = [*PYTHON, "while True: pass"]
    hands_on = f"import subprocess\nraise SystemExit(128 - subprocess.call({inside!r}))"
    result = await watched_run.run([*PYTHON, hands_on], Limits(cpu_s=1), wary=True)
    assert result.exit_code == 152
    assert result.limit.reason is EndReason.TIMED_OUT


async def test_a_sandbox_killed_by_another_program_is_reported_as_killed(watched_run):
    kill = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    result = await watched_run.run([*PYTHON, kill], wary=True)
    assert (result.reason, result.exit_code) == (EndReason.KILLED, 137)


@pytest.mark.exhaustive
async def test_a_process_that_ignores_sigxcpu_is_killed(watched_run, monkeypatch):
    monkeypatch.setattr(runner, "_CPU_GRACE_S", 1)
    ignore = "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    result = await watched_run.run([*PYTHON, ignore], Limits(cpu_s=1))
    assert signal_name(result.exit_code) == "SIGKILL"


async def test_limit_cpu_limits_a_running_process_and_its_children(watched_run):
    body = f"{sys.executable} -SEc 'while True: pass'; exit $?"
    run = await watched_run.start(["sh", "-c", body])
    await asyncio.sleep(0.3)
    limit_cpu(run.pid, 1)
    result = await watched_run.wait(run)
    assert signal_name(result.exit_code) == "SIGXCPU"


async def test_timeout_and_cancel_end_a_run_within_its_limits(watched_run):
    assert (await watched_run.run(["sleep", "9"], timeout_s=0.7)).reason is EndReason.TIMED_OUT
    run = await watched_run.start(["sleep", "9"])
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(0.3, stop.set)
    result = await watched_run.wait(run, stop)
    assert (result.reason, result.limit) == (EndReason.CANCELLED, None)


def test_no_limit_exceeds_that_of_the_agent(monkeypatch):
    monkeypatch.setattr(runner.resource, "getrlimit", lambda number: (500, 700))
    rows = {option: (soft, hard) for option, _, soft, hard in Limits(cpu_s=698).rows()}
    assert rows == {"core": (0, 0), "fsize": (700, 700), "cpu": (698, 700)}


def test_the_number_of_tasks_is_limited_for_ordinary_users(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "nproc" in [row[0] for row in Limits(processes=256).rows()]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "nproc" not in [row[0] for row in Limits(processes=256).rows()]


def test_the_limit_of_cpu_time_depends_on_timeout_and_cores():
    assert cpu_limit_s(100, 4) == 470
    assert Limits(cores=(0, 1)).for_task(100).cpu_s == 250
    assert cpu_limit_s(100) >= 140


@pytest.mark.exhaustive
async def test_processes_of_one_attempt_share_the_limit_of_written_bytes(watched_run):
    (watched_run.work / "model").write_bytes(b"m" * (3 << 20))
    begin = measure_folder(watched_run.work)
    write = "open({!r}, 'wb').write(b'x' * (2 << 20)); import time; time.sleep(1.2)"
    for name in ("one", "two"):
        alone = await watched_run.run([*PYTHON, write.format(name)], disk_bytes=3 << 20)
        assert (alone.limit, alone.exit_code) == (None, 0)
    shared = await watched_run.run(
        [*PYTHON, "import time; time.sleep(9)"], begin=begin, disk_bytes=3 << 20
    )
    assert str(shared.limit.note) == "It wrote 4 MiB into its folder; the limit is 3 MiB."


async def test_a_folder_that_is_too_deep_ends_the_run_and_can_be_removed(watched_run):
    deep = (
        "import os, time\nfor n in range(3000): os.mkdir('d'); os.chdir('d')\n"
        "open('f', 'wb').write(b'x' * (6 << 20)); time.sleep(30)"
    )
    result = await watched_run.run([*PYTHON, deep], disk_bytes=5 << 20)
    assert result.limit.reason is EndReason.OUTPUT_TOO_LARGE
    assert "more than 64 levels deep" in str(result.limit.note)
    remove_tree(watched_run.work)
    assert not watched_run.work.exists()


def test_a_folder_that_is_locked_and_deep_can_be_removed():
    """By another user than root, for whom folders without permissions can be read."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        child = os.fork()
        if child == 0:
            is_gone = False
            try:
                if os.geteuid() == 0:
                    os.setuid(65534)
                is_gone = _locked_and_deep_is_removed(Path(name) / "work")
            finally:
                os._exit(0 if is_gone else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _locked_and_deep_is_removed(path: Path) -> bool:
    path.mkdir()
    os.chdir(path)
    for _ in range(20):  # longer than PATH_MAX together
        os.mkdir("d" * 250)
        os.chdir("d" * 250)
    os.mkdir("inner")
    os.chmod(".", 0)
    os.chdir("/")
    remove_tree(path)
    return not path.exists()


@pytest.mark.parametrize(("cost_s", "pause_s"), [(0.0625, 6.5), (1.0, 10.0)])
def test_measuring_the_folder_takes_one_percent_of_the_time(
    watched_run, monkeypatch, cost_s, pause_s
):
    now_s, cpu_s, scans = [0.0], [0.0], []

    def measure(folder, *_):
        scans.append(now_s[0])
        cpu_s[0] += cost_s
        return measure_folder(folder)

    guard = watched_run.make_watchdog()
    monkeypatch.setattr(watchdog, "measure_folder", measure)
    monkeypatch.setattr(watchdog.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(watchdog.time, "thread_time", lambda: cpu_s[0])
    for _ in range(60):
        guard.sample(os.getpid(), watched_run.mark)
        now_s[0] += 0.5
    assert scans[:3] == [0.0, pause_s, 2 * pause_s]


def test_the_mark_of_another_process_is_read_once(watched_run, monkeypatch):
    pids = []

    def carries(pid, mark):
        pids.append(pid)
        return False

    monkeypatch.setattr(watchdog, "_carries", carries)
    other_process = subprocess.Popen(["sleep", "9"])
    run = subprocess.Popen(["sleep", "9"])
    try:
        guard = watched_run.make_watchdog()
        for _ in range(3):
            guard._search(run.pid, watched_run.mark)
    finally:
        for process in (other_process, run):
            process.kill()
            process.wait()
    assert pids.count(other_process.pid) == 1


async def test_samples_do_not_search_all_processes_each_time(watched_run, monkeypatch):
    searches = []
    monkeypatch.setattr(watchdog, "read_table", lambda: searches.append(1) or read_table())
    # a jump of the number, which causes a search, may come from other programs
    monkeypatch.setattr(watchdog, "task_count", lambda: 100)
    guard = watched_run.make_watchdog()
    run = await watched_run.start(["sleep", "9"])
    for _ in range(50):
        guard.sample(run.pid, watched_run.mark)
    assert len(searches) == 1
    os.killpg(run.pid, signal.SIGKILL)
    await watched_run.wait(run)
    assert measure_folder(watched_run.work).files == 0
