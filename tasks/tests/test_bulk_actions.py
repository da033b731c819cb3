"""Tests of bulk actions of the task list."""

import re

import pytest
from django.utils import timezone

from tasks.lifecycle.cancel import cancel_task
from tasks.models import Task
from tasks.submission import uploads
from tasks.tests.make import (
    MODEL,
    make_task,
    make_tasks,
    make_user,
    make_waiting_task,
    model_file,
    stored_objects,
)
from tasks.views import bulk_actions, task_list
from webprofile.storage import storage as object_store

pytestmark = [
    pytest.mark.django_db, pytest.mark.database, pytest.mark.usefixtures("logged_in"),
]  # fmt: skip


def act(client, action, *tasks, **extra):
    body = {"act": action, "task": [getattr(task, "pk", task) for task in tasks]} | extra
    return client.post("/tasks/act/", body, follow=True)


def test_cancel_keeps_the_filters_of_the_list(client, alice):
    one, two, other = (make_waiting_task(alice) for _ in range(3))
    answer = act(client, "cancel", one, two, query="status=waiting&before=99")
    assert answer.redirect_chain == [("/tasks/?status=waiting&before=99", 302)]
    assert "2 tasks cancelled." in answer.text
    for task, status in ((one, "cancelled"), (two, "cancelled"), (other, "waiting")):
        task.refresh_from_db()
        assert task.status == status


def test_delete_needs_confirmation_and_skips_live_tasks(client, alice):
    ended, live = make_waiting_task(alice), make_waiting_task(alice)
    cancel_task(ended)
    assert "Delete 2 tasks?" in act(client, "delete", ended, live).text
    assert Task.objects.count() == 2
    page = act(client, "delete", ended, live, sure="1").text
    assert "1 task deleted." in page
    assert f"1 task was skipped:<br>#{live.pk}: This task has not ended. Cancel it" in page
    assert list(Task.objects.all()) == [live]


def test_cancel_waiting_skips_tasks_of_other_users(client):
    root = make_user("root", is_staff=True)
    client.force_login(root)
    own, foreign = make_waiting_task(root), make_waiting_task(make_user("bob"))
    running = make_tasks(root, 1, state="running")
    assert "Cancel 1 waiting task?" in act(client, "cancel-waiting").text
    act(client, "cancel-waiting", sure="1")
    states = dict(Task.objects.values_list("pk", "state"))
    assert states == {own.pk: "finished", foreign.pk: "waiting", running[0]: "running"}


def test_cancel_waiting_takes_a_limited_number_of_the_newest_tasks(client, alice, monkeypatch):
    monkeypatch.setattr(bulk_actions, "MOST_IDS", 2)
    monkeypatch.setattr(task_list, "MOST_IDS", 2)
    first, *_others = (make_waiting_task(alice) for _ in range(3))
    page = act(client, "cancel-waiting").text
    assert "Cancel 2 waiting tasks?" in page
    assert "only the newest are cancelled now" in page
    act(client, "cancel-waiting", sure="1")
    assert list(Task.objects.filter(state="waiting")) == [first]
    assert "only the newest are cancelled now" not in act(client, "cancel-waiting").text


@pytest.mark.parametrize("action", ["cancel", "retry", "delete"])
def test_action_on_another_users_task_has_no_effect(client, alice, action):
    foreign = make_waiting_task(make_user("bob"))
    cancel_task(foreign)
    page = act(client, action, foreign, sure="1").text
    assert f"#{foreign.pk}: This task does not exist, or you don’t have access." in page
    assert list(Task.objects.all()) == [foreign]


@pytest.mark.parametrize("ids", [[], ["x"], ["-1"], ["9" * 40], ["١"]])
def test_invalid_task_ids_are_ignored(client, alice, ids):
    answer = act(client, "cancel", *ids)
    assert answer.status_code == 200
    assert "No eligible tasks selected." in answer.text


def test_unknown_action_returns_404(client, alice):
    assert client.post("/tasks/act/", {"act": "explode"}).status_code == 404
    response = client.get("/tasks/act/")
    assert (response.status_code, response["Allow"]) == (405, "POST")
    assert "Page not found" in response.text


@pytest.mark.parametrize("query", ["https://evil.example/", "//evil.example", "\\evil", "next=x"])
def test_action_never_redirects_to_another_site(client, alice, query):
    assert act(client, "cancel", query=query).redirect_chain == [("/tasks/", 302)]


def test_retry_copies_the_files_of_selected_tasks(client, alice, storage):
    task = make_task(alice, files=[model_file()])
    object_store.write(task.files.get().object_key, MODEL)
    uploads.submit_task(task, stored_objects(task))
    cancel_task(task)
    assert "1 task re-queued." in act(client, "retry", task).text
    copy = Task.objects.get(copied_from=task)
    assert copy.status == "waiting"
    page = act(client, "retry", task).text  # a double click
    assert f"#{task.pk}: It has just been repeated as #{copy.pk}." in page
    assert Task.objects.count() == 2


def test_retry_lists_skipped_tasks_by_reason(client, alice, storage):
    purged, lost, never, live = (make_waiting_task(alice, files=[model_file()]) for _ in range(4))
    for task in (purged, lost, never):
        cancel_task(task)
    purged.files.update(purged_at=timezone.now())
    never.files.update(stored_at=None)
    page = act(client, "retry", purged, lost, never, live, 987654).text
    assert "5 tasks were skipped:" in page
    message = "“net.mge” is no longer in storage. Start a new task"
    assert f"<br>#{purged.pk}, #{lost.pk}: {message}" in page
    assert f"<br>#{never.pk}: The upload of “net.mge” was never completed. Start a new task" in page
    assert f"<br>#{live.pk}: The task has not ended yet." in page
    assert "<br>#987654: This task does not exist, or you don’t have access." in page
    assert Task.objects.count() == 4


def test_cancel_lists_skipped_tasks_by_reason(client, alice):
    waiting = make_waiting_task(alice)
    (failed,) = make_tasks(alice, 1, state="finished", outcome="failed")
    (processing,) = make_tasks(alice, 1, state="processing")
    page = act(client, "cancel", waiting, failed, processing, 987654).text
    assert re.search("1 task (was )?cancelled[.]", page)
    assert "3 tasks were skipped:" in page
    match = re.search(r"<br>#(\d+), #(\d+): The run had already ended[.]", page)
    assert match
    assert {int(number) for number in match.groups()} == {failed, processing}
    assert "<br>#987654: This task does not exist, or you don’t have access." in page


def test_language_switch_of_the_confirmation_returns_to_the_list(client, alice):
    task = make_waiting_task(alice)
    assert 'name="next" value="/tasks/"' in act(client, "delete", task).text


def test_cancelling_all_waiting_tasks_without_one_says_that_none_waits(client, alice):
    client.force_login(alice)
    response = client.post("/tasks/act/", {"act": "cancel-waiting", "sure": "yes"}, follow=True)
    assert "None of your tasks is waiting." in response.text
