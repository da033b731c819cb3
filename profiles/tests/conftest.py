"""Fixtures of the tests of the app `profiles`."""

import uuid
from collections.abc import Iterator

import dramatiq
import pytest
from django.core.cache import cache
from django.test import override_settings

from accounts.models import User
from profiles.exports import heavy
from profiles.tests.make import MEMORY, TIMELINE
from tasks.tests.make import make_user
from testdata import DATA
from webprofile.storage import storage as object_store
from webprofile.tests.permission_site import rolled_back


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


@pytest.fixture(scope="module")
def module_bucket(object_storage) -> Iterator[None]:
    """A bucket for all tests of a module."""
    bucket = f"test-{uuid.uuid4().hex}"
    address = {"S3_ENDPOINT_URL": object_storage, "S3_PUBLIC_ENDPOINT_URL": object_storage}
    with override_settings(S3_BUCKET=bucket, **address):
        object_store.client.create_bucket(Bucket=bucket)
        yield


@pytest.fixture(scope="module")
def module_data(module_bucket, django_db_setup, django_db_blocker) -> Iterator[None]:
    """Let fixtures of a module make rows and objects in storage that all of its tests use.

    Each test undoes its own changes of the database.
    """
    with django_db_blocker.unblock(), rolled_back():
        yield


@pytest.fixture(scope="module")
def owner(module_data) -> User:
    """The owner of results that the tests of a module share."""
    return make_user()


@pytest.fixture(scope="session")
def script_files() -> dict[str, bytes]:
    """Files of a script by name: the trace and the memory flow of a training step."""
    folder = DATA / "traces" / "dynamic_train_mlp_scopes"
    return {name: (folder / f"profile.{name}").read_bytes() for name in (TIMELINE, MEMORY)}
