"""What measuring through the site costs beside the same pass typed by hand, in turn.

`python -m bench.bench_measure [--pairs 10] [--cold]`. The model is resnet18 of testdata/, the
preset is quick: one profiled process. Wall time by hand is that of the process; through the site it
is from "all files confirmed" until the page hears `succeeded`, with download, upload and the
profile's analysis. Before each step the device settles, so that the process that waits for the next
task disturbs neither; `--cold` keeps the agent from making one (`warm = false`). The start-up of
the runner (imports, load, compile, end: all but the iterations) is reported separately for both,
then what it costs to watch the device during a run.
"""

import argparse
import asyncio
import re
import subprocess
import tempfile
import time
from pathlib import Path

from agent.conftest import find_megengine_python
from agent.device.observe import Observer
from agent.protocol.measurement import Measurement
from agent.protocol.options import build_arguments
from agent.runtimes.command import command_for
from bench.pairs import in_turn, report
from bench.site import send, wait_for_end
from testdata import DATA
from webprofile.operations.devserver.demo import Visitor
from webprofile.operations.devserver.layout import Layout
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
#: the agent waits 1 s, then imports MegEngine
SETTLE_S = 2.0
#: the most that watching may take of one core
MOST_WATCHING = 0.002
GLANCES = 50


def main() -> None:
    print(report(pairs_asked(), HEADERS, (1, 2), GOAL))
    share = asyncio.run(watching())
    verdict = "met" if share <= MOST_WATCHING else "MISSED"
    print(f"watching: {share:.3%} of a core (goal {MOST_WATCHING:.1%}): {verdict}")


def pairs_asked() -> list[tuple[float, ...]]:
    """Measure what the command line says, in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.cold:
            forbid_warming(Path(folder))
        return measure(Path(folder), given.pairs, given.iterations)


def forbid_warming(folder: Path) -> None:
    """Let a first start enrol the device, and say so in the configuration that it made."""
    with running_site(folder) as site, site.login() as visitor:
        visitor.device()
    config = Layout(folder).agent_config
    config.write_text("warm = false\n" + config.read_text(encoding="utf-8"), encoding="utf-8")


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


def by_hand(folder: Path, model: Path, data: Path, iterations: int) -> tuple[float, str]:
    """Return (wall s, log) of the process alone."""
    options = {"iter": iterations}
    command = command_for("wheel", find_megengine_python())
    command += build_arguments(
        str(model), {"data": str(data)}, options, str(folder / "by_hand.json")
    )
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return time.perf_counter() - begin, done.stderr


def through_site(
    visitor: Visitor, worker: int, model: Path, data: Path, iterations: int
) -> tuple[float, float, float]:
    task, begin = send(visitor, worker, model, data, iterations=iterations)
    log = wait_for_end(visitor, (task, begin))
    wall_s = time.perf_counter() - begin
    text = visitor.artifact(task, "measurement.json")
    (kept,) = [record for record in Measurement.model_validate_json(text).passes if record.kept]
    return wall_s, mean_ms(log), kept.start_s or 0.0


def mean_ms(log: str) -> float:
    match = re.search(r"avg_time=([\d.]+)", log)
    assert match, log
    return float(match[1])


if __name__ == "__main__":
    main()
