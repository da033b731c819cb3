"""Fixtures of the tests of the app `profiles`."""

import dramatiq
import pytest
from django.core.cache import cache

from accounts.models import User
from profiles.exports import heavy
from profiles.tests.make import MEMORY, TIMELINE
from tasks.tests.make import make_user


@pytest.fixture(autouse=True)
def _clear_cache_and_broker() -> None:
    """Clear the cache and the broker: entries of another test refer to rows with the same ids."""
    cache.clear()
    dramatiq.get_broker().flush_all()


@pytest.fixture(autouse=True)
def _export_in_this_process(monkeypatch) -> None:
    """Make no export in another process, which does not see the transaction of a test."""
    monkeypatch.setattr(heavy, "MOST_OPERATORS", 10**9)


@pytest.fixture
def alice(client, storage) -> User:
    """A user who is logged in to `client`."""
    user = make_user()
    client.force_login(user)
    return user


@pytest.fixture
def script_files(testdata) -> dict[str, bytes]:
    """Files of a script by name: the trace and the memory flow of a training step."""
    folder = testdata / "traces" / "dynamic_train_mlp_scopes"
    return {name: (folder / f"profile.{name}").read_bytes() for name in (TIMELINE, MEMORY)}
