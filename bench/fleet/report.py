"""Print the results of a fleet as tables, and compare them with the goals."""

from tabulate import tabulate

from bench.fleet.measure import OURS, SERVER, Found
from bench.fleet.meter import Taken
from bench.fleet.rows import percentile

GOAL_AGENTS = 2_000
GOAL_PER_S = 20.0
#: the server's part of a start, as `bench_dispatch` has it
GOAL_P99_MS = 350.0


def report(nobody: Taken, empty: dict[str, int], found: list[Found]) -> str:
    """All tables; `nobody` and `empty`: time and memory without agents."""
    parts = [
        _table("agents", _agents(nobody, empty, found)),
        _table("heartbeats only: % of a core", _heartbeats(nobody, found)),
        _table("tasks", _tasks(found)),
        _table("processor time of a task, ms", _task_cpu(found)),
        _growth(found),
        *_verdicts(found),
    ]
    return "\n\n".join(parts)


def _table(title: str, columns: dict[str, list[str]]) -> str:
    rows = list(zip(*columns.values(), strict=True))
    return f"{title}\n" + tabulate(rows, headers=list(columns), disable_numparse=True)


def _agents(nobody: Taken, empty: dict[str, int], found: list[Found]) -> dict[str, list[str]]:
    def kib(part: str, each: Found) -> str:
        return f"{(each.memory[part] - empty[part]) / 1024 / each.connected:.0f}"

    return {
        "agents": [f"{each.agents:,}" for each in found],
        "connected": [f"{each.connected:,}" for each in found],
        "joined in s": [f"{each.connect_s:.1f}" for each in found],
        "web, KiB each": [kib("web", each) for each in found],
        "PostgreSQL, KiB each": [kib("postgres", each) for each in found],
        "Redis, KiB each": [kib("redis", each) for each in found],
        "beats/s": [f"{each.beats / each.idle.wall_s:.0f}" for each in found],
        "load of the machine": [f"{each.load:.1f}" for each in found],
    }


def beat_ms(nobody: Taken, each: Found, part: str) -> float:
    """Processor time of one heartbeat in a part, beyond what the idle site takes."""
    idle_s = nobody.cpu_s[part] / nobody.wall_s * each.idle.wall_s
    return 1000 * (each.idle.cpu_s[part] - idle_s) / max(each.beats, 1)


def _heartbeats(nobody: Taken, found: list[Found]) -> dict[str, list[str]]:
    columns = {"agents": ["0", *(f"{each.agents:,}" for each in found)]}
    for part in (*SERVER, "agents"):
        name = "simulated agents" if part == "agents" else part
        columns[name] = [f"{taken.percent(part):.1f}" for taken in (nobody, *_idles(found))]
    for part in ("web", "postgres", "redis"):
        columns[f"{part}, ms/beat"] = ["", *(f"{beat_ms(nobody, e, part):.3f}" for e in found)]
    return columns


def _idles(found: list[Found]) -> list[Taken]:
    return [each.idle for each in found]


def _tasks(found: list[Found]) -> dict[str, list[str]]:
    return {
        "agents": [f"{each.agents:,}" for each in found],
        "tasks/s": [f"{each.per_s:.1f}" for each in found],
        "all cores, %": [f"{sum(map(each.burst.percent, each.burst.cpu_s)):.0f}" for each in found],
        "half load, tasks/s": [f"{each.half_per_s:.1f}" for each in found],
        "submit -> start p50, ms": [f"{percentile(each.starts_ms, 50):.0f}" for each in found],
        "p99, ms": [f"{percentile(each.starts_ms, 99):.0f}" for each in found],
        "ends": [_words(each.ends) for each in found],
        "agents' count": [_words(each.counted) for each in found],
    }


def _words(counted: dict[str, int]) -> str:
    return ", ".join(f"{name}: {number}" for name, number in sorted(counted.items()))


def _task_cpu(found: list[Found]) -> dict[str, list[str]]:
    columns = {"agents": [f"{each.agents:,}" for each in found]}
    for part in (*SERVER, *OURS):
        name = {"agents": "simulated agents", "clients": "simulated users"}.get(part, part)
        columns[name] = [f"{_per_task_ms(each, part):.1f}" for each in found]
    columns["server, sum"] = [
        f"{sum(_per_task_ms(each, part) for part in SERVER):.1f}" for each in found
    ]
    return columns


def _per_task_ms(each: Found, part: str) -> float:
    """Within the burst, heartbeats included: what the part took, by task."""
    return 1000 * each.burst.cpu_s[part] / each.tasks


def _growth(found: list[Found]) -> str:
    first, last = found[0], found[-1]
    web = [each.memory["web"] for each in (first, last)]
    p99 = [percentile(each.starts_ms, 99) for each in (first, last)]
    return (
        f"from {first.agents:,} to {last.agents:,} agents: "
        f"tasks/s x {last.per_s / first.per_s:.2f}, p99 x {p99[1] / p99[0]:.2f}, "
        f"memory of web x {web[1] / web[0]:.2f}"
    )


def _verdicts(found: list[Found]) -> list[str]:
    last = found[-1]
    p99 = percentile(last.starts_ms, 99)

    def met(is_met: bool) -> str:
        return "met" if is_met else "MISSED"

    most = max(each.connected for each in found)
    return [
        f"connected agents: {most:,}, goal {GOAL_AGENTS:,}, {met(most >= GOAL_AGENTS)}",
        f"tasks/s with {last.agents:,} agents: {last.per_s:.1f}, goal {GOAL_PER_S:.0f}, "
        + met(last.per_s >= GOAL_PER_S and last.agents >= GOAL_AGENTS),
        f"submit -> start at half load, p99: {p99:.0f} ms, goal {GOAL_P99_MS:.0f} ms, "
        + met(p99 <= GOAL_P99_MS),
    ]
