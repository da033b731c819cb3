"""The audit log says which administrator changed the task of another user."""

import pytest
from django.test import Client

from accounts.models import AuditEntry
from tasks.models import Task
from tasks.tests.make import make_user, make_waiting_task, make_worker, start_run

pytestmark = [pytest.mark.django_db, pytest.mark.database]
JSON = "application/json"


@pytest.fixture
def root(client):
    user = make_user("root", is_staff=True)
    client.force_login(user)
    return user


WAYS_TO_CANCEL = {
    "page": lambda client, number: client.post(f"/tasks/{number}/cancel/"),
    "list": lambda client, number: client.post("/tasks/act/", {"act": "cancel", "task": number}),
    "administration": lambda client, number: client.post(
        "/admin/tasks/task/", {"action": "cancel", "_selected_action": number, "confirm": "yes"}
    ),
    "API": lambda client, number: client.post(f"/api/v1/tasks/{number}/cancel/"),
    "API, several": lambda client, number: client.post(
        "/api/v1/tasks/cancel/", {"tasks": [number]}, JSON
    ),
}


@pytest.mark.parametrize("way", WAYS_TO_CANCEL)
def test_an_administrator_who_cancels_the_task_of_another_user_is_in_the_audit_log(
    client, root, alice, way
):
    own, foreign = make_waiting_task(root), make_waiting_task(alice)
    for task in (own, foreign):
        WAYS_TO_CANCEL[way](client, task.pk)
        task.refresh_from_db()
        assert task.outcome == "cancelled"
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.target_id) == ("task.cancel", root, str(foreign.pk))
    assert entry.after["owner"] == alice.email


#: what the request sends, and the values before and after the change
CHANGES = {
    "priority": ({"priority": 5}, {"priority": 0}, {"priority": 5}),
    "keep-files": ({"keep": "yes"}, {"keeps_files": False}, {"keeps_files": True}),
    "move": ({"worker": "other"}, {"worker": "first"}, {"worker": "other"}),
    "baseline": ({"pin": "yes"}, {"baseline": False}, {"baseline": True}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_administrator_who_changes_the_task_of_another_user_is_in_the_audit_log(
    client, root, alice, name
):
    body, before, after = CHANGES[name]
    first, other = make_worker("first"), make_worker("other")
    task = make_waiting_task(alice, first)
    if name == "baseline":
        Task.objects.filter(pk=task.pk).update(state="finished", outcome="succeeded")
    if name == "move":
        body = {"worker": other.pk}
    for _ in range(2):  # a repetition changes nothing
        client.post(f"/tasks/{task.pk}/{name}/", body)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.target_id) == ("task.change", root, str(task.pk))
    assert entry.before == before
    assert entry.after == {"owner": alice.email, "title": task.title} | after


def test_an_administrator_who_ends_the_run_of_another_user_early_is_in_the_audit_log(
    client, root, alice
):
    worker = make_worker(facts={"features": ["enough"]})
    task = start_run(alice, worker=worker, passes_done=2).task
    client.post(f"/tasks/{task.pk}/enough/")
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.target_id) == ("task.end_early", root, str(task.pk))


def test_changes_of_ones_own_tasks_are_not_audited(alice):
    browser = Client()
    browser.force_login(alice)
    task = make_waiting_task(alice)
    for name, body in (("priority", {"priority": 5}), ("keep-files", {"keep": "yes"})):
        browser.post(f"/tasks/{task.pk}/{name}/", body)
    task.refresh_from_db()
    assert (task.priority, task.keeps_files) == (5, True)
    assert not AuditEntry.objects.exists()
