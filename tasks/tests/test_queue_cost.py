"""Tests that the number of queries does not depend on the length of the queue."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting, rebind_orphans
from tasks.scheduling.queue_status import outlook, queue_facts
from tasks.tests.make import (
    make_copies,
    make_task_for_any_device,
    make_user,
    make_waiting_task,
    make_worker,
    occupy,
)
from workers.models import Runtime, Worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def fill(owners, worker: Worker, number: int) -> None:
    """Add waiting tasks of each owner for a device, half of them for any similar device."""
    for owner in owners:
        make_copies(make_waiting_task(owner, worker), number - 1)
        make_copies(make_task_for_any_device(owner, {"chip": "A"}), number - 1)
    Task.objects.filter(state="waiting").update(worker=worker)


@pytest.fixture
def queue(devices_stay_online):
    """Return two users and a busy device with waiting tasks; a similar device is free."""
    owners = [make_user("alice"), make_user("bob")]
    busy = make_worker("busy", labels={"chip": "A"})
    occupy(busy, owners[0])
    make_worker("free", labels={"chip": "A"})
    fill(owners, busy, 2)
    return owners, busy


def newest_waiting_task() -> Task:
    return Task.objects.filter(state="waiting").latest("pk")


def assign_and_roll_back(name: str) -> list[Attempt]:
    savepoint = connection.savepoint()
    attempts = assign_waiting([Worker.objects.get(name=name).pk])
    connection.savepoint_rollback(savepoint)
    return attempts


def count_queries(function: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as queries:
        function()
    return len(queries)


@pytest.mark.parametrize(
    ("operation", "most"),
    [
        (lambda owner, busy: queue_facts(newest_waiting_task(), reader=owner), 17),
        (lambda owner, busy: outlook(busy, "1.13.0", owner=owner), 12),
        (lambda owner, busy: assign_and_roll_back("free"), 32),
        (lambda owner, busy: assign_waiting([busy.pk]), 8),
    ],
    ids=["queue status", "outlook", "task of another device", "no free slot"],
)
def test_number_of_queries_does_not_depend_on_waiting_tasks(queue, operation, most):
    owners, busy = queue
    few = count_queries(lambda: operation(owners[1], busy))
    fill(owners, busy, 20)
    assert count_queries(lambda: operation(owners[1], busy)) == few <= most


def test_number_of_queries_of_a_freed_device_does_not_depend_on_waiting_tasks(queue):
    owners, busy = queue
    Attempt.objects.update(ended_at=Attempt.objects.get().created_at)

    def assign() -> None:
        assert len(assign_and_roll_back("busy")) == 1

    few = count_queries(assign)
    fill(owners, busy, 20)
    assert count_queries(assign) == few <= 25


def test_number_of_queries_for_orphans_does_not_depend_on_orphans(queue):
    owners, busy = queue
    Runtime.objects.filter(worker=busy).update(kind="binary", builds=["cuda"])

    def make_orphans(number: int) -> None:
        Worker.objects.filter(pk=busy.pk).update(is_enabled=True)
        task = make_task_for_any_device(owners[0], {"chip": "A"}, options={"cuda": True})
        make_copies(task, number - 1)
        Task.objects.filter(state="waiting").exclude(options={"cuda": True}).delete()
        Worker.objects.filter(pk=busy.pk).update(is_enabled=False)

    def rebind() -> None:
        assert rebind_orphans() == 0

    make_orphans(2)
    few = count_queries(rebind)
    make_orphans(20)
    assert count_queries(rebind) == few <= 13


def test_number_of_queries_does_not_depend_on_similar_devices(queue):
    owners, _ = queue
    Worker.objects.filter(name="free").update(is_enabled=False)

    def count_after_adding(number: int) -> int:
        for _ in range(number):
            occupy(make_worker(labels={"chip": "A"}), owners[0])
        return count_queries(lambda: queue_facts(newest_waiting_task(), reader=owners[1]))

    assert count_after_adding(2) == count_after_adding(10)
