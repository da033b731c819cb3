"""Try paired comparisons of models whose difference is known, on a new site with its defaults.

`python -m bench.trials [FILE] [--kinds equal total operator] [--trials 20]` starts a site and
compares the model of `bench/planted_model.py` with itself (`equal`), with one that has 1 % more
work (`total`), and with one of which an operator of about 3 % of the time has a sixth more work
(`operator`). FILE (`bench/trials.jsonl`) gets a JSON line for each trial: {kind, budget_s, at,
verdict, effect, low, high, pairs, used, scatter (MAD x 1.4826 of the pairs that count),
measuring_s, operator_pairs, named}. Started again, it continues, so delete the lines of a method
that has changed. Then a table tells how many answers were right, by the scatter of the pairs.
"""

import argparse
import json
import random
import subprocess
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from agent.conftest import find_megengine_python
from agent.statistics.paired import log_ratio_of_pair
from bench.record_pairs import compare, measurement_of, read
from bench.site import OWN_RUNS
from webprofile.operations.devserver.demo import Visitor
from webprofile.tests.site import ROOT, running_site


@dataclass(frozen=True)
class Kind:
    """What is planted in the second model, the usual budget, and the right verdict.

    verdict: None if the planted operator is to be named first
    """

    plants: str
    budget_s: int
    verdict: str | None


KINDS = {
    "equal": Kind("--units=100", 60, "same"),
    "total": Kind("--units=101", 60, "slower"),
    "operator": Kind("--channels=56", 300, None),
}
#: shape of the weights of the planted operator, which is among its inputs
_PLANTED = ("{48,16,3,3}", "{56,16,3,3}")
#: upper limits of the classes of scatter, as ratios
CLASSES = (0.016, 0.03)
ANSWERS = ("right", "not enough", "wrong")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=ROOT / "bench" / "trials.jsonl")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--trials", type=int, default=20, help="of each kind (default: 20)")
    parser.add_argument("--budget", type=int, help="s, of each trial (default: that of the kind)")
    args = parser.parse_args()
    budgets = {kind: args.budget or KINDS[kind].budget_s for kind in args.kinds}
    known = Counter((row["kind"], row["budget_s"]) for row in read(args.file))
    missing = [
        kind
        for kind, budget_s in budgets.items()
        for _ in range(args.trials - known[kind, budget_s])
    ]
    random.shuffle(missing)
    if missing:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            base = make_model(folder / "base.mge")
            others = {
                kind: make_model(folder / f"{kind}.mge", KINDS[kind].plants) for kind in KINDS
            }
            with (
                running_site(folder / "site", **OWN_RUNS) as site,
                site.login() as visitor,
            ):
                for kind in missing:
                    order = {"budget_s": budgets[kind], "least_cosine": -1}
                    task = compare(visitor, (base, others[kind]), order)
                    row = {"kind": kind, "budget_s": budgets[kind], **result(visitor, task)}
                    print(json.dumps(row), flush=True)
                    with args.file.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
    print(tabulate(table(read(args.file)), headers="keys", floatfmt=".1f"))


def make_model(path: Path, *arguments: str) -> Path:
    script = str(ROOT / "bench" / "planted_model.py")
    command = [find_megengine_python(), script, str(path), *arguments]
    subprocess.run(command, check=True, capture_output=True)
    return path


def result(visitor: Visitor, task: int) -> dict[str, Any]:
    paired = measurement_of(visitor, task)
    (verdict,) = paired.verdicts
    operators = visitor.get(f"/api/v1/profiles/of-task/{task}/pairs/").json()["operators"]
    used = [pair for pair in paired.pairs if not pair.disturbances]
    values = np.array([log_ratio_of_pair(pair.times_ms(0), pair.times_ms(1)) for pair in used])
    spread = 1.4826 * float(np.median(np.abs(values - np.median(values)))) if used else None
    return {
        "at": paired.pairs[0].started_at,
        "verdict": verdict.verdict,
        "effect": verdict.effect,
        "low": verdict.low,
        "high": verdict.high,
        "pairs": len(paired.pairs),
        "used": len(used),
        "scatter": spread,
        "measuring_s": round(paired.measuring_s, 1),
        "operator_pairs": sum(arm["pairs"] for arm in operators),
        "named": [row["name"] for arm in operators for row in arm["named"]],
    }


def answer(row: dict[str, Any]) -> str:
    """Return the part of ANSWERS that a trial belongs to."""
    kind = KINDS[row["kind"]]
    if kind.verdict is None:
        if not row["named"]:
            return "not enough"
        return "right" if any(shape in row["named"][0] for shape in _PLANTED) else "wrong"
    if row["verdict"] == "not_enough":
        return "not enough"
    return "right" if row["verdict"] == kind.verdict else "wrong"


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each kind, budget and class of scatter."""
    groups = defaultdict(list)
    for row in rows:
        scatter = row["scatter"] if row["scatter"] is not None else float("inf")
        level = next((f"<= {limit:.1%}" for limit in CLASSES if scatter <= limit), "above")
        groups[row["kind"], row["budget_s"], level].append(row)
    result = []
    for (kind, budget_s, level), part in sorted(groups.items()):
        answers = Counter(map(answer, part))
        result.append(
            {
                "kind": kind,
                "budget s": budget_s,
                "scatter": level,
                "trials": len(part),
                **{f"{name} %": 100 * answers[name] / len(part) for name in ANSWERS},
                "median s": float(np.median([row["measuring_s"] for row in part])),
                "pairs that count %": 100
                * sum(row["used"] for row in part)
                / sum(row["pairs"] for row in part),
            }
        )
    return result


if __name__ == "__main__":
    main()
