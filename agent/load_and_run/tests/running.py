"""Runs of load_and_run in the runtime's own interpreter, for the tests."""

import json
import os
import signal
import subprocess
from pathlib import Path

from testdata import DATA

FOLDER = Path(__file__).resolve().parents[1]
TIMEOUT_S = 60


class Runner:
    """Starts load_and_run as the agent does, in an empty folder, with a limit on memory."""

    def __init__(self, python: str, folder: Path) -> None:
        self.python, self.folder = python, folder

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-c", 'ulimit -v 8000000; exec "$@"', "sh", self.python, str(FOLDER)]
            + list(arguments),
            cwd=self.folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )


def models() -> list[dict]:
    return json.loads((DATA / "models" / "models.json").read_text())


def model(name: str) -> str:
    return str(DATA / "models" / f"{name}.mge")


def assert_died(done: subprocess.CompletedProcess[str], kind: str, text: str) -> None:
    assert done.returncode == -signal.SIGABRT, done.stderr
    assert f"terminate called after throwing an instance of '{kind}'\n  what():  " in done.stderr
    assert text in done.stderr
