"""Fixtures for the agent's tests."""

import os

import pytest

from agent.runtimes.install import installed_wheel
from testdata.making import make_large
from webprofile.tests.needs import lacks_megengine


def find_megengine_python() -> str:
    """`MGW_TEST_MEGENGINE_PYTHON`, else what `make runtime` made; skips the test without.

    With it the large models of testdata/ are made, if they are not there yet.
    """
    ready = installed_wheel()
    python = os.environ.get("MGW_TEST_MEGENGINE_PYTHON") or (ready.path if ready else "")
    if python:
        make_large(python)
        return python
    lacks_megengine()


@pytest.fixture(scope="session")
def megengine_python() -> str:
    """An interpreter with MegEngine."""
    return find_megengine_python()
