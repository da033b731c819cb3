"""The list of devices: visibility, search, filters, pages."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tasks.tests.make import FACTS, RUNTIMES, make_user, make_worker
from workers.models import Grant
from workers.services import introduce_worker
from workers.views.pages import PAGE_SIZE

pytestmark = [
    pytest.mark.django_db, pytest.mark.database, pytest.mark.usefixtures("logged_in"),
]  # fmt: skip


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
        assert "No matching devices" in client.get(f"/workers/?{query}").text


def test_a_private_device_is_listed_only_for_users_with_a_grant(client, alice):
    worker = make_worker("secret-board", is_public=False)
    Grant.objects.create(worker=worker, user=alice)
    for user, sees in ((alice, True), (make_user("carol"), False)):
        client.force_login(user)
        for path in ("/workers/", "/workers/all/rows/", "/api/v1/workers/", "/tasks/new/"):
            assert ("secret-board" in client.get(path).text) is sees


def test_the_list_shows_why_a_device_has_no_usable_version(client, alice):
    make_worker("box").runtimes.update(problem="No Python 3.6 to 3.10 was found")
    assert "No Python 3.6 to 3.10 was found" in client.get("/workers/").text


def test_the_list_shows_network_addresses_only_to_administrators(client, alice, root):
    introduce_worker(make_worker("box"), facts=FACTS, agent_version="1", runtimes=RUNTIMES)
    for path in ("/workers/", "/api/v1/workers/"):
        assert FACTS.hostname not in client.get(path).text
    client.force_login(root)
    assert client.get("/api/v1/workers/").json()["results"][0]["facts"]["hostname"]


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
