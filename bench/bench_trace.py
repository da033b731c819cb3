"""Compare our summary of a trace with `json.load`: events per second, peak memory.

    python -m bench.bench_trace [--mb 1 50 1074] [--rounds 3]

The input is a recorded trace of a training step, repeated up to the given sizes in megabytes. Each
measurement is a new process that reads the file from disk; imports are not counted. Both programs
run alternately, so that noise of the machine affects both. Ours computes operators, scopes, waits
and curves; `json.load` only returns the events.

Memory is the peak above the size of the interpreter with its imports, without the pages of code
(about 2 MB) that are loaded when they first run and are shared between processes. The best of the
rounds counts. 1074 MB are slightly more than 2**30 bytes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from tabulate import tabulate

from profiles.ingest.readers import ALLOCATOR
from testdata import DATA

SOURCE = "traces/dynamic_train_resnet/profile.chrome_timeline.json"
GOAL_PER_S, GOAL_MEMORY = 300_000, 0.5
#: (megabytes, seconds)
GOAL_TIME = (50, 5.0)
MB = 10**6
#: the ids of operators and tensors of one copy are below this
_NUMBERS = 1_000_000

_MEASURE = """
import json, sys, time
from pathlib import Path
{imports}
def status(name):
    with open("/proc/self/status") as lines:
        return int(next(line.split()[1] for line in lines if line.startswith(name)))
before, code, begin = status("VmRSS"), status("RssFile"), time.perf_counter()
{step}
spent = time.perf_counter() - begin
code_read = status("RssFile") - code
print(json.dumps([spent, (status("VmHWM") - before - code_read) * 1024]))
"""
_OURS = _MEASURE.format(
    imports="import gc\nfrom profiles.formats.chrome_trace.dynamic_profile import read_dynamic",
    # as the reader of the site does
    step="gc.disable()\n"
    "path = Path(sys.argv[1])\n"
    'trace = read_dynamic(path, index=path.with_name("spans.bin"))',
)
_JSON = _MEASURE.format(
    imports="", step='with open(sys.argv[1], "rb") as file:\n    trace = json.load(file)'
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, nargs="+", default=[1, 50, 1074])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    # compile the modules first: compiling leaves free memory in which a small trace would fit
    _run("import profiles.formats.chrome_trace.dynamic_profile")
    with tempfile.TemporaryDirectory() as folder:
        rows = [_row(Path(folder), size, args.rounds) for size in args.mb]
    headers = [
        "MB", "events", "ours, s", "json.load, s", "times as fast", "events/s", "ours, MB",
        "json.load, MB", "ours / file", "",
    ]  # fmt: skip
    print(
        tabulate(
            rows,
            headers=headers,
            floatfmt=(".0f", "", ".2f", ".2f", ".2f", ".0f", ".1f", ".1f", ".2f", ""),
        )
    )


def _row(folder: Path, size_mb: int, rounds: int) -> list[Any]:
    path = folder / "trace.json"
    events = write_scaled_trace(DATA / SOURCE, path, size_mb * MB)
    size = path.stat().st_size
    ours, plain = [], []
    for _ in range(rounds):
        ours.append(_measured(_OURS, path))
        plain.append(_measured(_JSON, path))
    path.unlink()
    ours_s, plain_s = min(run[0] for run in ours), min(run[0] for run in plain)
    ours_bytes, plain_bytes = min(run[1] for run in ours), min(run[1] for run in plain)
    missed = []
    if ours_bytes / size > GOAL_MEMORY:
        missed.append("memory")
    if events / ours_s < GOAL_PER_S:
        missed.append("events/s")
    if size_mb <= GOAL_TIME[0] and ours_s > GOAL_TIME[1]:
        missed.append("time")
    verdict = f"MISSED: {', '.join(missed)}" if missed else "met"
    return [
        size / MB, events, ours_s, plain_s, plain_s / ours_s, events / ours_s, ours_bytes / MB,
        plain_bytes / MB, ours_bytes / size, verdict,
    ]  # fmt: skip


def _measured(program: str, path: Path) -> tuple[float, int]:
    spent, peak = json.loads(_run(program, str(path)))
    return spent, peak


def _run(program: str, *arguments: str) -> str:
    # the environment in which the site runs its reader
    env = os.environ | ALLOCATOR | {"PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def write_scaled_trace(source: Path, path: Path, size_bytes: int) -> int:
    """Write copies of a trace, one after the other in time, until the file has `size_bytes`.

    Operators and tensors of each copy get ids of their own. Returns the number of events.
    """
    document = json.loads(source.read_bytes())
    events = [event for event in document["traceEvents"] if event["ph"] != "M"]
    named = [event for event in document["traceEvents"] if event["ph"] == "M"]
    took = max(event["ts"] for event in events) + 100.0
    written = 0
    with path.open("wb") as file:
        file.write(b'{"traceEvents":[')
        copy = 0
        while file.tell() < size_bytes:
            for event in _shifted(events, copy * took, copy * _NUMBERS):
                file.write(msgspec.json.encode(event) + b",")
                written += 1
                if file.tell() >= size_bytes and copy:
                    break
            copy += 1
        file.write(msgspec.json.encode(named)[1:-1] + b'],"metadata":{"localTime":"1"}}')
    return written + len(named)


def _shifted(events: list[dict[str, Any]], by_us: float, by: int) -> Iterator[dict[str, Any]]:
    for event in events:
        shifted = event | {"ts": event["ts"] + by_us}
        if "id" in event:
            shifted["id"] = event["id"] + by
        arguments = event.get("args", {})
        numbers = {name: arguments[name] + by for name in ("id", "__id__") if name in arguments}
        if numbers:
            shifted["args"] = arguments | numbers
        kind, _, number = event["name"].partition(" ")
        if number.isdigit():
            shifted["name"] = f"{kind} {int(number) + by}"
        yield shifted


if __name__ == "__main__":
    main()
