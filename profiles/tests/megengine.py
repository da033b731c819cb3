"""Run programs with the Python interpreter that has MegEngine."""

import os
import subprocess
from pathlib import Path


def run_python(python: str, *arguments: object, cwd: Path | None = None, path: object = "") -> str:
    """Run the interpreter, with `path` as PYTHONPATH, and return its output."""
    completed = subprocess.run(
        [python, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(path)},
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-2000:]
    return completed.stdout
