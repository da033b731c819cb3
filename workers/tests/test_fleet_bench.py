"""`make bench-fleet`: its report, and its check of limits of the machine."""

import os

import pytest

from bench.fleet.__main__ import raise_limit
from bench.fleet.agents import file_to_leave
from bench.fleet.clients import RequestSchedule, requests_of
from bench.fleet.measure import OURS, SERVER, SizeResult
from bench.fleet.meter import CpuUsage, Meter
from bench.fleet.report import report
from bench.fleet.rows import MODEL
from tasks.submission.model_heads import check_model

MIB = 1 << 20


def measurement(agents: int, **changes) -> SizeResult:
    """Return a measurement: `web` uses 10 ms per heartbeat (100), and one core for 50 tasks/s."""
    busy = dict.fromkeys((*SERVER, *OURS), 0.5)
    figures = {
        "agents": agents,
        "connected": agents,
        "connect_s": 1.0,
        "idle": CpuUsage({**busy, "web": 1.0}, 10.0),
        "heartbeats": 100,
        "memory": {"web": 200 * MIB, "postgres": 100 * MIB, "redis": MIB},
        "burst": CpuUsage({**busy, "web": 1.0}, 1.0),
        "tasks": 50,
        "per_s": 50.0,
        "ends": {"finished succeeded": 50},
        "half_per_s": 25.0,
        "starts_ms": [10.0, 20.0, 30.0],
        "counted": {},
        "load": 1.0,
    }
    return SizeResult(**{**figures, **changes})


def report_of(*sizes: SizeResult) -> str:
    nobody = CpuUsage(dict.fromkeys((*SERVER, *OURS), 0.0), 10.0)
    return report(nobody, {"web": 100 * MIB, "postgres": 50 * MIB, "redis": MIB}, list(sizes))


def test_the_report_shows_goals_as_met_or_missed():
    text = report_of(measurement(100), measurement(2000))
    assert "connected agents: 2,000, goal 2,000, met" in text
    assert "tasks/s with 2,000 agents: 50.0, goal 20, met" in text
    assert "MISSED" not in text
    slow = report_of(
        measurement(100), measurement(2000, per_s=12.0, connected=1990, starts_ms=[300.0, 400.0])
    )
    assert "connected agents: 1,990, goal 2,000, MISSED" in slow
    assert "tasks/s with 2,000 agents: 12.0, goal 20, MISSED" in slow
    assert "goal 350 ms, MISSED" in slow


def test_the_report_shows_costs_per_heartbeat_task_and_agent():
    lines = report_of(measurement(1024)).splitlines()
    (agents,) = [line.split() for line in lines if line.startswith("1,024") and "10" in line][:1]
    assert agents[:4] == ["1,024", "1,024", "1.0", "100"]  # 100 MiB more of web for 1,024 agents
    assert any(line.startswith("1,024") and "10.000" in line for line in lines)  # ms a heartbeat
    assert any(line.startswith("1,024") and "20.0" in line for line in lines)  # ms a task


def test_too_low_a_limit_of_open_files_is_an_error():
    with pytest.raises(SystemExit, match=r"1000000000 open files are needed.*ulimit -n"):
        raise_limit(10**9)


def test_cpu_time_and_memory_of_a_process_are_read():
    meter = Meter({"this": [os.getpid()]})
    assert meter.memory("this") > MIB
    assert meter.read().percent("this") >= 0


def test_the_site_accepts_the_model_of_the_tasks():
    check_model("net.mge", MODEL, len(MODEL))


def test_tasks_are_assigned_once_and_in_order():
    rounds = RequestSchedule([[7], [8]], None)
    assert [rounds.next(), rounds.next(), rounds.next()] == [[7], [8], []]


def test_a_request_submits_tasks_of_one_user():
    assert requests_of([1, 2, 3, 4, 5], users=2, together=2) == [[1, 3], [2, 4], [5]]
    assert requests_of([1, 2, 3], users=2, together=1) == [[1], [2], [3]]


@pytest.mark.parametrize(("leave", "name"), [("times", "measurement.json"), ("nothing", "")])
def test_files_of_attempts_have_names(leave, name):
    assert file_to_leave(leave, "")[0] == name
