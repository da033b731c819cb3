"""load_and_run is imported as the runtime's interpreter does it: as a package of its own."""

import sys
from pathlib import Path

import pytest

from agent.load_and_run.tests.running import Runner

sys.path.append(str(Path(__file__).resolve().parents[2]))


@pytest.fixture
def run(megengine_python: str, tmp_path: Path) -> Runner:
    return Runner(megengine_python, tmp_path)
