"""Fixtures of the profiles' tests."""

from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
from django.conf import settings
from django.core.cache import cache

from agent.conftest import find_megengine_python
from profiles.derived import deriving
from profiles.tests.reader_process import forking_reader


@pytest.fixture(autouse=True)
def _no_hints_of_another_test() -> None:
    """Rows get the same numbers in each test; what was hinted for one must not stop another."""
    cache.clear()
    dramatiq.get_broker().flush_all()


@pytest.fixture(scope="session")
def megengine_python() -> str:
    """An interpreter with MegEngine."""
    return find_megengine_python()


@pytest.fixture(scope="session")
def started_reader() -> Iterator[Any]:
    """The limited reader's program, which forks for each profile."""
    with forking_reader(settings.BASE_DIR) as reader:
        yield reader


@pytest.fixture
def quick_reader(started_reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles are read in limited processes that need not be started anew."""
    monkeypatch.setattr(deriving, "subprocess", started_reader)
