"""The admin pages of tasks: the list with its filters, the queue, and cancelling."""

import datetime

import pytest
from django.utils import timezone

from tasks.models import Task
from tasks.states import Status
from tasks.tests.make import fail_run, make_attempt, make_user, make_waiting_task, make_worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]

TASKS = "/admin/tasks/task/"


@pytest.fixture
def root(client):
    user = make_user("root", is_staff=True)
    client.force_login(user)
    return user


def numbers(client, query: str = "") -> list[int]:
    """Return the listed tasks in order."""
    page = client.get(TASKS + query)
    assert page.status_code == 200
    return [task.pk for task in page.context["cl"].result_list]


def test_tasks_of_all_users_are_listed_and_found(client, root):
    desk, phone = make_worker("desk"), make_worker("phone")
    first, second = make_waiting_task(make_user("ann"), desk), make_waiting_task(root, phone)
    fail_run(make_attempt(first))
    assert numbers(client) == [second.pk, first.pk]
    assert numbers(client, "?status=failed") == [first.pk]
    assert numbers(client, "?status=running") == []
    for text in ("ann", "desk", str(first.pk)):
        assert first.pk in numbers(client, f"?q={text}"), text
    assert numbers(client, "?q=ann") == [first.pk]
    assert numbers(client, "?q=no such") == []
    page = client.get(TASKS).content.decode()
    assert "load_and_run ended with an error." in page
    assert f'<a href="/tasks/{first.pk}/">#{first.pk}</a>' in page


def test_queue_lists_waiting_tasks_longest_wait_first(client, root):
    tasks = [make_waiting_task(root) for _ in range(3)]
    fail_run(make_attempt(tasks.pop()))
    Task.objects.filter(pk=tasks[1].pk).update(
        submitted_at=timezone.now() - datetime.timedelta(hours=1)
    )
    assert numbers(client, "?status=waiting") == [tasks[1].pk, tasks[0].pk]


def test_cancelling_asks_first(client, root):
    task, ended = make_waiting_task(make_user("ann")), make_waiting_task(root)
    fail_run(make_attempt(ended))
    chosen = {"action": "cancel", "_selected_action": [task.pk, ended.pk]}
    page = client.post(TASKS, chosen)
    assert "end without a result" in page.text
    assert Task.objects.get(pk=task.pk).status == Status.WAITING
    page = client.post(TASKS, chosen | {"confirm": "yes"}, follow=True)
    assert f"Cancelled: #{task.pk}" in page.text
    assert f"#{ended.pk}" in page.text
    assert Task.objects.get(pk=task.pk).status == Status.CANCELLED
    assert Task.objects.get(pk=ended.pk).status == Status.FAILED


def test_page_of_a_task_is_that_of_the_site(client, root):
    task = make_waiting_task(make_user("ann"))
    page = client.get(f"{TASKS}{task.pk}/change/")
    assert (page.status_code, page["Location"]) == (302, f"/tasks/{task.pk}/")
    assert client.get(f"{TASKS}{task.pk + 1}/change/")["Location"] == TASKS
    assert client.get(f"{TASKS}add/").status_code == 403


def test_number_of_queries_does_not_depend_on_rows(client, root, django_assert_max_num_queries):
    for _ in range(8):
        make_waiting_task(root)
    with django_assert_max_num_queries(12):
        client.get(TASKS)


def test_users_are_refused(client):
    client.force_login(make_user("ann"))
    assert client.get(TASKS).status_code == 302
