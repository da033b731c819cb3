"""The choice of the next tasks is the same whether queues were read whole or asked bit by bit."""

import random

import pytest
from django.db import transaction

from tasks.models import Purpose, Task
from tasks.queue import scheduling
from tasks.queue.scheduling import assign_waiting
from tasks.tests.make import make_user, make_waiting_task, make_worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def chosen(monkeypatch, longest: int) -> set[tuple[int, int, int]]:
    """Task, device and slot of what would start now if queues of up to `longest` count as short."""
    monkeypatch.setattr(scheduling, "SHORT_QUEUE", longest)
    with transaction.atomic():
        attempts = assign_waiting()
        transaction.set_rollback(True)
    return {(each.task_id, each.worker_id, each.slot) for each in attempts}


@pytest.mark.parametrize("seed", range(8))
def test_what_is_read_is_put_in_the_order_of_the_database(monkeypatch, seed):
    drawing = random.Random(seed)
    users = [make_user(name) for name in ("alice", "bob", "carol")[: drawing.randint(1, 3)]]
    workers = [make_worker(f"board-{n}", slots=drawing.randint(1, 3)) for n in range(4)]
    for _ in range(12):
        task = make_waiting_task(
            drawing.choice(users), drawing.choice(workers), priority=drawing.randint(-10, 10)
        )
        if drawing.random() < 0.2:
            Task.objects.filter(pk=task.pk).update(priority=drawing.choice([-50, 20, 100]))
        if drawing.random() < 0.1:
            Task.objects.filter(pk=task.pk).update(purpose=Purpose.HEALTH)
    asked = chosen(monkeypatch, 0)
    assert asked
    assert chosen(monkeypatch, 100) == asked


def test_a_short_queue_is_one_question_and_a_long_one_is_not_read(
    monkeypatch, django_assert_max_num_queries
):
    worker = make_worker()
    alice = make_user()
    tasks = [make_waiting_task(alice, worker) for _ in range(scheduling.SHORT_QUEUE)]
    free = {worker.pk: [0]}
    with django_assert_max_num_queries(1):
        assert [task.pk for task, _ in scheduling._places([worker], free)] == [tasks[0].pk]
    for _ in range(20):
        make_waiting_task(alice, worker)
    with django_assert_max_num_queries(3) as asked:
        assert [task.pk for task, _ in scheduling._places([worker], free)] == [tasks[0].pk]
    limit = scheduling.SHORT_QUEUE + 1
    assert f"LIMIT {limit}" in asked.captured_queries[0]["sql"]
