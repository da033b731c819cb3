"""Compare our analysis with the original `profile_analyze`: time, peak memory, repeated queries.

    python -m bench.bench_analyze [PROFILE.json ...] [--operators 1000 10000 100000] [--rounds 3]

The input is a set of recorded profiles (by default some of testdata/), and the first one enlarged
to the given numbers of operators. Each analysis runs in a new process. Its time is from the file on
disk to the printed text, without imports; its memory is the peak of the process, with interpreter
and imports. Both programs run alternately, so that noise of the machine affects both. The best of
the rounds counts.

A repeated query reads parsed columns in one process: filters, orders and aggregates. Its figure is
the best time of the slowest query.

Ours runs the code of `manage.py profile_analyze` without Django, whose imports take 60 MB and 0.5 s
more.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from agent.conftest import find_megengine_python
from bench.scaling import write_scaled
from profiles.analysis.select import Query, select
from profiles.formats.load_and_run.reader import parse
from testdata import DATA

#: (least operators, least speed-up, most ms of a repeated query)
GOALS = ((100_000, 20.0, 20.0), (10_000, 40.0, 2.0))
MEMORY_GOAL = 0.25
TOPS = (3, 10_000)
LARGE_BYTES = 100_000_000
PROFILES = [
    DATA / "profiles" / f"{name}.json"
    for name in ("resnet18", "bert_tiny", "deep_loop", "dynamic_shape", "lstm", "tiny", "train_mlp")
]

_MEASURE = """
import json, os, sys, time
devnull = open(os.devnull, "w")
begin = time.perf_counter()
{step}
spent = time.perf_counter() - begin
with open("/proc/self/status") as status:
    peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
sys.__stdout__.write(json.dumps([spent, int(peak) / 1024]))
"""
_ORIGINAL = (
    "import warnings, megengine.tools.profile_analyze as tool\nwarnings.simplefilter('ignore')"
)
_ORIGINAL_STEP = "sys.stdout = devnull; tool.main([sys.argv[1], '-t', sys.argv[2]])"
_OURS = """
from mmap import ACCESS_READ, mmap
from profiles.analysis.select import Query
from profiles.analysis.text import PrintOptions, report
from profiles.formats.load_and_run.reader import parse
"""
_OURS_STEP = """
with open(sys.argv[1], "rb") as file:
    data = mmap(file.fileno(), 0, access=ACCESS_READ)
columns = parse(data, max_bytes=1 << 32, checked=False, dtypes=False)
del data
devnull.write(report(columns, Query(), PrintOptions(top=int(sys.argv[2]))))
"""

QUERIES = (
    Query(),
    Query(side="host", top_end="kern", ascending=True),
    Query(order="memory"),
    Query(order="computation", ascending=True),
    Query(order="bandwidth", min_s=1e-6),
    Query(order="opr_id"),
    Query(order="in_shapes"),
    Query(types=("ConvolutionForward", "Elemwise"), order="flops"),
    Query(min_s=1e-5, max_s=1e-3),
    Query(input_dtype="Float32"),
    Query(aggregate="sum", by_type=True),
    Query(aggregate="max", by_type=True, order="memory"),
    Query(aggregate="mean"),
)
NAMED = Query(name=r".*conv")


@dataclass(frozen=True)
class Analysis:
    """One row of the table: the best of the rounds."""

    file: Path
    operators: int
    top: int
    original_s: float
    ours_s: float
    original_mb: float
    ours_mb: float

    @property
    def faster(self) -> float:
        return self.original_s / self.ours_s

    @property
    def share(self) -> float:
        return self.ours_mb / self.original_mb


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("profiles", nargs="*", type=Path, default=PROFILES)
    parser.add_argument("--operators", nargs="*", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    python = find_megengine_python()
    with tempfile.TemporaryDirectory() as folder:
        files = list(args.profiles)
        for count in args.operators:
            files.append(Path(folder) / f"{files[0].stem} x {count}.json")
            write_scaled(files[0], count, files[-1])
        analyses = [row for file in files for row in compared(file, python, args.rounds)]
        print(analysis_table(analyses))
        answers = [answered(file) for file in files]
    print(answer_table(answers))
    print("\n".join(verdicts(analyses, answers)))


def compared(file: Path, python: str, rounds: int) -> list[Analysis]:
    """Measure both programs alternately. Large files take half a minute: one round less."""
    rounds = max(1, rounds - 1) if file.stat().st_size > LARGE_BYTES else rounds
    operators = len(json.loads(file.read_bytes())["graph_exec"]["operator"])
    rows = []
    for top in TOPS:
        runs = [
            (
                *measured(python, _ORIGINAL, _ORIGINAL_STEP, file, top),
                *measured(sys.executable, _OURS, _OURS_STEP, file, top),
            )
            for _ in range(rounds)
        ]
        theirs_s, theirs_mb, ours_s, ours_mb = map(min, zip(*runs, strict=True))
        rows.append(Analysis(file, operators, top, theirs_s, ours_s, theirs_mb, ours_mb))
    return rows


def measured(python: str, imports: str, step: str, file: Path, top: int) -> tuple[float, float]:
    """Run a step in a new process and return its time in s and peak memory in MB."""
    program = imports + _MEASURE.replace("{step}", step)
    done = subprocess.run(
        [python, "-c", program, str(file.absolute()), str(top)],
        stdout=subprocess.PIPE,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    spent_s, peak_mb = json.loads(done.stdout)
    return spent_s, peak_mb


def answered(file: Path) -> tuple[Path, int, list[float], float]:
    """Measure repeated queries of one profile.

    Returns the file, its number of timed operators, the best ms of each query, and the best ms of a
    query with a name pattern.
    """
    columns = parse(file.read_bytes(), max_bytes=1 << 32)

    def best_ms(query: Query, **engine: Any) -> float:
        times = []
        for _ in range(9):
            begin = time.perf_counter()
            select(columns, query, **engine)
            times.append(1000 * (time.perf_counter() - begin))
        return min(times)

    named = best_ms(NAMED, matches=lambda pattern: re.compile(pattern).match)
    return file, len(columns), [best_ms(query) for query in QUERIES], named


def analysis_table(rows: list[Analysis]) -> str:
    return tabulate(
        [
            (
                row.file.stem,
                row.operators,
                row.file.stat().st_size / 1e6,
                row.top,
                row.original_s,
                row.ours_s,
                row.faster,
                row.original_mb,
                row.ours_mb,
                row.share,
            )
            for row in rows
        ],
        headers=(
            *("profile", "operators", "MB", "-t", "original s", "ours s", "times faster"),
            *("original MB", "ours MB", "share"),
        ),
        floatfmt=("", "", ".2f", "", ".4f", ".4f", ".1f", ".0f", ".0f", ".2f"),
    )


def answer_table(answers: list[tuple[Path, int, list[float], float]]) -> str:
    return "\n" + tabulate(
        [
            (file.stem, operators, statistics.median(times), max(times), named)
            for file, operators, times, named in answers
        ],
        headers=("kept columns", "operators", "median ms", "slowest ms", "name pattern ms"),
        floatfmt=".2f",
    )


def verdicts(
    analyses: list[Analysis], answers: list[tuple[Path, int, list[float], float]]
) -> list[str]:
    lines = [""]
    for row, (_, _, times, _) in zip(analyses[:: len(TOPS)], answers, strict=True):
        goal = next((goal for goal in GOALS if row.operators >= goal[0]), None)
        if goal is None:
            continue
        _, faster, answer_ms = goal
        lines += [
            f"{row.operators} operators: first analysis {row.faster:.1f} times faster, "
            f"goal {faster:.0f}: {_word(row.faster >= faster)}",
            f"{row.operators} operators: repeated question {max(times):.2f} ms, "
            f"goal {answer_ms:.0f}: {_word(max(times) <= answer_ms)}",
        ]
    worst = max(analyses, key=lambda row: row.share)
    lines.append(
        f"peak memory: at most {worst.share:.2f} of the original's ({worst.file.stem}), "
        f"goal {MEMORY_GOAL}: {_word(worst.share <= MEMORY_GOAL)}"
    )
    return lines


def _word(met: bool) -> str:
    return "met" if met else "MISSED"


if __name__ == "__main__":
    main()
