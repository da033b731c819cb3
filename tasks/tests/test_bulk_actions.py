"""Tests of bulk actions of the task list."""

import re

import pytest
from django.utils import timezone

from tasks.lifecycle.cancel import cancel_task
from tasks.models import Task
from tasks.submission import submit
from tasks.tests.make import make_task, make_tasks, make_user, make_waiting_task, model_file
from tasks.views import bulk_actions, task_list

pytestmark = [pytest.mark.django_db, pytest.mark.database]


@pytest.fixture
def alice(client):
    user = make_user("alice")
    client.force_login(user)
    return user


def act(client, act, *tasks, **extra):
    body = {"act": act, "task": [getattr(task, "pk", task) for task in tasks]} | extra
    return client.post("/tasks/act/", body, follow=True)


def test_cancel_keeps_the_filters_of_the_list(client, alice):
    one, two, other = (make_waiting_task(alice) for _ in range(3))
    answer = act(client, "cancel", one, two, query="status=waiting&before=99")
    assert answer.redirect_chain == [("/tasks/?status=waiting&before=99", 302)]
    assert "2 tasks cancelled." in answer.content.decode()
    for task, status in ((one, "cancelled"), (two, "cancelled"), (other, "waiting")):
        task.refresh_from_db()
        assert task.status == status


def test_delete_needs_confirmation_and_skips_live_tasks(client, alice):
    gone, live = make_waiting_task(alice), make_waiting_task(alice)
    cancel_task(gone)
    answer = act(client, "delete", gone, live)
    assert "Delete 2 tasks?" in answer.content.decode()
    assert Task.objects.count() == 2
    answer = act(client, "delete", gone, live, sure="1").content.decode()
    assert "1 task deleted." in answer
    assert f"1 task was left out:<br>#{live.pk}: This task has not ended. Cancel it" in answer
    assert list(Task.objects.all()) == [live]


def test_cancel_waiting_skips_tasks_of_other_users(client):
    root = make_user("root", is_staff=True)
    client.force_login(root)
    mine, theirs = make_waiting_task(root), make_waiting_task(make_user("bob"))
    running = make_tasks(root, 1, state="running")
    assert "Cancel 1 task that waits?" in act(client, "cancel-waiting").content.decode()
    act(client, "cancel-waiting", sure="1")
    states = dict(Task.objects.values_list("pk", "state"))
    assert states == {mine.pk: "finished", theirs.pk: "waiting", running[0]: "running"}


def test_cancel_waiting_takes_a_limited_number_of_the_newest_tasks(client, alice, monkeypatch):
    monkeypatch.setattr(bulk_actions, "MOST_IDS", 2)
    monkeypatch.setattr(task_list, "MOST_IDS", 2)
    first, *_others = (make_waiting_task(alice) for _ in range(3))
    page = act(client, "cancel-waiting").content.decode()
    assert "Cancel 2 tasks that wait?" in page
    assert "if more wait" in page
    act(client, "cancel-waiting", sure="1")
    assert list(Task.objects.filter(state="waiting")) == [first]
    assert "if more wait" not in act(client, "cancel-waiting").content.decode()


@pytest.mark.parametrize("action", ["cancel", "retry", "delete"])
def test_action_on_another_users_task_has_no_effect(client, alice, action):
    theirs = make_waiting_task(make_user("bob"))
    cancel_task(theirs)
    answer = act(client, action, theirs, sure="1")
    assert f"#{theirs.pk}: There is no such task of yours." in answer.content.decode()
    assert list(Task.objects.all()) == [theirs]


@pytest.mark.parametrize("ticked", [[], ["x"], ["-1"], ["9" * 40], ["١"]])
def test_invalid_task_ids_are_ignored(client, alice, ticked):
    answer = act(client, "cancel", *ticked)
    assert answer.status_code == 200
    assert "Nothing to do" in answer.content.decode()


def test_unknown_action_returns_404(client, alice):
    assert client.post("/tasks/act/", {"act": "explode"}).status_code == 404
    assert client.get("/tasks/act/").status_code == 405


@pytest.mark.parametrize("query", ["https://evil.example/", "//evil.example", "\\evil", "next=x"])
def test_action_never_redirects_to_another_site(client, alice, query):
    assert act(client, "cancel", query=query).redirect_chain == [("/tasks/", 302)]


def test_retry_copies_the_files_of_selected_tasks(client, alice, storage):
    from webprofile.storage import storage as objects

    task = make_task(alice, files=[model_file()])
    objects.write(task.files.get().object_key, b"hello world")
    submit.submit_task(task, {f.pk: submit.StoredObject(11, f.md5) for f in task.files.all()})
    cancel_task(task)
    answer = act(client, "retry", task).content.decode()
    assert "1 task asked for once more." in answer
    copy = Task.objects.get(copied_from=task)
    assert copy.status == "waiting"
    answer = act(client, "retry", task).content.decode()  # a double click
    assert f"#{task.pk}: It was repeated a moment ago, as #{copy.pk}." in answer
    assert Task.objects.count() == 2


def test_retry_lists_skipped_tasks_by_reason(client, alice, storage):
    purged, lost, never, live = (make_waiting_task(alice, files=[model_file()]) for _ in range(4))
    for task in (purged, lost, never):
        cancel_task(task)
    purged.files.update(purged_at=timezone.now())
    never.files.update(stored_at=None)
    answer = act(client, "retry", purged, lost, never, live, 987654).content.decode()
    assert "5 tasks were left out:" in answer
    gone = "“net.mge” is not in storage any more. Start a new task"
    assert f"<br>#{purged.pk}, #{lost.pk}: {gone}" in answer
    assert f"<br>#{never.pk}: “net.mge” was never uploaded whole. Start a new task" in answer
    assert f"<br>#{live.pk}: The task has not ended yet." in answer
    assert "<br>#987654: There is no such task of yours." in answer
    assert Task.objects.count() == 4


def test_cancel_lists_skipped_tasks_by_reason(client, alice):
    going, over = make_waiting_task(alice), make_waiting_task(alice)
    read = make_tasks(alice, 1, state="processing")[0]
    Task.objects.filter(pk=over.pk).update(state="finished", outcome="failed")
    numbers = [going.pk, over.pk, read, 987654]
    body = {"act": "cancel", "task": numbers}
    answer = client.post("/tasks/act/", body, follow=True).content.decode()
    assert re.search("1 task (was )?cancelled[.]", answer)
    assert "3 tasks were left out:" in answer
    both = re.search(r"<br>#(\d+), #(\d+): The run had ended already[.]", answer)
    assert both
    assert {int(number) for number in both.groups()} == {over.pk, read}
    assert "<br>#987654: There is no such task of yours." in answer


def test_language_switch_of_the_confirmation_returns_to_the_list(client, alice):
    task = make_waiting_task(alice)
    page = client.post("/tasks/act/", {"act": "delete", "task": [task.pk]}).content.decode()
    assert 'name="next" value="/tasks/"' in page
