"""Format the results of a fleet as tables, and compare them with the goals."""

from tabulate import tabulate

from bench.fleet.measure import OURS, SERVER, SizeResult
from bench.fleet.meter import CpuUsage
from bench.fleet.rows import percentile

GOAL_AGENTS = 2_000
GOAL_PER_S = 20.0
#: the same goal as in `bench_dispatch`
GOAL_P99_MS = 350.0


def report(nobody: CpuUsage, empty: dict[str, int], results: list[SizeResult]) -> str:
    """Return all tables. `nobody` and `empty`: CPU time and memory without agents."""
    parts = [
        _table("agents", _agents(nobody, empty, results)),
        _table("heartbeats only: % of a core", _heartbeats(nobody, results)),
        _table("tasks", _tasks(results)),
        _table("processor time of a task, ms", _task_cpu(results)),
        _growth(results),
        *_verdicts(results),
    ]
    return "\n\n".join(parts)


def _table(title: str, columns: dict[str, list[str]]) -> str:
    rows = list(zip(*columns.values(), strict=True))
    return f"{title}\n" + tabulate(rows, headers=list(columns), disable_numparse=True)


def _agents(
    nobody: CpuUsage, empty: dict[str, int], results: list[SizeResult]
) -> dict[str, list[str]]:
    def kib(part: str, row: SizeResult) -> str:
        return f"{(row.memory[part] - empty[part]) / 1024 / row.connected:.0f}"

    return {
        "agents": [f"{row.agents:,}" for row in results],
        "connected": [f"{row.connected:,}" for row in results],
        "joined in s": [f"{row.connect_s:.1f}" for row in results],
        "web, KiB each": [kib("web", row) for row in results],
        "PostgreSQL, KiB each": [kib("postgres", row) for row in results],
        "Redis, KiB each": [kib("redis", row) for row in results],
        "heartbeats/s": [f"{row.heartbeats / row.idle.wall_s:.0f}" for row in results],
        "load of the machine": [f"{row.load:.1f}" for row in results],
    }


def beat_ms(nobody: CpuUsage, row: SizeResult, part: str) -> float:
    """Return the CPU time of one heartbeat in a part in ms, without that of the idle site."""
    idle_s = nobody.cpu_s[part] / nobody.wall_s * row.idle.wall_s
    return 1000 * (row.idle.cpu_s[part] - idle_s) / max(row.heartbeats, 1)


def _heartbeats(nobody: CpuUsage, results: list[SizeResult]) -> dict[str, list[str]]:
    columns = {"agents": ["0", *(f"{row.agents:,}" for row in results)]}
    for part in (*SERVER, "agents"):
        name = "simulated agents" if part == "agents" else part
        columns[name] = [f"{taken.percent(part):.1f}" for taken in (nobody, *_idles(results))]
    for part in ("web", "postgres", "redis"):
        times_ms = [f"{beat_ms(nobody, row, part):.3f}" for row in results]
        columns[f"{part}, ms/heartbeat"] = ["", *times_ms]
    return columns


def _idles(results: list[SizeResult]) -> list[CpuUsage]:
    return [row.idle for row in results]


def _tasks(results: list[SizeResult]) -> dict[str, list[str]]:
    return {
        "agents": [f"{row.agents:,}" for row in results],
        "tasks/s": [f"{row.per_s:.1f}" for row in results],
        "all cores, %": [f"{sum(map(row.burst.percent, row.burst.cpu_s)):.0f}" for row in results],
        "half load, tasks/s": [f"{row.half_per_s:.1f}" for row in results],
        "submit -> start p50, ms": [f"{percentile(row.starts_ms, 50):.0f}" for row in results],
        "p99, ms": [f"{percentile(row.starts_ms, 99):.0f}" for row in results],
        "ends": [_words(row.ends) for row in results],
        "agents' count": [_words(row.counted) for row in results],
    }


def _words(counted: dict[str, int]) -> str:
    return ", ".join(f"{name}: {number}" for name, number in sorted(counted.items()))


def _task_cpu(results: list[SizeResult]) -> dict[str, list[str]]:
    columns = {"agents": [f"{row.agents:,}" for row in results]}
    for part in (*SERVER, *OURS):
        name = {"agents": "simulated agents", "clients": "simulated users"}.get(part, part)
        columns[name] = [f"{_per_task_ms(row, part):.1f}" for row in results]
    columns["server, sum"] = [
        f"{sum(_per_task_ms(row, part) for part in SERVER):.1f}" for row in results
    ]
    return columns


def _per_task_ms(row: SizeResult, part: str) -> float:
    """Return the CPU time of a part per task in ms, including heartbeats during the burst."""
    return 1000 * row.burst.cpu_s[part] / row.tasks


def _growth(results: list[SizeResult]) -> str:
    first, last = results[0], results[-1]
    web = [row.memory["web"] for row in (first, last)]
    p99 = [percentile(row.starts_ms, 99) for row in (first, last)]
    return (
        f"from {first.agents:,} to {last.agents:,} agents: "
        f"tasks/s x {last.per_s / first.per_s:.2f}, p99 x {p99[1] / p99[0]:.2f}, "
        f"memory of web x {web[1] / web[0]:.2f}"
    )


def _verdicts(results: list[SizeResult]) -> list[str]:
    last = results[-1]
    p99 = percentile(last.starts_ms, 99)

    def met(is_met: bool) -> str:
        return "met" if is_met else "MISSED"

    most = max(row.connected for row in results)
    return [
        f"connected agents: {most:,}, goal {GOAL_AGENTS:,}, {met(most >= GOAL_AGENTS)}",
        f"tasks/s with {last.agents:,} agents: {last.per_s:.1f}, goal {GOAL_PER_S:.0f}, "
        + met(last.per_s >= GOAL_PER_S and last.agents >= GOAL_AGENTS),
        f"submit -> start at half load, p99: {p99:.0f} ms, goal {GOAL_P99_MS:.0f} ms, "
        + met(p99 <= GOAL_P99_MS),
    ]
