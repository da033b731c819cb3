"""Fixtures for the agent's tests."""

import os

import pytest

from agent.runtimes import installed_wheel
from webprofile.tests.needs import lacks_megengine


def find_megengine_python() -> str:
    """`MGW_TEST_MEGENGINE_PYTHON`, else what `make runtime` made; skips the test without."""
    named = os.environ.get("MGW_TEST_MEGENGINE_PYTHON")
    if named:
        return named
    ready = installed_wheel()
    if ready:
        return ready.path
    lacks_megengine()


@pytest.fixture(scope="session")
def megengine_python() -> str:
    """An interpreter with MegEngine."""
    return find_megengine_python()
