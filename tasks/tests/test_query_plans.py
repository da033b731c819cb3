"""Tests that frequent operations use indexes on PostgreSQL."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from webprofile.tests.postgres import postgres_server

pytestmark = pytest.mark.production

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """Problems of the query plans by operation."""
    folder = tmp_path_factory.mktemp("plans")
    with pytest.MonkeyPatch.context() as patch:
        # the server's package writes into the runtime folder of the user's session
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        yield explain_operations(folder)


def explain_operations(folder: Path) -> dict[str, list[str]]:
    with postgres_server(folder / "postgres") as address:
        environment = os.environ | {
            "DATABASE_URL": address,
            "DJANGO_SETTINGS_MODULE": "webprofile.settings.test",
            "MGW_HOME": str(folder),
            "LOG_LEVEL": "ERROR",
        }
        process = subprocess.run(
            [sys.executable, "-m", "tasks.tests.plans_process"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
        )
    assert process.returncode == 0, process.stderr[-4000:]
    lines = [json.loads(line) for line in process.stdout.splitlines()]
    return {name: problems for name, *problems in lines}


@pytest.mark.parametrize(
    "operation",
    [
        "task list",
        "task list, failed",
        "task list of an administrator",
        "a task",
        "worker list",
        "a free device",
        "a freed device",
        "the sweep",
        "the sweep's files",
        "heartbeats",
        "what a device should do",
    ],
)
def test_operation_scans_no_growing_table(problems, operation):
    assert problems[operation] == []
