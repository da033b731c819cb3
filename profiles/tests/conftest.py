"""Fixtures of the profiles' tests."""

import dramatiq
import pytest
from django.core.cache import cache

from accounts.models import User
from agent.conftest import find_megengine_python
from tasks.tests.make import make_user


@pytest.fixture(autouse=True)
def _no_hints_of_another_test() -> None:
    """Rows get the same numbers in each test; what was hinted for one must not stop another."""
    cache.clear()
    dramatiq.get_broker().flush_all()


@pytest.fixture
def alice(client, storage) -> User:
    """Logged in."""
    user = make_user()
    client.force_login(user)
    return user


@pytest.fixture(scope="session")
def megengine_python() -> str:
    """An interpreter with MegEngine."""
    return find_megengine_python()
