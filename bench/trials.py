"""Try paired comparisons of models whose difference is known, on a new site with its defaults.

`python -m bench.trials FILE [--kinds equal total] [--trials 20] [--budget 60]` starts a site and
compares the model of `bench/planted_model.py` with itself (`equal`), and with one that has 1 % more
work (`total`). FILE gets a JSON line for each trial: {kind, budget_s, at, verdict, effect, low,
high, pairs, used, scatter (MAD x 1.4826 of the pairs that count), measuring_s}. Started again, it
continues. Then a table tells how many verdicts were right, by the scatter of the pairs.
"""

import argparse
import json
import random
import subprocess
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from agent.conftest import find_megengine_python
from agent.protocol.pairs import PairedMeasurement
from agent.statistics.paired import log_ratio_of_pair
from bench.record_pairs import compare, read
from webprofile.tests.site import ROOT, running_site

#: kind -> (units of the second model, of the first 100; right verdict)
KINDS = {"equal": (100, "same"), "total": (101, "slower")}
#: upper limits of the classes of scatter, as ratios
CLASSES = (0.016, 0.03)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--trials", type=int, default=20, help="of each kind (default: 20)")
    parser.add_argument("--budget", type=int, default=60, help="s, of each trial (default: 60)")
    args = parser.parse_args()
    known = Counter(row["kind"] for row in read(args.file) if row["budget_s"] == args.budget)
    missing = [kind for kind in args.kinds for _ in range(args.trials - known[kind])]
    random.shuffle(missing)
    if missing:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            models = make_models(folder)
            with running_site(folder / "site") as site, site.login() as visitor:
                for kind in missing:
                    order = {"budget_s": args.budget, "least_cosine": -1}
                    paired = compare(visitor, (models[""], models[kind]), order)
                    row = {"kind": kind, "budget_s": args.budget, **result(paired)}
                    print(json.dumps(row), flush=True)
                    with args.file.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
    print(tabulate(table(read(args.file)), headers="keys", floatfmt=".1f"))


def make_models(folder: Path) -> dict[str, Path]:
    """Return the model file of each kind; that of "" is the first model of all."""
    made = {}
    for kind, units in {"": 100, **{kind: units for kind, (units, _) in KINDS.items()}}.items():
        path = made[kind] = folder / f"planted{kind}.mge"
        script = str(ROOT / "bench" / "planted_model.py")
        command = [find_megengine_python(), script, str(path), f"--units={units}"]
        subprocess.run(command, check=True, capture_output=True)
    return made


def result(paired: PairedMeasurement) -> dict[str, Any]:
    (verdict,) = paired.verdicts
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
    }


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each kind, budget and class of scatter."""
    groups = defaultdict(list)
    for row in rows:
        scatter = row["scatter"] if row["scatter"] is not None else float("inf")
        level = next((f"<= {limit:.1%}" for limit in CLASSES if scatter <= limit), "above")
        groups[row["kind"], row["budget_s"], level].append(row)
    result = []
    for (kind, budget_s, level), part in sorted(groups.items()):
        verdicts = Counter(row["verdict"] for row in part)
        right = KINDS[kind][1]
        result.append(
            {
                "kind": kind,
                "budget s": budget_s,
                "scatter": level,
                "trials": len(part),
                "right %": 100 * verdicts[right] / len(part),
                "not enough %": 100 * verdicts["not_enough"] / len(part),
                "wrong %": 100 * (1 - (verdicts[right] + verdicts["not_enough"]) / len(part)),
                "median s": float(np.median([row["measuring_s"] for row in part])),
                "pairs that count %": 100
                * sum(row["used"] for row in part)
                / sum(row["pairs"] for row in part),
            }
        )
    return result


if __name__ == "__main__":
    main()
