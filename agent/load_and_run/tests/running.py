"""Runs of load_and_run in the runtime's own interpreter, for the tests."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1]
DATA = FOLDER.parents[2] / "shared" / "data"
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
    path = DATA / "models" / "models.json"
    return json.loads(path.read_text()) if path.exists() else []


def model(name: str) -> str:
    path = DATA / "models" / f"{name}.mge"
    if not path.exists():
        pytest.skip("the shared data is not here")
    return str(path)


def assert_died(done: subprocess.CompletedProcess[str], kind: str, text: str) -> None:
    assert done.returncode == -signal.SIGABRT, done.stderr
    assert f"terminate called after throwing an instance of '{kind}'\n  what():  " in done.stderr
    assert text in done.stderr
