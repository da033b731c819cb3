"""Tests of two concurrent dispatchers: the second acts between any two queries of the first."""

from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connection
from django.utils import timezone

from tasks.lifecycle.cancel import cancel_task
from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting, rebind_orphans
from tasks.tests.make import (
    make_copies,
    make_task_for_any_device,
    make_user,
    make_waiting_task,
    make_worker,
    occupy,
)
from workers.models import Worker

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.database,
    pytest.mark.usefixtures("devices_stay_online"),
]


def assign_with_interruption(number: int, act: Callable[[], object]) -> list[Attempt] | None:
    """Assign waiting tasks, and call `act` before the query of this number.

    Queries inside of transactions are not counted: others see a transaction whole or not at all.
    Return the attempts, or None if there are fewer queries.
    """
    outside = len(connection.savepoint_ids)
    left: int | None = number

    def interrupt(execute, sql, params, many, context):
        nonlocal left
        if left is not None and len(connection.savepoint_ids) == outside:
            left -= 1
            if left < 0:
                left = None
                act()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(interrupt):
        attempts = assign_waiting()
    return attempts if left is None else None


def free_a_slot() -> None:
    """End the first attempt and start the next task of its device."""
    first = Attempt.objects.earliest("created_at")
    Attempt.objects.filter(pk=first.pk).update(ended_at=timezone.now())
    Task.objects.filter(pk=first.task_id).update(state="processing")
    assign_waiting([first.worker_id])


def check_assignments() -> None:
    """Check that no live attempts share a task or a slot, and that tasks match attempts."""
    live = Attempt.objects.filter(ended_at=None).select_related("task")
    assert set(Counter(attempt.task_id for attempt in live).values()) <= {1}
    assert set(Counter((attempt.worker_id, attempt.slot) for attempt in live).values()) <= {1}
    for attempt in live:
        assert (attempt.task.state, attempt.task.worker_id) == ("assigned", attempt.worker_id)
    tasks = Task.objects.filter(state="assigned")
    assert set(tasks.values_list("pk", flat=True)) == {attempt.task_id for attempt in live}


def make_queues() -> None:
    """Create two devices with two slots, of which one is occupied, and waiting tasks."""
    alice, bob = make_user("alice"), make_user("bob")
    desk, shelf = make_worker("desk", slots=2), make_worker("shelf", slots=2)
    occupy(desk, alice)
    for user in (alice, bob):
        make_copies(make_waiting_task(user, desk), 1)
        make_task_for_any_device(user)
        make_task_for_any_device(user, priority=5)
    Task.objects.filter(target__isnull=False).update(worker=desk)
    assert not Task.objects.filter(worker=shelf).exists()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "act",
    [
        free_a_slot,
        rebind_orphans,
        lambda: [cancel_task(task) for task in Task.objects.filter(state="waiting")[::2]],
        lambda: Worker.objects.filter(name="shelf").update(is_enabled=False),
    ],
    ids=["freed slot", "sweep", "cancel", "drain"],
)
def test_interrupted_dispatcher_assigns_no_task_and_no_slot_twice(act):
    make_queues()
    number = 0
    while True:
        savepoint = connection.savepoint()
        attempts = assign_with_interruption(number, act)
        check_assignments()
        connection.savepoint_rollback(savepoint)
        if attempts is None:
            break
        number += 1
    assert number > 10


def test_two_dispatchers_fill_as_many_slots_as_one():
    make_queues()
    live = Attempt.objects.filter(ended_at=None)
    savepoint = connection.savepoint()
    assign_waiting()
    slots = live.count()
    connection.savepoint_rollback(savepoint)
    assert (live.count(), slots) == (1, 4)
    number, numbers_of_first = 0, set[int]()
    while (attempts := assign_with_interruption(number, assign_waiting)) is not None:
        check_assignments()
        assert live.count() == slots
        numbers_of_first.add(len(attempts))
        connection.savepoint_rollback(savepoint)
        number += 1
    assert number > 10
    # the second dispatcher ran before, between and after the assignments of the first
    assert numbers_of_first == {0, 1, 2, 3}
