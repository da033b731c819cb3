"""Fixtures for the agent's tests."""

import pytest

from testdata.making import find_python, make_large
from webprofile.tests.needs import lacks_megengine


def find_megengine_python() -> str:
    """Return an interpreter with MegEngine, and make missing large models of testdata/.

    Skip the test if there is none.
    """
    if python := find_python():
        make_large(python)
        return python
    lacks_megengine()


@pytest.fixture(scope="session")
def megengine_python() -> str:
    """An interpreter with MegEngine."""
    return find_megengine_python()
