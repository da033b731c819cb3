"""Measure what an idle site costs: the CPU time of each of its processes, agent included.

`python -m bench.bench_idle [--seconds 60]` starts a site as `make run` does, in a temporary folder
and on a free port. It waits until the site has been idle for `--settle` seconds, and then reads the
CPU time that each process uses, in percent of one core, and how often its threads start to run.

`--against COMMIT` also starts a site of that commit, from a temporary worktree of git. Both sites
run and are measured at the same time, so that other load on the machine affects both alike.
"""

import argparse
import contextlib
import os
import sqlite3
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from webprofile.operations.devserver.guard import Identity, family_of
from webprofile.tests.site import ROOT, EmbeddedSite, running_site

GOAL_PERCENT = 2.0
PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: printed when the agent starts, the last part of a site
READY = r"(Its device is configured)"
LIVE = "SELECT count(*) FROM tasks_attempt WHERE ended_at IS NULL"
ATTEMPTS = "SELECT count(*) FROM tasks_attempt"


@dataclass(frozen=True)
class Usage:
    """CPU time of a process and of its ended children since its start, and wake-ups of threads."""

    part: str
    cpu_s: float
    wakeups: int


#: CPU time in s and wake-ups of the threads that were used in an interval
Cost = tuple[float, float]


def main() -> None:
    options = parse()
    print(f"ten million additions in a Python loop: {additions_s():.2f} s")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        roots = {"this checkout": ROOT}
        if options.against:
            roots = {options.against: worktree(stack, folder, options.against), **roots}
        sites = {
            name: stack.enter_context(running_site(folder / f"site{number}", root=root))
            for number, (name, root) in enumerate(roots.items())
        }
        for site in sites.values():
            site.wait_for(READY)
        costs = measure(sites, options.settle, options.seconds)
    print(report(costs, options.seconds))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--settle", type=float, default=30.0)
    parser.add_argument("--against", metavar="COMMIT")
    return parser.parse_args()


def additions_s() -> float:
    """Return the time of ten million additions in a Python loop, as a measure of the machine."""
    total, begin = 0, time.perf_counter()
    for number in range(10_000_000):
        total += number
    return time.perf_counter() - begin


def worktree(stack: contextlib.ExitStack, folder: Path, commit: str) -> Path:
    """Check out a commit in a temporary folder, which the stack removes; return its path."""
    root = folder / "worktree"
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", root, commit], check=True)
    stack.callback(subprocess.run, [*git, "remove", "--force", root], check=True)
    return root


def measure(
    sites: dict[str, EmbeddedSite], settle_s: float, seconds: float
) -> dict[str, dict[str, Cost]]:
    """Return the cost of each process of each site, by name, once all of them are idle.

    Measures again if a device runs a task meanwhile.
    """
    while True:
        attempts = wait_until_idle(list(sites.values()), settle_s)
        before = {name: usages(site.process.pid) for name, site in sites.items()}
        time.sleep(seconds)
        after = {name: usages(site.process.pid) for name, site in sites.items()}
        if [count(site, ATTEMPTS) for site in sites.values()] == attempts:
            return {name: difference(before[name], after[name]) for name in sites}
        print("A device ran a task during the measurement, which is repeated.")


def wait_until_idle(sites: list[EmbeddedSite], settle_s: float) -> list[int]:
    """Wait until no device ran a task for `settle_s`; return the number of attempts by site.

    A new site may check and measure its device first.
    """
    idle_since = time.monotonic()
    while time.monotonic() < idle_since + settle_s:
        time.sleep(1.0)
        if any(count(site, LIVE) for site in sites):
            idle_since = time.monotonic()
    return [count(site, ATTEMPTS) for site in sites]


def count(site: EmbeddedSite, query: str) -> int:
    address = f"file:{site.home / 'db.sqlite3'}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
        number: int = database.execute(query).fetchone()[0]
        return number


def usages(supervisor: int) -> dict[Identity, Usage]:
    """Return what each process of a site used since its start, in the order of their starts."""
    found = {}
    for identity in sorted(family_of(supervisor), key=lambda member: (int(member[1]), member[0])):
        with contextlib.suppress(OSError):  # it has ended
            found[identity] = usage(identity[0])
    return found


def usage(pid: int) -> Usage:
    folder = PROC / str(pid)
    # fields 14 to 17 of proc(5), counted from the state, which follows the name
    fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
    cpu_s = sum(map(int, fields[11:15])) / TICKS_PER_S
    return Usage(part_of(pid), cpu_s, sum(wakeups(folder)))


def part_of(pid: int) -> str:
    """Return the part of the site that a process belongs to, which is the name of its log."""
    while True:
        log = Path(os.readlink(PROC / str(pid) / "fd/1"))
        if log.parent.name == "logs":
            return log.stem
        parent = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        if (pid := int(parent[1])) <= 1:
            return "supervisor"


def wakeups(folder: Path) -> Iterator[int]:
    for status in folder.glob("task/*/status"):
        with contextlib.suppress(OSError):  # the thread has ended
            for line in status.read_text(errors="replace").splitlines():
                if line.startswith("voluntary_ctxt_switches:"):
                    yield int(line.split()[1])


def difference(before: dict[Identity, Usage], after: dict[Identity, Usage]) -> dict[str, Cost]:
    """Return the cost of each process, by the name of its part and its number in it.

    The time of a process that ended in the meantime is counted with its parent, which includes the
    time before the measurement; that is subtracted again under the name "ended".
    """
    nothing = Usage("", 0.0, 0)
    costs: dict[str, Cost] = {}
    numbers: dict[str, int] = defaultdict(int)
    for identity, now in after.items():
        then = before.get(identity, nothing)
        numbers[now.part] += 1
        name = f"{now.part} {numbers[now.part]}"
        costs[name] = (now.cpu_s - then.cpu_s, max(0, now.wakeups - then.wakeups))
    if ended := [usage for identity, usage in before.items() if identity not in after]:
        costs["ended"] = (-sum(usage.cpu_s for usage in ended), 0)
    return costs


def report(costs: dict[str, dict[str, Cost]], seconds: float) -> str:
    names = list(dict.fromkeys(name for site in costs.values() for name in site))
    rows = [
        [name, *columns([site.get(name) for site in costs.values()], seconds)] for name in names
    ]
    sums = [
        (sum(cpu_s for cpu_s, _ in site.values()), sum(times for _, times in site.values()))
        for site in costs.values()
    ]
    rows.append(["all", *columns(list(sums), seconds)])
    headers = ["process"]
    for site in costs:
        headers += [f"{site}: CPU s", "% of a core", "wake-ups / s"]
    percent = sums[-1][0] / seconds * 100
    verdict = "met" if percent <= GOAL_PERCENT else "MISSED"
    return (
        f"{tabulate(rows, headers=headers, floatfmt='.2f')}\n"
        f"idle for {seconds:g} s: {percent:.2f} % of a core, goal {GOAL_PERCENT:g} %, {verdict}"
    )


def columns(costs: list[Cost | None], seconds: float) -> Iterator[float | None]:
    for cost in costs:
        if cost is None:
            yield from (None, None, None)
        else:
            yield from (cost[0], cost[0] / seconds * 100, cost[1] / seconds)


if __name__ == "__main__":
    main()
