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
    make_task_for_any_device,
    make_user,
    make_waiting_task,
    make_worker,
    occupy,
)
from workers.models import Worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]


class Between:
    """Does something once, before the query of this number, where a database would let others in.

    Those of a transaction that is under way are left out: others see it whole or not at all.
    """

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self.left, self.act, self.is_done = number, act, False
        self.outside = len(connection.savepoint_ids)

    def __call__(self, execute, sql, params, many, context):
        if len(connection.savepoint_ids) == self.outside and not self.is_done:
            self.left -= 1
            if self.left < 0:
                self.is_done = True
                self.act()
        return execute(sql, params, many, context)


def interrupted(number: int, act: Callable[[], object]) -> list[Attempt] | None:
    """What a dispatcher assigns with `act` before one of its queries; None: it has fewer."""
    between = Between(number, act)
    with connection.execute_wrapper(between):
        assigned = assign_waiting()
    return assigned if between.is_done else None


def a_slot_gets_free() -> None:
    """What ran on the first device ends, and its next task begins."""
    first = Attempt.objects.earliest("created_at")
    Attempt.objects.filter(pk=first.pk).update(ended_at=timezone.now())
    Task.objects.filter(pk=first.task_id).update(state="processing")
    assign_waiting([first.worker_id])


def check_that_nothing_was_given_twice() -> None:
    live = Attempt.objects.filter(ended_at=None)
    assert set(Counter(live.values_list("task_id", flat=True)).values()) <= {1}
    assert set(Counter(live.values_list("worker_id", "slot")).values()) <= {1}
    for attempt in live:
        assert (attempt.task.state, attempt.task.worker_id) == ("assigned", attempt.worker_id)
    held = Task.objects.filter(state="assigned")
    assert set(held.values_list("pk", flat=True)) == set(live.values_list("task_id", flat=True))


def make_queues() -> None:
    """Two devices with two slots, one of them in use, and tasks for each and for any."""
    alice, bob = make_user("alice"), make_user("bob")
    desk, shelf = make_worker("desk", slots=2), make_worker("shelf", slots=2)
    occupy(desk, alice)
    for user in (alice, bob):
        make_waiting_task(user, desk)
        make_waiting_task(user, desk)
        make_task_for_any_device(user)
        make_task_for_any_device(user, priority=5)
    Task.objects.filter(target__isnull=False).update(worker=desk)
    assert not Task.objects.filter(worker=shelf).exists()


@pytest.mark.parametrize(
    "act",
    [
        assign_waiting,
        a_slot_gets_free,
        rebind_orphans,
        lambda: [cancel_task(task) for task in Task.objects.filter(state="waiting")[::2]],
        lambda: Worker.objects.filter(name="shelf").update(is_enabled=False),
    ],
    ids=[
        "a-second-one",
        "a-slot-gets-free",
        "the-sweep",
        "a-user-cancels",
        "an-administrator-drains",
    ],
)
def test_interrupted_dispatcher_assigns_no_task_and_no_slot_twice(act):
    make_queues()
    numbers = 0
    while True:
        before = connection.savepoint()
        assigned = interrupted(numbers, act)
        check_that_nothing_was_given_twice()
        connection.savepoint_rollback(before)
        if assigned is None:
            break
        numbers += 1
    assert numbers > 10


def test_two_dispatchers_fill_as_many_slots_as_one():
    make_queues()
    live = Attempt.objects.filter(ended_at=None)
    before = connection.savepoint()
    assign_waiting()
    alone = live.count()
    connection.savepoint_rollback(before)
    assert (live.count(), alone) == (1, 4)
    number, by_the_first = 0, set[int]()
    while (assigned := interrupted(number, assign_waiting)) is not None:
        assert live.count() == alone
        by_the_first.add(len(assigned))
        connection.savepoint_rollback(before)
        number += 1
    # the second one came before all that the first did, amid it and after it
    assert by_the_first == {0, 1, 2, 3}
