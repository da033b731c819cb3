"""What the site costs: the sample model through it against the same command by hand, in turn.

`python -m bench.bench_overhead [--pairs 10] [--cold]`. By hand: the wall time of the process.
Through the site: from "all files confirmed" until the page hears `succeeded`, with download, upload
and the profile's analysis. Beside it the mean iteration that load_and_run itself printed in both:
the site must not disturb it.

Before each step the device settles, as one does that somebody uses now and then: by the end of the
pause the agent has made the process that waits for the next task, and it disturbs neither step.
`--cold` keeps the agent from making one (`warm = false` in its configuration).
"""

import argparse
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agent.conftest import find_megengine_python
from agent.protocol.options import build_arguments
from agent.runtimes import command_for
from bench.pairs import in_turn, report
from bench.site import sample, send, wait_for_end
from webprofile.embedded.demo import Visitor
from webprofile.embedded.layout import Layout
from webprofile.tests.site import running_site

GOAL = 1.10
HEADERS = (
    "pair",
    "by hand s",
    "iteration ms",
    "site s",
    "iteration ms",
    "ratio",
    "iteration ratio",
)
ITERATIONS = 10
#: the agent waits 1 s, then imports MegEngine
SETTLE_S = 2.0


def main() -> None:
    print(report(asked(__doc__, measure), HEADERS, (1, 2), GOAL))


def asked(
    description: str | None, measure: Callable[[Path, int, int], list[tuple[float, ...]]]
) -> list[tuple[float, ...]]:
    """What `measure` finds with what the command line says, in a folder of its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
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


def measure(folder: Path, pairs: int, iterations: int) -> list[tuple[float, ...]]:
    """One row for each pair: its number, then (s, ms) by hand and through the site."""
    with running_site(folder) as site, site.login() as visitor:
        worker = visitor.device()["id"]
        model, data = sample(folder / "sample")
        steps = (
            lambda: hand(folder, model, data, iterations),
            lambda: through_site(visitor, worker, model, data, iterations),
        )
        return in_turn(steps, pairs, SETTLE_S)


def hand(folder: Path, model: Path, data: Path, iterations: int) -> tuple[float, float]:
    wall_s, log = by_hand(folder, model, data, iterations)
    return wall_s, mean_ms(log)


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
) -> tuple[float, float]:
    task, begin = send(visitor, worker, model, data, iterations=iterations)
    log = wait_for_end(visitor, (task, begin))
    return time.perf_counter() - begin, mean_ms(log)


def mean_ms(log: str) -> float:
    found = re.search(r"avg_time=([\d.]+)", log)
    assert found, log
    return float(found[1])


if __name__ == "__main__":
    main()
