"""Fixtures of the profiles' tests."""

import pytest

from agent.conftest import find_megengine_python


@pytest.fixture(scope="session")
def megengine_python() -> str:
    """An interpreter with MegEngine."""
    return find_megengine_python()
