"""Measure the dispatch latency: from "all files confirmed" to "load_and_run process started".

`python -m bench.bench_dispatch [--tasks 200]` starts a complete embedded site in a temporary folder
and submits small tasks one after the other, as a browser does. All times are read from the rows of
the server. The last one is when the server received the agent's message that the process runs,
which is later than its start.
"""

import argparse
import datetime
import itertools
import sqlite3
import statistics
import tempfile
from pathlib import Path

from tabulate import tabulate

from bench.site import sample, send, wait_for_end
from webprofile.tests.site import running_site

GOAL_MS = {50: 120.0, 99: 350.0}
QUERY = """
    SELECT t.submitted_at, a.created_at, a.accepted_at, a.started_at, a.download_s
    FROM tasks_attempt a JOIN tasks_task t ON t.id = a.task_id ORDER BY t.id
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=200)
    count = parser.parse_args().tasks
    with tempfile.TemporaryDirectory() as folder, running_site(Path(folder)) as site:
        with site.login() as visitor:
            worker = visitor.device()["id"]
            model, data = sample(Path(folder) / "sample")
            for number in range(count + 1):  # the first task opens connections and is not counted
                task, _ = send(visitor, worker, model, data, iterations=1)
                wait_for_end(visitor, task)
                print(f"\r{number}/{count}", end="", flush=True)
        rows = sqlite3.connect(f"file:{site.home / 'db.sqlite3'}?mode=ro", uri=True).execute(QUERY)
        times = [parts_ms(*row) for row in rows][1:]
    print("\n" + report(times))


def parts_ms(
    submitted: str, assigned: str, accepted: str, started: str, download_s: float
) -> dict[str, float]:
    """Return the duration of each step in ms."""
    points = [
        datetime.datetime.fromisoformat(text) for text in (submitted, assigned, accepted, started)
    ]
    steps = [(b - a).total_seconds() * 1000 for a, b in itertools.pairwise(points)]
    download_ms = download_s * 1000
    return {
        "confirmed -> assigned": steps[0],
        "assigned -> on the device's disk": steps[1],
        "download": download_ms,
        "on disk -> process started": steps[2] - download_ms,
        "total beyond the download": sum(steps) - download_ms,
    }


def report(times: list[dict[str, float]]) -> str:
    table = []
    for name in times[0]:
        cuts = statistics.quantiles((t[name] for t in times), n=100, method="inclusive")
        table.append([name, *(cuts[p - 1] for p in (50, 95, 99)), max(t[name] for t in times)])
    text = tabulate(table, headers=["ms", "p50", "p95", "p99", "max"], floatfmt=".1f")
    total = dict(zip((50, 95, 99), table[-1][1:4], strict=True))
    verdicts = [
        f"p{p}: {total[p]:.1f} ms, goal {goal:.0f} ms, {'met' if total[p] <= goal else 'MISSED'}"
        for p, goal in GOAL_MS.items()
    ]
    return "\n".join([f"{len(times)} tasks", text, *verdicts])


if __name__ == "__main__":
    main()
