"""Large exports: made in a real process, with the same content, and limited for each user."""

import os
import re
from contextlib import contextmanager
from unittest import mock

import pytest
from django.conf import settings as django_settings
from django.core.cache import cache
from django.db import connection

from profiles.exports import heavy
from profiles.ingest.readers import ForkServer
from profiles.tests.imports import make_import
from tasks.tests.make import make_user
from testdata import good_profile

MOST_OPERATORS = heavy.MOST_OPERATORS

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def fork_server(**variables):
    """Run a fork server of exports on the rows of the tests during this block; yield it."""
    if connection.vendor != "sqlite":
        pytest.skip("the process finds the database of the tests by its file")
    variables = {
        "DJANGO_SETTINGS_MODULE": "webprofile.settings.test",
        "DATABASE_URL": f"sqlite:///{connection.settings_dict['NAME']}",
        "S3_ENDPOINT_URL": django_settings.S3_ENDPOINT_URL,
        "S3_BUCKET": django_settings.S3_BUCKET,
        **variables,
    }
    server = ForkServer("profiles.exports", has_settings=True)
    with mock.patch.dict(os.environ, variables):
        yield server
    server.end()


@pytest.fixture
def storage(module_bucket):
    """The bucket of the module, which the fork server reads."""


@pytest.fixture(scope="module")
def shared_server(module_bucket, django_db_setup):
    with fork_server() as server:
        yield server


@pytest.fixture
def in_process(monkeypatch, shared_server):
    """Make large exports in the process that the tests share."""
    monkeypatch.setattr(heavy, "server", shared_server)


@pytest.fixture
def all_are_large(monkeypatch):
    monkeypatch.setattr(heavy, "MOST_OPERATORS", 0)


@pytest.fixture
def profile(alice):
    return make_import(alice, good_profile("resnet18")).profile


def content(client, address, *, is_large=False, **headers):
    response = client.get(address, headers=headers)
    assert response.status_code == 200, response.content
    assert response.streaming or not is_large, address
    # the time of the export differs
    return re.sub(rb"20\d\d-\d\d-\d\d[ T][\d:.+Z]+", b"TIME", response.getvalue())


@pytest.mark.exhaustive
def test_large_exports_have_the_content_of_small_ones(
    client, alice, profile, in_process, monkeypatch
):
    other = make_import(alice, good_profile("resnet18_opt")).profile
    compared = f"/api/v1/profiles/compare/export/{{}}/?p={profile.pk}&p={other.pk}"
    addresses = [
        *(f"/profiles/{profile.pk}/export/{name}/" for name in ("csv", "json", "trace", "text")),
        f"/profiles/{profile.pk}/export/report/",
        f"/api/v1/profiles/{profile.pk}/export/csv/?text=conv",
        f"/api/v1/profiles/{profile.pk}/export/json/?agg=sum&over=type",
        f"/api/v1/profiles/{profile.pk}/text/?rows=5&style=wiki",
        compared.format("csv"),
        compared.format("json"),
    ]
    chinese = {"accept_language": "zh-hans"}
    small = [content(client, address, **chinese) for address in addresses]
    monkeypatch.setattr(heavy, "MOST_OPERATORS", 0)
    for address, expected in zip(addresses, small, strict=True):
        assert content(client, address, is_large=True, **chinese) == expected, address


@pytest.mark.exhaustive
def test_a_large_export_has_the_errors_of_small_ones(client, profile, in_process, all_are_large):
    for address, status, code in (
        (f"/api/v1/profiles/{profile.pk}/export/csv/?name=(", 422, "export_question"),
        (f"/api/v1/profiles/{profile.pk}/text/?name=(", 422, "export_question"),
        (f"/api/v1/profiles/{profile.pk}/export/xml/", 404, "export_unknown"),
    ):
        response = client.get(address)
        assert (response.status_code, response.json()["code"]) == (status, code), address
    assert cache.get(f"export:{profile.upload.owner_id}:0") is None


@pytest.mark.exhaustive
def test_an_export_beyond_the_limit_of_memory_is_refused(
    client, profile, all_are_large, monkeypatch
):
    with fork_server(PROFILE_PARSE_MEMORY_BYTES=str(1 << 20)) as server:
        monkeypatch.setattr(heavy, "server", server)
        response = client.get(f"/api/v1/profiles/{profile.pk}/export/json/")
    assert (response.status_code, response.json()["code"]) == (422, "export_heavy")


@pytest.mark.exhaustive
def test_a_user_has_few_large_exports_at_a_time(client, profile, in_process, all_are_large):
    address = f"/api/v1/profiles/{profile.pk}/export/json/"
    first, second = client.get(address), client.get(address)
    refused = client.get(address)
    assert (refused.status_code, refused.json()["code"]) == (429, "export_many")
    assert refused["Retry-After"] == "5"
    page = client.get(f"/profiles/{profile.pk}/export/json/")
    assert (page.status_code, page["Retry-After"]) == (429, "5")
    bob = make_user("bob")
    own = make_import(bob, good_profile("tiny")).profile
    client.force_login(bob)
    assert content(client, f"/profiles/{own.pk}/export/json/")
    client.force_login(profile.upload.owner)
    assert first.getvalue()  # read to its end
    second.close()  # the client has gone
    again = [client.get(address), client.get(address)]
    assert [response.status_code for response in again] == [200, 200]
    for response in again:
        response.close()


def test_small_exports_are_not_limited(client, profile, monkeypatch):
    monkeypatch.setattr(heavy, "MOST_OPERATORS", MOST_OPERATORS)
    responses = [client.get(f"/profiles/{profile.pk}/export/json/") for _ in range(6)]
    assert {response.status_code for response in responses} == {200}
