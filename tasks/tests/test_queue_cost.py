"""Queue status and the choice of the next task cost the same however many tasks wait."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting, rebind_orphans
from tasks.scheduling.queue_status import facts_of, outlook
from tasks.tests.make import (
    make_task_for_any_device,
    make_user,
    make_waiting_task,
    make_worker,
    occupy,
    set_last_heartbeat,
)
from workers.models import Runtime, Worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def fill(owners, worker: Worker, number: int) -> None:
    """So many more tasks of each owner wait for a device, half of them for any like it."""
    for owner in owners:
        for _ in range(number):
            make_waiting_task(owner, worker)
            make_task_for_any_device(owner, {"chip": "A"})
        set_last_heartbeat(timezone.now())  # a slow machine may need half a minute for this
    Task.objects.filter(state="waiting").update(worker=worker)


@pytest.fixture
def queue():
    """Two users; a device that is busy, one like it that is free, and what waits for the first."""
    owners = [make_user("alice"), make_user("bob")]
    busy = make_worker("busy", labels={"chip": "A"})
    occupy(busy, owners[0])
    make_worker("free", labels={"chip": "A"})
    fill(owners, busy, 2)
    return owners, busy


def the_last_one() -> Task:
    return Task.objects.filter(state="waiting").latest("pk")


def assign_once(name: str) -> list[Attempt]:
    with_savepoint = connection.savepoint()
    assigned = assign_waiting([Worker.objects.get(name=name).pk])
    connection.savepoint_rollback(with_savepoint)
    return assigned


@pytest.mark.parametrize(
    ("ask", "most"),
    [
        (lambda owner, busy: facts_of(the_last_one(), reader=owner), 26),
        (lambda owner, busy: outlook(busy, "1.13.0", owner=owner), 20),
        (lambda owner, busy: assign_once("free"), 32),
        (lambda owner, busy: assign_waiting([busy.pk]), 8),
    ],
    ids=["facts", "outlook", "take over", "nothing free"],
)
def test_number_of_queries_does_not_depend_on_waiting_tasks(queue, ask, most):
    owners, busy = queue
    with CaptureQueriesContext(connection) as few:
        ask(owners[1], busy)
    fill(owners, busy, 20)
    with CaptureQueriesContext(connection) as many:
        ask(owners[1], busy)
    assert len(many) == len(few) <= most


def test_number_of_queries_of_a_freed_device_does_not_depend_on_waiting_tasks(queue):
    owners, busy = queue
    Attempt.objects.update(ended_at=Attempt.objects.get().created_at)
    with CaptureQueriesContext(connection) as few:
        assert len(assign_once("busy")) == 1
    fill(owners, busy, 20)
    with CaptureQueriesContext(connection) as many:
        assert len(assign_once("busy")) == 1
    assert len(many) == len(few) <= 25


def test_number_of_queries_for_orphans_does_not_depend_on_orphans(queue):
    owners, busy = queue
    Runtime.objects.filter(worker=busy).update(kind="binary", builds=["cuda"])

    def strand(number: int) -> None:
        Worker.objects.filter(pk=busy.pk).update(is_enabled=True)
        for _ in range(number):
            make_task_for_any_device(owners[0], {"chip": "A"}, options={"cuda": True})
        Task.objects.filter(state="waiting").exclude(options={"cuda": True}).delete()
        Worker.objects.filter(pk=busy.pk).update(is_enabled=False)

    strand(2)
    with CaptureQueriesContext(connection) as few:
        assert rebind_orphans() == 0
    strand(20)
    with CaptureQueriesContext(connection) as many:
        assert rebind_orphans() == 0
    assert len(many) == len(few) <= 13


def test_number_of_queries_does_not_depend_on_similar_devices(queue):
    owners, _ = queue
    Worker.objects.filter(name="free").update(is_enabled=False)
    for number in range(2):
        occupy(make_worker(f"like-{number}", labels={"chip": "A"}), owners[0])
    with CaptureQueriesContext(connection) as few:
        facts_of(the_last_one(), reader=owners[1])
    for number in range(2, 12):
        occupy(make_worker(f"like-{number}", labels={"chip": "A"}), owners[0])
    with CaptureQueriesContext(connection) as many:
        facts_of(the_last_one(), reader=owners[1])
    assert len(many) == len(few)
