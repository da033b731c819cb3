"""The list of devices: search, filters, pages."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tasks.tests.make import make_worker
from workers.views.pages import PAGE_SIZE

pytestmark = [pytest.mark.django_db, pytest.mark.database]


@pytest.fixture
def alice(client, alice):
    client.force_login(alice)
    return alice


def device_names(client, query=""):
    page = client.get(f"/workers/?{query}").text
    return re.findall(r'href="/workers/([\w.-]+)/">\1<', page)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["desk", "phone"]),
        ("q=PHO", ["phone"]),
        ("q=kirin", ["phone"]),
        ("q=rtx", ["desk"]),
        ("q=1.12", ["phone"]),
        ("state=online", ["desk"]),
        ("state=offline", ["phone"]),
        ("state=offline&q=desk", []),
        ("q=10.0.0.7", []),
        ("q=host-7f3a", []),
        ("state=asleep", []),
        ("q=" + "x" * 101, []),
        ("q=%00", []),
    ],
)
def test_the_search_uses_only_facts_that_users_may_see(client, alice, query, names):
    secret = {"ip": "10.0.0.7", "hostname": "host-7f3a"}
    make_worker("desk", facts={"gpus": [{"name": "RTX 4090"}], **secret})
    make_worker("phone", online=False, version="1.12.0", facts={"cpu_model": "Kirin 990"})
    make_worker("hidden", is_public=False, facts={"cpu_model": "Kirin 990"})
    assert device_names(client, query) == names
    if not names:
        assert "No device fits" in client.get(f"/workers/?{query}").text


def test_pagination_keeps_the_filter_and_takes_few_queries(client, alice):
    for number in range(PAGE_SIZE + 2):
        make_worker(f"device-{number:03}")
    client.get("/workers/")
    with CaptureQueriesContext(connection) as queries:
        assert len(device_names(client, "q=device")) == PAGE_SIZE
    assert len(queries) <= 8
    page = client.get("/workers/?q=device").text
    assert 'href="/workers/?q=device&amp;page=2"' in page
    assert device_names(client, "q=device&page=2") == ["device-050", "device-051"]
    assert device_names(client, "page=99") == ["device-050", "device-051"]
    assert len(device_names(client, "page=-1")) == len(device_names(client, "page=99"))
