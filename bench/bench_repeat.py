"""How far results of the same task differ: resnet18, preset standard, ten times each way.

`python -m bench.bench_repeat [--times 10] [--ways plain,gate,gate+pin]`. For the total of all
operators on the device and for the ten slowest operators: the coefficient of variation (CV) over
the tasks, of what a task says: the median over its five profiled passes; beside it the CV of single
passes, which is what one run of load_and_run says. The ways are taken in turn, task by task, so
that a slow minute of the machine meets all of them. `--disturb`: another process is busy for 3 s
out of every 8.
"""

import argparse
import contextlib
import itertools
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from agent.protocol.artifacts import profile_name
from agent.protocol.plan import PRESETS
from bench.site import send, wait_for_end
from profiles.parsers.columns import ProfileColumns
from profiles.parsers.load_and_run import parse
from testdata import DATA
from webprofile.embedded.layout import Layout
from webprofile.tests.site import running_site

SLOWEST = 10
#: what each way adds to the agent's configuration
WAYS = {
    "plain": "[gate]\nenabled = false\n[measure]\ncores = []\n",
    "gate": "[gate]\nmax_load = 0.1\n[measure]\ncores = []\n",
    "gate+pin": "[gate]\nmax_load = 0.1\n[measure]\ncores = [1]\n",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--ways", default="plain,gate,gate+pin")
    parser.add_argument("--disturb", action="store_true")
    given = parser.parse_args()
    ways = given.ways.split(",")
    with contextlib.ExitStack() as stack:
        if given.disturb:
            stack.enter_context(disturbance())
        found: dict[str, list[NDArray[np.float64]]] = {way: [] for way in ways}
        spoilt = dict.fromkeys(ways, 0)
        for _, way in itertools.product(range(2), ways):
            # two halves, so that each way is early and late
            with tempfile.TemporaryDirectory() as folder:
                passes, contaminated = run_tasks(Path(folder), way, given.times // 2)
            found[way] += passes
            spoilt[way] += contaminated
    print(report(found, spoilt))


def run_tasks(folder: Path, way: str, times: int) -> tuple[list[NDArray[np.float64]], int]:
    """Return for each task (passes, operators) device self times in s, and how many were spoilt."""
    with running_site(folder) as site, site.login() as visitor:
        visitor.device()
    config = Layout(folder).agent_config
    config.write_text(config.read_text(encoding="utf-8") + "\n" + WAYS[way], encoding="utf-8")
    model, data = DATA / "models/resnet18.mge", DATA / "inputs/resnet18/data.npy"
    found, contaminated = [], 0
    with running_site(folder) as site, site.login() as visitor:
        worker = visitor.device()["id"]
        for _ in range(times):
            time.sleep(2)
            sent = send(visitor, worker, model, data, iterations=10, plan={"preset": "standard"})
            wait_for_end(visitor, sent)
            names = [profile_name(n + 1) for n in range(PRESETS["standard"].profiled)]
            columns = [parse(visitor.artifact(sent[0], name)) for name in names]
            found.append(np.array([times_by_id(each) for each in columns]))
            measured = json.loads(visitor.artifact(sent[0], "measurement.json"))
            contaminated += bool(measured["contaminations"])
    return found, contaminated


def times_by_id(columns: ProfileColumns) -> NDArray[np.float64]:
    """Device self times, s: (operators,). Each file has its operators in another order."""
    return np.nan_to_num(columns.device.end_s)[np.argsort(np.array(columns.ids))]


@contextlib.contextmanager
def disturbance() -> Iterator[None]:
    """Another process that is busy for 3 s out of every 8."""
    process = multiprocessing.Process(target=_disturb, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _disturb() -> None:
    while True:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            pass
        time.sleep(5)


def report(found: dict[str, list[NDArray[np.float64]]], spoilt: dict[str, int]) -> str:
    rows = []
    for way, tasks in found.items():
        passes = np.array(tasks)  # (tasks, passes, operators)
        of_task = np.median(passes, axis=1)
        totals = np.median(passes.sum(axis=2), axis=1)
        singles = passes.sum(axis=2).ravel()
        slowest = np.argsort(-np.median(of_task, axis=0))[:SLOWEST]
        apart = _apart(totals)
        rows.append(
            (
                way,
                len(tasks),
                spoilt[way],
                1000 * float(np.median(totals)),
                _cv(totals),
                statistics.median(_cv(of_task[:, each]) for each in slowest),
                max(_cv(of_task[:, each]) for each in slowest),
                _cv(singles),
                apart,
            )
        )
    headers = [
        "way",
        "tasks",
        "contaminated",
        "total ms",
        "CV total %",
        "CV ten slowest, median %",
        "worst %",
        "CV of single passes %",
        "neighbours apart, median %",
    ]
    return tabulate(rows, headers=headers, floatfmt=".2f")


def _cv(values: NDArray[np.float64]) -> float:
    """Sample standard deviation over mean, in percent."""
    return float(100 * np.std(values, ddof=1) / np.mean(values))


def _apart(values: NDArray[np.float64]) -> float:
    """How far two tasks that follow each other differ, in percent: the median."""
    return float(np.median(100 * np.abs(np.diff(values)) / values[:-1]))


if __name__ == "__main__":
    main()
