"""Measure the error rates of comparisons: false verdicts, and planted differences that are missed.

`python -m bench.bench_verdicts [--runs 20] [--keep FOLDER]` runs one model with the plan "standard"
on a new site until enough runs are undisturbed or --minutes have passed. The code of the page
compares every pair of them, with these runs as the history of the device. Pairs of equal runs
should get the verdict "not enough evidence". Then one planted pair for each run, in which the
recorded times of the second run are multiplied by 1.2 (--factor), should get "slower".

--keep stores all runs, also disturbed ones: their profiles and measurement.json. `--from FOLDER`
evaluates stored runs without measuring.
"""

import argparse
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
from tabulate import tabulate

from agent.protocol.artifacts import profile_name
from agent.protocol.measurement import Measurement, used_records
from agent.protocol.plan import PRESETS
from agent.statistics.unpaired import (
    LEAST_SHARE,
    VERDICTS,
    Basis,
    judge_total,
    logarithms,
    scatter_of,
)
from bench.site import send, wait_for_end
from profiles.analysis.data import ProfileData
from profiles.analysis.measurement import used_passes
from profiles.analysis.passes import merge
from profiles.analysis.stability import totals_of_passes
from profiles.comparison.comparison import Comparison, align_profiles, judged
from profiles.formats.columns import ProfileColumns, SideTimes
from profiles.formats.load_and_run.graph_json import parse_graph
from profiles.formats.load_and_run.reader import parse
from testdata import DATA
from webprofile.operations.devserver.layout import Layout
from webprofile.tests.site import running_site

PLAN = PRESETS["standard"]
#: pause before a run, since the site still works after it has read a profile
SETTLE_S = 2.0
#: limits as shares of equal pairs, of their operators, and of planted pairs
MOST_DIFFERING, MOST_OPERATORS, LEAST_FOUND = 2 / 190, 1 / 200, 18 / 20
#: column of the table -> verdict that it counts
SHOWN = {"not enough evidence": "none", "faster": "faster", "slower": "slower"}
#: a run waits until other processes, also those of the site, are quiet
GATE = "[gate]\nmax_load = 0.1\n"


@dataclass(frozen=True, eq=False)
class StoredRun:
    """An undisturbed run, with the passes of which the site computes figures.

    clean_s: median iteration time of each clean process, s
    """

    folder: Path
    clean_s: tuple[float, ...]
    profiles: tuple[str, ...]

    def data(self, factor: float = 1.0) -> ProfileData:
        """Return the merged profile with all times multiplied by `factor`."""
        files = [(self.folder / name).read_bytes() for name in self.profiles]
        passes = [
            (name, slower(parse(file), factor))
            for name, file in zip(self.profiles, files, strict=True)
        ]
        return merge(passes, parse_graph(files[0], passes[0][1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="undisturbed runs (default: 20)")
    parser.add_argument("--minutes", type=float, default=45, help="at most (default: 45)")
    parser.add_argument("--model", default="resnet18", help="of testdata/models, with one input")
    parser.add_argument("--factor", type=float, default=1.2, help="planted (default: 1.2)")
    parser.add_argument("--keep", type=Path, help="store the runs in this folder")
    parser.add_argument("--from", type=Path, dest="stored", help="runs that --keep stored")
    args = parser.parse_args()
    if args.stored:
        print(report(read_runs(args.stored)[: args.runs], args.factor))
        return
    with tempfile.TemporaryDirectory() as folder:
        kept = args.keep or Path(folder) / "runs"
        measure(Path(folder) / "site", kept, args)
        print(report(read_runs(kept)[: args.runs], args.factor))


def measure(home: Path, kept: Path, args: argparse.Namespace) -> None:
    """Run the model until enough undisturbed runs are stored in `kept`, including older ones."""
    model = DATA / f"models/{args.model}.mge"
    data = next((DATA / f"inputs/{args.model}").glob("*.npy"))
    until = time.monotonic() + 60 * args.minutes
    home.mkdir(parents=True, exist_ok=True)
    with running_site(home) as site, site.login() as visitor:
        visitor.device()
    config = Layout(home).agent_config
    config.write_text(config.read_text(encoding="utf-8") + "\n" + GATE, encoding="utf-8")
    with running_site(home) as site, site.login() as visitor:
        worker = visitor.device()["id"]
        while (calm := len(read_runs(kept))) < args.runs and time.monotonic() < until:
            time.sleep(SETTLE_S)
            begin = time.monotonic()
            plan = {"preset": "standard"}
            task, _ = send(visitor, worker, model, data, iterations=10, plan=plan)
            try:
                wait_for_end(visitor, task)
            except AssertionError as error:  # a failed run does not end the bench
                print(f"task {task} did not succeed: {error}", flush=True)
                continue
            folder = kept / f"run-{len(list(kept.glob('run-*'))) + 1:03}"
            folder.mkdir(parents=True)
            for name in profile_names():
                (folder / name).write_bytes(visitor.artifact(task, name))
            # written last: `read_runs` ignores a folder without it
            measured = visitor.artifact(task, "measurement.json")
            (folder / "measurement.json").write_bytes(measured)
            used = used_passes(Measurement.model_validate_json(measured))
            causes = [str(note) for cause in used.disturbances for note in cause.details]
            state = f"disturbed: {'; '.join(causes)}" if causes else f"undisturbed, {calm + 1}"
            print(f"{folder.name}: {time.monotonic() - begin:.1f} s, {state}", flush=True)


def profile_names() -> list[str]:
    return [profile_name(number + 1) for number in range(PLAN.profiled)]


def read_runs(folder: Path) -> list[StoredRun]:
    """Return the undisturbed runs of a folder in the order of their names."""
    runs = []
    for path in sorted(folder.glob("run-*/measurement.json")):
        measurement = Measurement.model_validate_json(path.read_bytes())
        if used_passes(measurement).disturbances:
            continue
        used = used_records(measurement.passes)
        clean_s = tuple(
            float(np.median(record.e2e_ms)) / 1000
            for record in used
            if record.kind == "clean" and record.e2e_ms
        )
        profiles = tuple(record.profile for record in used if record.profile)
        runs.append(StoredRun(path.parent, clean_s, profiles))
    return runs


def slower(columns: ProfileColumns, factor: float) -> ProfileColumns:
    """Return the columns with all times multiplied by `factor`."""

    def times(side: SideTimes) -> SideTimes:
        return SideTimes(side.present, side.end_s * factor, side.kern_s * factor)

    return replace(columns, device=times(columns.device), host=times(columns.host))


def report(runs: list[StoredRun], factor: float) -> str:
    """Return a table of the verdicts on all equal pairs and on one planted pair for each run."""
    equal = [run.data() for run in runs]
    logs = [logarithms(np.array(totals_of_passes(data, "device"), float)) for data in equal]
    scatter = scatter_of([logs])
    if scatter is None:
        return f"{len(runs)} undisturbed runs are too few to say how far equal runs differ."
    basis = Basis(scatter, scatter)
    of_latency = scatter_of([[logarithms(np.array(run.clean_s)) for run in runs]])
    latency_basis = Basis(of_latency, of_latency)
    totals, latency, operators = Counter[str](), Counter[str](), Counter[str]()
    differing_pairs = 0
    for a, b in combinations(range(len(runs)), 2):
        comparison = judged(align_profiles([equal[a], equal[b]]), {"device": [basis]})
        totals[comparison.device.totals[0].code(0)] += 1
        latency[latency_verdict(runs[a], runs[b], 1.0, latency_basis)] += 1
        of_operators = operator_verdicts(comparison)
        operators += of_operators
        total = Counter([comparison.device.totals[0].code(0)])
        differing_pairs += differing(total + of_operators) > 0
    pairs = len(runs) * (len(runs) - 1) // 2
    any_of_pair = Counter({"none": pairs - differing_pairs, "slower": differing_pairs})
    planted, slower_latency = Counter[str](), Counter[str]()
    for number, one in enumerate(equal):
        other = runs[(number + 1) % len(runs)].data(factor)
        comparison = judged(align_profiles([one, other]), {"device": [basis]})
        planted[comparison.device.totals[0].code(0)] += 1
        following = runs[(number + 1) % len(runs)]
        slower_latency[latency_verdict(runs[number], following, factor, latency_basis)] += 1
    rows = [
        row("totals of equal runs", totals, differing(totals) <= MOST_DIFFERING),
        row("latency of equal runs", latency, differing(latency) <= MOST_DIFFERING),
        row("operators of equal runs", operators, differing(operators) <= MOST_OPERATORS),
        row("total or any operator", any_of_pair, differing(any_of_pair) <= MOST_DIFFERING),
        row(f"totals, times x {factor:g}", planted, planted["slower"] >= LEAST_FOUND * len(runs)),
        row(
            f"latency, times x {factor:g}",
            slower_latency,
            slower_latency["slower"] >= LEAST_FOUND * len(runs),
        ),
    ]
    headers = ("", *SHOWN, "no verdict", "goal")
    medians_ms = [1000 * float(np.exp(np.median(log_totals))) for log_totals in logs]
    return (
        f"{len(runs)} undisturbed runs, device total {min(medians_ms):.3f} to "
        f"{max(medians_ms):.3f} ms; standard deviation of a run {100 * scatter.sd:.2f} %, largest "
        f"difference {100 * np.expm1(scatter.largest):.1f} %, verdicts from "
        f"{100 * np.expm1(basis.allowance):.1f} % on\n\n{tabulate(rows, headers=headers)}"
    )


def latency_verdict(one: StoredRun, other: StoredRun, factor: float, basis: Basis) -> str:
    """Return the verdict on the latency of two runs, of which the second is slower by a factor."""
    samples = [np.array(one.clean_s), factor * np.array(other.clean_s)]
    return judge_total(*samples, displayed=float("nan"), basis=basis, is_latency=True).code(0)


def operator_verdicts(comparison: Comparison) -> Counter[str]:
    """Count the verdicts on the operators that take at least LEAST_SHARE of the total."""
    numbers = comparison.device
    worth = np.nanmax(numbers.time_s, axis=0) >= LEAST_SHARE * np.nanmax(numbers.total_s)
    return Counter(VERDICTS[code] for code in numbers.judgements[0].verdict[worth].tolist())


def differing(verdicts: Counter[str]) -> float:
    """Return the share of the verdicts "faster" and "slower"."""
    return (verdicts["faster"] + verdicts["slower"]) / max(1, verdicts.total())


def row(name: str, verdicts: Counter[str], is_met: bool) -> tuple[str | int, ...]:
    counts = [verdicts[code] for code in SHOWN.values()]
    return name, *counts, verdicts.total() - sum(counts), "met" if is_met else "MISSED"


if __name__ == "__main__":
    main()
