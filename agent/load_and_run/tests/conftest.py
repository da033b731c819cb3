"""Make `load_and_run` importable as a top-level package, as in the runtime's interpreter."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.load_and_run.tests.running import Forks, Runner

sys.path.append(str(Path(__file__).resolve().parents[2]))


@pytest.fixture(scope="session")
def forks(megengine_python: str) -> Iterator[Forks]:
    forks = Forks(megengine_python)
    yield forks
    forks.close()


@pytest.fixture
def run(megengine_python: str, tmp_path: Path, forks: Forks) -> Runner:
    return Runner(megengine_python, tmp_path, forks)
