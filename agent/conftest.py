"""Fixtures for the agent's tests."""

import os

import pytest

from agent.runtimes.install import installed_wheel
from testdata.making import make_large
from webprofile.tests.needs import lacks_megengine


def find_megengine_python() -> str:
    """Return the interpreter in `MGW_TEST_MEGENGINE_PYTHON`, or that of `make runtime`.

    Skip the test if there is none. Otherwise make missing large models of testdata/.
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
