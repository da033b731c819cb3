"""Every operation of the API, asked for an hour with other values each time.

`python -m bench.fuzz.api [--seconds 3600] [--seed N]` repeats `webprofile/tests/test_api_fuzz.py`
(a user and an administrator by turns, things that exist in three of four requests, every border of
the schema) with a seed of its own for each round, until the time is over. Ends with 1 at a finding.
"""

import argparse
import os
import re
import secrets
import subprocess
import sys
import time

_TEST = "webprofile/tests/test_api_fuzz.py"
_ENDED = re.compile(r"(\d+) (passed|failed|error)")


def main() -> int:
    given = _arguments()
    end, rounds, failed = time.monotonic() + given.seconds, 0, 0
    print(f"seed={given.seed} seconds={given.seconds}", flush=True)
    while (left := end - time.monotonic()) > 0:
        command = [
            sys.executable, "-m", "pytest", "-q", "-c", "pyproject.toml", "-p", "no:cacheprovider",
            f"--hypothesis-seed={given.seed + rounds}", _TEST,
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command,
                env=os.environ | {"API_FUZZ": str(given.times)},
                capture_output=True,
                text=True,
                timeout=left,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"round {rounds + 1}: the time is over", flush=True)
            break
        rounds += 1
        print(f"round {rounds}: {done.stdout.strip().splitlines()[-1]}", flush=True)
        if done.returncode:
            print(done.stdout, flush=True)
            failed += sum(int(n) for n, word in _ENDED.findall(done.stdout) if word != "passed")
            break
    print(f"seed={given.seed} rounds={rounds} findings={failed}")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--times", type=int, default=2, help="requests, as often as in the suite")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
