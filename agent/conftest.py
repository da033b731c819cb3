"""Fixtures for the agent's tests."""

import os

import pytest

from agent.runtimes import installed_wheel


def find_megengine_python() -> str:
    """`MGW_TEST_MEGENGINE_PYTHON`, else what `make runtime` made; skips the test without."""
    named = os.environ.get("MGW_TEST_MEGENGINE_PYTHON")
    if named:
        return named
    ready = installed_wheel()
    if ready:
        return ready.path
    reason = "no MegEngine runtime: run `make runtime` or set MGW_TEST_MEGENGINE_PYTHON"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def megengine_python() -> str:
    """An interpreter with MegEngine."""
    return find_megengine_python()
