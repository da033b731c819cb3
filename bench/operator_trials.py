"""Count how often a paired comparison names the operator that was made slower.

`python -m bench.operator_trials FILE [--trials 40]` starts a new site and compares a model with one
in which a convolution of about 3 % of the time has a sixth more work (`bench/make_planted.py`),
until FILE has enough trials; started again, it continues. With `--equal`, both models are the same.
FILE has a JSON line for each trial: {planted, at, s: from submission to end, verdict, effect,
pairs, used, operator_pairs, tested, named: [[name, effect, difference in µs]]}. `--simulate` needs
no FILE: it plants the operator in random times.
"""

import argparse
import json
import math
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from agent.conftest import find_megengine_python
from agent.statistics.paired import compare_operators, operator_pairs
from bench.site import wait_for_end
from webprofile.operations.devserver.demo import Visitor, announce, confirm, upload
from webprofile.operations.devserver.device import WORKER
from webprofile.tests.site import ROOT, running_site

BUDGET_S = 300
#: of the simulation: operators, share of the planted one, series, scatter of an operator in a pair
OPERATORS, SHARE, SERIES, SCATTERS = 98, 0.03, 2000, (0.02, 0.05, 0.1, 0.15, 0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=Path("operator-trials.jsonl"))
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--equal", action="store_true", help="plant nothing")
    parser.add_argument("--simulate", action="store_true")
    arguments = parser.parse_args()
    if arguments.simulate:
        for scatter in SCATTERS:
            print(simulated(scatter))
        return 0
    is_planted = not arguments.equal
    rows = [row for row in read(arguments.file) if row["planted"] == is_planted]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = [make(folder / "a.mge"), make(folder / "b.mge", 56 if is_planted else 48)]
        with running_site(folder / "site") as site, site.login() as visitor:
            while len(rows) < arguments.trials:
                rows.append({"planted": is_planted, **trial(visitor, models)})
                with arguments.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1], ensure_ascii=False) + "\n")
                print(report(rows), flush=True)
    return 0


def read(path: Path) -> list[dict[str, Any]]:
    """Return the trials so far; none if there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def make(path: Path, channels: int = 48) -> Path:
    script = str(ROOT / "bench" / "make_planted.py")
    command = [find_megengine_python(), script, str(path), f"--channels={channels}"]
    subprocess.run(command, check=True, capture_output=True)
    return path


def trial(visitor: Visitor, models: list[Path]) -> dict[str, Any]:
    """Compare the models; return what the site says about them."""
    files = {models[0]: {"kind": "model"}, models[1]: {"kind": "model", "arm": 1}}
    worker, begun = visitor.device(WORKER)["id"], time.monotonic()
    pairing = {"budget_s": BUDGET_S, "arms": [{}]}
    task = announce(visitor, worker, files, pairing=pairing)  # type: ignore[arg-type]
    upload(visitor, task, files)
    confirm(visitor, task)
    wait_for_end(visitor, (task["id"], 0.0))
    result = visitor.get(f"/api/v1/profiles/of-task/{task['id']}/pairs/").json()
    (verdict,), operators = result["verdicts"], result["operators"]
    row = {
        "at": round(time.time()),
        "s": round(time.monotonic() - begun, 1),
        "verdict": verdict["verdict"],
        "effect": verdict["effect"],
        "pairs": len(result["pairs"]),
        "used": sum(not pair["disturbances"] for pair in result["pairs"]),
        "operator_pairs": 0,
        "tested": 0,
        "named": [],
    }
    for arm in operators:
        named = [
            [operator["name"], operator["effect"], operator["delta_us"]]
            for operator in arm["named"]
        ]
        row |= {"operator_pairs": arm["pairs"], "tested": arm["tested"], "named": named}
    return row


def report(rows: list[dict[str, Any]]) -> str:
    """Return how many trials named an operator, and how often the planted one was the first."""
    named = [row for row in rows if row["named"]]
    first = sum(is_planted_one(row["named"][0][0]) for row in named)
    return f"{len(rows)} trials: {len(named)} named operators, {first} the planted one first"


def simulated(scatter: float) -> str:
    """Return how often the planted operator is named first, in as many pairs as are needed."""
    random, pairs = np.random.default_rng(5), operator_pairs(OPERATORS)
    shares = np.full(OPERATORS, (1 - SHARE) / (OPERATORS - 1))
    shares[0] = SHARE
    first = others = equal = 0
    for _ in range(SERIES):
        ratios = scatter * random.standard_normal((pairs, OPERATORS))
        equal += bool(compare_operators(ratios).is_different.any())
        ratios[:, 0] += math.log(7 / 6)
        compared = compare_operators(ratios)
        deltas = np.where(compared.is_different, np.abs(compared.effect) * shares, 0.0)
        first += bool(compared.is_different[0] and deltas.argmax() == 0)
        others += bool(compared.is_different[1:].any())
    percent = [f"{100 * count / SERIES:.1f} %" for count in (first, others, equal)]
    return (
        f"scatter {100 * scatter:.0f} %, {pairs} pairs: planted named first {percent[0]}, others "
        f"called different {percent[1]}; of equal arms, any called different {percent[2]}"
    )


def is_planted_one(name: str) -> bool:
    """Whether an operator has the weight of the planted convolution as an input."""
    return "{48,16,3,3}" in name or "{56,16,3,3}" in name


if __name__ == "__main__":
    raise SystemExit(main())
