"""Fuzz all code that parses bytes from users and agents, one target after the other.

`python -m webprofile.tests.fuzz.parsers [--seconds 3600] [--seed N] [--folder DIR]
[--only NAME ...]`
Each target gets an equal part of the time and a process of its own. Prints for each target the
number of inputs, the coverage of the instrumented code and the findings. Returns 1 if there are
findings or if a target could not start.
"""

import argparse
import re
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from webprofile.tests.fuzz.seeds import write_seeds

TIMEOUT_S = 30
_FIGURES = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")
_UNITS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
#: prints name and seed patterns of each target; a separate process, since it imports all targets
_TARGETS = """
import os, django
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webprofile.settings.test")
django.setup()
from webprofile.tests.fuzz.targets import TARGETS
for name, target in TARGETS.items():
    print(name, *target.seeds)
"""


def main() -> int:
    args = _arguments()
    folder = Path(args.folder or tempfile.mkdtemp(prefix="fuzz-parsers-"))
    result = subprocess.run([sys.executable, "-c", _TARGETS], capture_output=True, check=True)
    targets = {name: seeds for name, *seeds in map(str.split, result.stdout.decode().splitlines())}
    selected = {name: targets[name] for name in args.only or targets}
    print(f"seed={args.seed} seconds={args.seconds} folder={folder}", flush=True)
    target_s = max(args.seconds // len(selected), 1)
    total = finding_count = failed_starts = 0
    for name, seeds in selected.items():
        write_seeds(name, tuple(seeds), folder / "corpus" / name)
        executed, coverage = _fuzz(name, folder, seconds=target_s, seed=args.seed)
        findings = sorted((folder / "findings").glob(f"{name}-*"))
        inputs = [path.name for path in findings if path.suffix != ".txt"]
        print(f"{name}: {executed} inputs, {coverage}, findings: {inputs or 'none'}", flush=True)
        total, finding_count = total + executed, finding_count + len(inputs)
        if not executed:
            failed_starts += 1
            print((folder / f"{name}.log").read_text(errors="replace")[-2000:], flush=True)
    print(f"seed={args.seed} inputs={total} findings={finding_count}")
    return 1 if finding_count or failed_starts else 0


def _fuzz(name: str, folder: Path, *, seconds: int, seed: int) -> tuple[int, str]:
    """Run a target, again after each crash; return the number of inputs and the coverage."""
    end, executed, coverage = time.monotonic() + seconds, 0, "nothing reached"
    log = folder / f"{name}.log"
    left = seconds
    while left > 0:
        command = [
            sys.executable, "-m", "webprofile.tests.fuzz.one_target",
            name, str(folder / "findings"),
            f"-max_total_time={left}", f"-seed={seed}", "-max_len=65536", f"-timeout={TIMEOUT_S}",
            "-rss_limit_mb=0", "-print_final_stats=1", "-verbosity=1",
            f"-artifact_prefix={folder / 'findings' / name}-", str(folder / "corpus" / name),
        ]  # fmt: skip
        with log.open("ab") as file:
            subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False)
        text = log.read_text(errors="replace")
        executed = sum(map(int, _UNITS.findall(text)))
        if not executed:  # the target cannot start
            break
        figures = _FIGURES.findall(text)
        if figures:
            coverage = "{} places, {} features, corpus {}".format(*figures[-1])
        seed += 1
        left = int(end - time.monotonic())
    return executed, coverage


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31 - 1) + 1)
    parser.add_argument("--folder")
    parser.add_argument("--only", nargs="*")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
