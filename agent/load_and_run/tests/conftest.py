"""Make `load_and_run` importable as a top-level package, as in the runtime's interpreter."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.load_and_run.tests.running import ForkServer, Runner

sys.path.append(str(Path(__file__).resolve().parents[2]))


@pytest.fixture(scope="session")
def fork_server(megengine_python: str) -> Iterator[ForkServer]:
    fork_server = ForkServer(megengine_python)
    yield fork_server
    fork_server.close()


@pytest.fixture
def run(megengine_python: str, tmp_path: Path, fork_server: ForkServer) -> Runner:
    return Runner(megengine_python, tmp_path, fork_server)
