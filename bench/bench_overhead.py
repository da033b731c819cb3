"""What the site costs: the sample model through it against the same command by hand, in turn.

`python -m bench.bench_overhead [--pairs 10]`. By hand: the wall time of the process. Through the
site: from "all files confirmed" until the page hears `succeeded`, with download, upload and the
profile's analysis. Beside it the mean iteration that load_and_run itself printed in both: the site
must not disturb it.
"""

import argparse
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

from agent.conftest import find_megengine_python
from agent.protocol.options import build_arguments
from agent.runtimes import command_for
from bench.site import sample, send, wait_for_end
from webprofile.embedded.demo import Visitor
from webprofile.tests.site import running_site

GOAL = 1.10
ITERATIONS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        running_site(Path(folder)) as site,
        site.login() as visitor,
    ):
        worker = visitor.device()["id"]
        model, data = sample(Path(folder) / "sample")
        steps = [
            lambda: by_hand(Path(folder), model, data, given.iterations),
            lambda: through_site(visitor, worker, model, data, given.iterations),
        ]
        rows = []
        for pair in range(given.pairs + 1):  # the first pair warms caches up
            # in turn: whoever always went first would always meet the quieter machine
            first = pair % 2
            results = {first: steps[first](), 1 - first: steps[1 - first]()}
            rows.append((pair, *results[0], *results[1]))
    print(report(rows[1:]))


def by_hand(folder: Path, model: Path, data: Path, iterations: int) -> tuple[float, float]:
    """Return (wall s, mean ms of an iteration) of the process alone."""
    options = {"iter": iterations}
    command = command_for("wheel", find_megengine_python())
    command += build_arguments(
        str(model), {"data": str(data)}, options, str(folder / "by_hand.json")
    )
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return time.perf_counter() - begin, mean_ms(done.stderr)


def through_site(
    visitor: Visitor, worker: int, model: Path, data: Path, iterations: int
) -> tuple[float, float]:
    task, begin = send(visitor, worker, model, data, iterations=iterations)
    log = wait_for_end(visitor, (task, begin))
    return time.perf_counter() - begin, mean_ms(log)


def mean_ms(log: str) -> float:
    found = re.search(r"avg_time=([\d.]+)", log)
    assert found, log
    return float(found[1])


def report(rows: list[tuple[int, float, float, float, float]]) -> str:
    headers = [
        "pair",
        "by hand s",
        "iteration ms",
        "site s",
        "iteration ms",
        "ratio",
        "iteration ratio",
    ]
    table = [(*row, row[3] / row[1], row[4] / row[2]) for row in rows]
    medians = [statistics.median(row[column] for row in table) for column in range(1, 7)]
    text = tabulate([*table, ("median", *medians)], headers=headers, floatfmt=".3f")
    ratio = medians[4]
    return (
        f"{text}\nmedian ratio {ratio:.3f}, goal {GOAL:.2f}: {'met' if ratio <= GOAL else 'MISSED'}"
    )


if __name__ == "__main__":
    main()
