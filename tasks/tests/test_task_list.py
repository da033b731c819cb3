"""Tests of the task list: filters, pagination, saved views, bulk actions."""

import datetime as dt
import re
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agent.protocol.notes import Note
from tasks import pagination
from tasks.models import SavedView, Task
from tasks.tests.make import (
    data_file,
    make_copies,
    make_task,
    make_tasks,
    make_user,
    make_waiting_task,
    make_worker,
    model_file,
)

pytestmark = [
    pytest.mark.django_db, pytest.mark.database, pytest.mark.usefixtures("logged_in"),
]  # fmt: skip
#: session, user, tasks, files, figures, counts, and what the filters offer
MOST_QUERIES = 16


def task_ids(client, query="", **params):
    """Return the ids of the tasks on a page, from top to bottom."""
    page = client.get(f"/tasks/?{query}{urlencode(params, doseq=True)}").text
    return [int(number) for number in re.findall(r'<tr data-task="(\d+)"', page)]


def page_query(client, element, query=""):
    """Return the query of the link to another page, or None if there is no link."""
    page = client.get(f"/tasks/?{query}").text
    match = re.search(rf'id="{element}" href="/tasks/\?([^"]+)"', page)
    return match and match[1].replace("&amp;", "&")


FAILED = {"state": "finished", "outcome": "failed"}
DONE = {"state": "finished", "outcome": "succeeded"}


def test_filters_are_combined(client, alice):
    desk, phone = make_worker("desk"), make_worker("phone", version="1.12.0")
    on_desk = make_waiting_task(alice, desk)
    on_phone = make_waiting_task(alice, phone, runtime_version="1.12.0")
    succeeded = make_tasks(alice, 1, worker=desk, **DONE)[0]
    assert task_ids(client) == [succeeded, on_phone.pk, on_desk.pk]
    assert task_ids(client, device="desk") == [succeeded, on_desk.pk]
    assert task_ids(client, device="desk", status="waiting") == [on_desk.pk]
    assert task_ids(client, status=["succeeded", "waiting"]) == [succeeded, on_phone.pk, on_desk.pk]
    assert task_ids(client, version="1.12.0") == [on_phone.pk]
    assert task_ids(client, device="desk", version="1.12.0") == []
    assert task_ids(client, device="nowhere") == []


@pytest.mark.parametrize("status", list(pagination.STRANDS))
def test_status_filter_matches_tasks_with_that_status(client, alice, status):
    worker = make_worker()
    states = [
        ("initiated", ""), ("waiting", ""), ("assigned", ""), ("running", ""), ("cancelling", ""),
        ("processing", ""), ("finished", "succeeded"), ("finished", "failed"),
        ("finished", "cancelled"), ("finished", "lost"),
    ]  # fmt: skip
    for state, outcome in states:
        make_tasks(alice, 1, worker=worker, state=state, outcome=outcome)
    expected = [task.pk for task in Task.objects.order_by("-pk") if task.status == status]
    assert expected
    assert task_ids(client, status=status) == expected


def test_reason_of_a_failed_task_has_the_message_of_its_agent(client, alice):
    notes = [Note.of("disk_full").model_dump(mode="json")]
    make_tasks(alice, 1, worker=make_worker(), reason="refused_by_agent", notes=notes, **FAILED)
    assert "The disk of this device is full." in client.get("/tasks/").text
    client.cookies["django_language"] = "zh-hans"
    assert "此设备的磁盘已满。" in client.get("/tasks/").text


def test_search_matches_model_names_and_titles(client, alice):
    one = make_task(alice, files=[model_file(name="ResNet18.mge"), data_file()])
    two = make_task(alice, title="the resnet of yesterday")
    make_task(alice)
    assert task_ids(client, q="resnet") == [two.pk, one.pk]
    assert task_ids(client, q="100%") == []
    assert task_ids(client, q=f"#{one.pk}") == task_ids(client, q=f" #{one.pk} ") == [one.pk]
    assert task_ids(client, q="resnet ") == [two.pk]
    assert task_ids(client, q="data.npy") == []


def test_date_filters_use_the_users_time_zone_and_include_the_last_day(client, alice):
    alice.time_zone = "Asia/Shanghai"
    alice.save()
    task = make_task(alice)
    # 7 November in Shanghai, 6 November in UTC
    Task.objects.update(created_at=dt.datetime(2026, 11, 6, 23, 30, tzinfo=dt.UTC))
    assert task_ids(client, since="2026-11-07", until="2026-11-07") == [task.pk]
    assert task_ids(client, until="2026-11-06") == []
    assert task_ids(client, since="2026-11-08") == []


def test_date_filter_without_a_task_searches_no_other_tasks(client, alice, monkeypatch):
    monkeypatch.setattr(pagination, "LOOKED_AT", 2)
    make_tasks(alice, 3, worker=make_worker())
    later = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=2)
    page = client.get(f"/tasks/?since={later}").text
    assert "No matching tasks" in page
    assert "Search older tasks" not in page


@pytest.mark.parametrize(
    "query",
    [
        "since=2026-11-08&until=2026-11-07", "since=yesterday", "status=happy", "q=%00",
        "device=" + "x" * 61, "until=2026-02-30", "version=" + "9" * 41,
    ],
)  # fmt: skip
def test_invalid_filters_show_a_message_and_no_tasks(client, alice, query):
    make_task(alice)
    page = client.get(f"/tasks/?{query}").text
    assert "Invalid filters" in page
    assert "<tr data-task=" not in page


@pytest.mark.parametrize(
    "query",
    ["before=x", "before=-1", "after=9999999999999999999999", "before=", "q=%23" + "9" * 30,
     "since=0001-01-01", "until=9999-12-31", "page=3", "owner=alice@example.com"],
)  # fmt: skip
def test_unexpected_parameters_are_ignored(client, alice, query):
    make_task(alice)
    assert client.get(f"/tasks/?{query}").status_code == 200


def test_no_filter_finds_tasks_of_other_users(client, alice):
    foreign = make_task(make_user("bob"), title="secret")
    for params in ({"q": "secret"}, {"q": f"#{foreign.pk}"}, {"device": foreign.worker.name}):
        assert task_ids(client, **params) == []
    assert task_ids(client, owner="bob@example.com") == []


def test_administrator_filters_by_owner(client):
    task = make_task(make_user("bob"))
    make_task(make_user("carol"))
    client.force_login(make_user("root", is_staff=True))
    for text in ("BOB@example.com", "ｂｏｂ＠example.com"):
        assert task_ids(client, owner=text) == [task.pk]
    assert task_ids(client, owner="nobody@example.com") == []


def test_pages_show_each_task_once_in_both_directions(client, alice):
    ids = make_tasks(alice, 2 * pagination.PAGE_SIZE + 3, **FAILED)[::-1]
    shown, query = [], "status=failed"
    while query:
        shown += task_ids(client, query)
        last, query = query, page_query(client, "page-next", query)
    assert shown == ids
    middle = page_query(client, "page-previous", last)
    assert task_ids(client, middle) == ids[pagination.PAGE_SIZE : 2 * pagination.PAGE_SIZE]
    newest = page_query(client, "page-previous", middle)
    assert task_ids(client, newest) == ids[: pagination.PAGE_SIZE]
    assert page_query(client, "page-previous", newest) is None


def test_new_task_does_not_shift_older_pages(client, alice):
    make_tasks(alice, pagination.PAGE_SIZE + 5)
    older = page_query(client, "page-next")
    before = task_ids(client, older)
    make_task(alice)
    assert task_ids(client, older) == before


def test_several_statuses_are_merged_in_order(client, alice):
    worker = make_worker()
    for number in range(2 * pagination.PAGE_SIZE):
        make_tasks(alice, 1, worker=worker, **(FAILED if number % 3 else DONE))
    expected = list(Task.objects.order_by("-pk").values_list("pk", flat=True))
    query = "status=failed&status=succeeded"
    assert task_ids(client, query) == expected[: pagination.PAGE_SIZE]
    older = page_query(client, "page-next", query)
    assert task_ids(client, older) == expected[pagination.PAGE_SIZE :]


def test_search_offers_to_look_further_back(client, alice, monkeypatch):
    monkeypatch.setattr(pagination, "LOOKED_AT", 10)
    worker = make_worker()
    first = make_task(alice, worker, title="needle")
    make_tasks(alice, 25, worker=worker, **DONE)
    make_tasks(alice, 1, worker=worker, **FAILED)
    query = "q=needle&status=succeeded&status=initiated"
    shown, pages = [], 0
    while query:
        pages += 1
        shown += task_ids(client, query)
        page = client.get(f"/tasks/?{query}").text
        query = page_query(client, "page-next", query)
        assert ("Search older tasks" in page) is (query is not None)
    assert shown == [first.pk]
    assert pages == 3


@pytest.mark.parametrize(("tasks", "text"), [(3, "Tasks: 3"), (1001, "Tasks: 1,000+")])
def test_count_is_exact_up_to_1000(client, alice, tasks, text):
    make_tasks(alice, tasks, **DONE)
    assert text in client.get("/tasks/?status=succeeded").text


@pytest.mark.parametrize("query", ["", "status=failed", "q=nothing", "since=yesterday"])
def test_bulk_actions_are_hidden_without_tasks(client, alice, query):
    def is_hidden():
        page = client.get(f"/tasks/?{query}").text
        return re.search(r'<form class="bulk"[^>]*>', page)[0].endswith(" hidden>")

    assert is_hidden()
    make_waiting_task(alice)
    assert is_hidden() is bool(query)


def test_empty_list_and_empty_result_have_different_messages(client, alice):
    assert "No tasks yet" in client.get("/tasks/").text
    make_task(alice)
    page = client.get("/tasks/?status=failed").text
    assert "No matching tasks" in page
    assert "No tasks yet" not in page


@pytest.mark.parametrize("query", ["", "status=failed&status=running&status=waiting", "q=net"])
@pytest.mark.parametrize("count", [1, 60])
def test_number_of_queries_does_not_depend_on_tasks(client, alice, query, count):
    worker = make_worker()
    make_copies(make_task(alice, worker, title="net"), count - 1)
    Task.objects.update(state="finished", outcome="failed")
    client.get("/tasks/")
    with CaptureQueriesContext(connection) as queries:
        assert len(task_ids(client, query)) == min(count, pagination.PAGE_SIZE)
    strands = 6 if "status" in query else 0
    assert len(queries) <= MOST_QUERIES + 2 * strands


# -- saved views ----------------------------------------------------------------------------------


def save_view(client, name="mine", query="status=failed"):
    return client.post("/tasks/views/", {"name": name, "query": query})


def test_saved_view_restores_its_filters_and_can_be_deleted(client, alice):
    answer = save_view(client, "only failures", "status=failed&q=net&page=7&evil=1")
    assert answer.url == "/tasks/?q=net&status=failed"
    view = SavedView.objects.get()
    page = client.get(answer.url).text
    assert re.search(r'aria-current="page">only failures<', page)
    client.post(f"/tasks/views/{view.pk}/delete/")
    assert "only failures" not in client.get("/tasks/").text


def test_saved_view_with_the_same_name_is_replaced(client, alice):
    save_view(client, query="status=failed")
    save_view(client, "  mine ", query="status=running")
    assert [(v.name, v.query) for v in SavedView.objects.all()] == [("mine", "status=running")]


def test_message_says_whether_a_saved_view_was_replaced(client, alice):
    def message_after(query):
        page = client.post("/tasks/views/", {"name": "mine", "query": query}, follow=True)
        return re.search(r'notice--success" role="status">([^<]+)<', page.text)[1]

    assert message_after("status=failed") == "The filters were saved as “mine”."
    assert message_after("q=net") == "The saved view “mine” has been replaced with these filters."
    assert message_after("q=net") == "The saved view “mine” already has these filters."


@pytest.mark.parametrize(
    ("name", "query"),
    [("", "status=failed"), ("x" * 61, "status=failed"), ("a\x00b", "status=failed"),
     ("none", ""), ("bad", "status=happy"), ("long", "q=" + "x" * 300)],
)  # fmt: skip
def test_invalid_view_is_not_saved(client, alice, name, query):
    assert save_view(client, name, query).status_code == 422
    assert not SavedView.objects.exists()


def test_views_of_other_users_are_not_found(client, alice):
    foreign = SavedView.objects.create(owner=make_user("bob"), name="bobs", query="status=failed")
    assert "bobs" not in client.get("/tasks/").text
    assert client.post(f"/tasks/views/{foreign.pk}/delete/").status_code == 404
    assert SavedView.objects.exists()


def test_number_of_saved_views_is_limited(client, alice):
    SavedView.objects.bulk_create(
        SavedView(owner=alice, name=f"view {number}", query="status=failed") for number in range(40)
    )
    assert save_view(client, "one more").status_code == 422
    assert save_view(client, "view 7", "status=running").status_code == 302


def test_column_order_of_administrators_starts_with_the_model(client):
    make_task(make_user("bob"))
    client.force_login(make_user("root", is_staff=True))
    page = client.get("/tasks/").text
    cells = re.findall(r"<th scope=\"col\".*", page)
    headers = [re.sub(r"<[^>]*>", "", cell).strip() for cell in cells]
    assert headers[2:5] == ["Model or script", "Status", "Owner"]
    row = page.partition("<tr data-task=")[2]
    assert row.index("net.mge") < row.index("bob@example.com") < row.index("1.13.0")
