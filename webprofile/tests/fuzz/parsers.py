"""Everything that reads bytes of strangers, by turns, until the time is over.

`python -m webprofile.tests.fuzz.parsers [--seconds 3600] [--seed N] [--folder DIR]
[--only NAME ...]`
Each target gets an equal part of the time and a process of its own. Prints for each how many inputs
it was given, how much of the instrumented code they reached, and what was found; ends with 1 if
anything was, or if a target could not start.
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

#: name, patterns of seeds: read here as text, since importing the targets would load them all
TIMEOUT_S = 30
_FIGURES = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")
_UNITS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_TARGETS = """
import os, django
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webprofile.settings.test")
django.setup()
from webprofile.tests.fuzz.targets import TARGETS
for name, target in TARGETS.items():
    print(name, *target.seeds)
"""


def main() -> int:
    given = _arguments()
    folder = Path(given.folder or tempfile.mkdtemp(prefix="fuzz-parsers-"))
    listed = subprocess.run([sys.executable, "-c", _TARGETS], capture_output=True, check=True)
    targets = {name: seeds for name, *seeds in map(str.split, listed.stdout.decode().splitlines())}
    chosen = {name: targets[name] for name in given.only or targets}
    print(f"seed={given.seed} seconds={given.seconds} folder={folder}", flush=True)
    each_s = max(given.seconds // len(chosen), 1)
    total = finding_count = idle = 0
    for name, seeds in chosen.items():
        write_seeds(name, tuple(seeds), folder / "corpus" / name)
        executed, words = _fuzz(name, folder, seconds=each_s, seed=given.seed)
        findings = sorted((folder / "findings").glob(f"{name}-*"))
        inputs = [path.name for path in findings if path.suffix != ".txt"]
        print(f"{name}: {executed} inputs, {words}, findings: {inputs or 'none'}", flush=True)
        total, finding_count = total + executed, finding_count + len(inputs)
        if not executed:
            idle += 1
            print((folder / f"{name}.log").read_text(errors="replace")[-2000:], flush=True)
    print(f"seed={given.seed} inputs={total} findings={finding_count}")
    return 1 if finding_count or idle else 0


def _fuzz(name: str, folder: Path, *, seconds: int, seed: int) -> tuple[int, str]:
    """Inputs given, and libFuzzer's own words on what they reached; goes on after a crash."""
    end, executed, words = time.monotonic() + seconds, 0, "nothing reached"
    log = folder / f"{name}.log"
    while (left := int(end - time.monotonic())) > 0:
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
        if not executed:  # it cannot even start
            break
        figures = _FIGURES.findall(text)
        if figures:
            words = "{} places, {} features, corpus {}".format(*figures[-1])
        seed += 1
    return executed, words


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31 - 1) + 1)
    parser.add_argument("--folder")
    parser.add_argument("--only", nargs="*")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
