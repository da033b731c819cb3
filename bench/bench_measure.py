"""What measuring through the site costs beside the same pass typed by hand, in turn.

`python -m bench.bench_measure [--pairs 10] [--cold]`. The model is resnet18 of testdata/, the
preset is quick: one profiled process. Wall time by hand is that of the process; through the site it
is from "all files confirmed" until the page hears `succeeded`. The start-up of the runner (imports,
load, compile, end: what the process does beside iterations) is told apart for both. Then what it
costs to watch the device during a run.
"""

import asyncio
import re
import time
from pathlib import Path

from agent.device.observe import Observer
from agent.protocol.measurement import Measurement
from bench.bench_overhead import SETTLE_S, asked, by_hand, mean_ms
from bench.pairs import in_turn, report
from bench.site import send, wait_for_end
from testdata import DATA
from webprofile.embedded.demo import Visitor
from webprofile.tests.site import running_site

GOAL = 1.05
HEADERS = (
    "pair",
    "by hand s",
    "iteration ms",
    "start-up s",
    "site s",
    "iteration ms",
    "start-up s",
    "ratio",
    "iteration ratio",
)
#: the most that watching may take of one core
MOST_WATCHING = 0.002
GLANCES = 50


def main() -> None:
    print(report(asked(__doc__, measure), HEADERS, (1, 2), GOAL))
    share = asyncio.run(watching())
    verdict = "met" if share <= MOST_WATCHING else "MISSED"
    print(f"watching: {share:.3%} of a core (goal {MOST_WATCHING:.1%}): {verdict}")


async def watching() -> float:
    """CPU time of a glance over the time between two, as a run has them."""
    pace_s = Observer().every_s
    observer = Observer(every_s=0.05)
    observer.begin()
    await asyncio.sleep(GLANCES * observer.every_s)
    seen = await observer.end()
    return seen.watch_cpu_s / len(seen.during) / pace_s


def measure(folder: Path, pairs: int, iterations: int) -> list[tuple[float, ...]]:
    """One row for each pair: its number, then by hand and through the site (s, ms, start-up s)."""
    model, data = DATA / "models/resnet18.mge", DATA / "inputs/resnet18/data.npy"
    with running_site(folder) as site, site.login() as visitor:
        worker = visitor.device()["id"]
        steps = (
            lambda: hand(folder, model, data, iterations),
            lambda: through_site(visitor, worker, model, data, iterations),
        )
        return in_turn(steps, pairs, SETTLE_S)


def hand(folder: Path, model: Path, data: Path, iterations: int) -> tuple[float, float, float]:
    wall_s, log = by_hand(folder, model, data, iterations)
    warm_ups = re.findall(r"warm up \d+\s+([\d.]+)ms", log)
    total = re.search(r"total time: ([\d.]+)ms", log)
    assert total
    iterating_s = (float(total[1]) + sum(map(float, warm_ups))) / 1000
    return wall_s, mean_ms(log), wall_s - iterating_s


def through_site(
    visitor: Visitor, worker: int, model: Path, data: Path, iterations: int
) -> tuple[float, float, float]:
    task, begin = send(visitor, worker, model, data, iterations=iterations)
    log = wait_for_end(visitor, (task, begin))
    wall_s = time.perf_counter() - begin
    text = visitor.artifact(task, "measurement.json")
    (kept,) = [each for each in Measurement.model_validate_json(text).passes if each.kept]
    return wall_s, mean_ms(log), kept.start_s or 0.0


if __name__ == "__main__":
    main()
