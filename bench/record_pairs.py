"""Record pairs of equal models, as a site with its default settings measures them.

`python -m bench.record_pairs FILE [--pairs 100] [--hour quiet]` starts a new site and compares each
of three models with itself until FILE has enough pairs of it; started again, it continues. FILE has
a JSON line for each pair: {model, hour, at, run_s, order: arms of its turns, ms: their times,
waited_ms, elapsed_ms, stolen_ms, disturbances: codes}. `bench.bench_trust` resamples them.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.conftest import find_megengine_python
from agent.protocol.pairs import PAIRED_NAME, PairedMeasurement
from bench.site import OWN_RUNS, wait_for_end
from testdata import DATA
from webprofile.operations.devserver.demo import Visitor
from webprofile.tests.end_to_end.runs import submit
from webprofile.tests.site import running_site

MODELS = ("resnet18", "lstm", "bert_tiny")
#: s; a comparison never ends earlier, because no interval lies within this margin
BUDGET_S, MARGIN = 60, 0.001


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--pairs", type=int, default=100, help="of each model (default: 100)")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--hour", choices=("quiet", "busy"), default="quiet")
    arguments = parser.parse_args()
    find_megengine_python()
    known = Counter(row["model"] for row in read(arguments.file) if row["hour"] == arguments.hour)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_site(Path(folder), **OWN_RUNS) as site,
        site.login() as visitor,
    ):
        for model in arguments.models:
            while known[model] < arguments.pairs:
                rows = list(measure(visitor, model, arguments.hour))
                with arguments.file.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(row) + "\n" for row in rows)
                known[model] += len(rows)
                used = sum(not row["disturbances"] for row in rows)
                print(f"{model}: {known[model]} pairs, {used} of the last {len(rows)} usable")
    return 0


def read(path: Path) -> list[dict[str, Any]]:
    """Return the recorded pairs; none if there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def compare(visitor: Visitor, models: tuple[Path, Path], pairing: dict[str, float]) -> int:
    """Compare two models in pairs, as a user does; return the number of the task that has ended.

    `pairing` is that of the order.
    """
    files = {path: {"kind": "model", "arm": arm} for arm, path in enumerate(models)}
    task = submit(visitor, files, pairing={**pairing, "arms": [{}]})  # type: ignore[arg-type]
    wait_for_end(visitor, task)
    return task


def measurement_of(visitor: Visitor, task: int) -> PairedMeasurement:
    """Return the content of `paired.json`."""
    return PairedMeasurement.model_validate_json(visitor.artifact(task, PAIRED_NAME))


def measure(visitor: Visitor, model: str, hour: str) -> Iterator[dict[str, Any]]:
    """Compare a model with itself, and yield its pairs."""
    path = DATA / "models" / f"{model}.mge"
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / path.name
        other.write_bytes(path.read_bytes())
        task = compare(visitor, (path, other), {"budget_s": BUDGET_S, "margin": MARGIN})
    for pair in measurement_of(visitor, task).pairs:
        yield {
            "model": model,
            "hour": hour,
            "at": pair.started_at,
            "run_s": round(pair.run_s, 3),
            "order": [turn.arm for turn in pair.turns],
            "ms": [round(turn.ms, 6) for turn in pair.turns],
            "waited_ms": pair.waited_ms,
            "elapsed_ms": pair.elapsed_ms,
            "stolen_ms": pair.stolen_ms,
            "disturbances": [row.code for row in pair.disturbances],
        }


if __name__ == "__main__":
    raise SystemExit(main())
