"""Wake-ups: devices get waiting tasks and their orders without delay."""

import itertools
import threading

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

from accounts.tests.threads import at_once
from tasks.dispatch import gateway
from tasks.models import Attempt, Task
from tasks.scheduling import assignment
from tasks.tests.make import make_user, make_waiting_task, make_worker
from webprofile.realtime.layer import send_to_groups
from workers.models import Worker
from workers.tests.make import connect_busy_agent
from workers.tokens import worker_group

TIMEOUT_S = 20


def dispatch_to(*workers: Worker) -> dict[int, list[str]]:
    """Assign waiting tasks to the workers; return the types of the orders for each worker."""
    assignment.assign_waiting([worker.pk for worker in workers])
    return {
        worker.pk: [reply.type for reply in gateway.desired_state(worker.pk)] for worker in workers
    }


def make_worker_with_task() -> Worker:
    worker = make_worker()
    make_waiting_task(make_user(f"no-{next(_numbers)}"), worker)
    return worker


_numbers = itertools.count()


@pytest.mark.django_db
def test_a_waiting_task_is_assigned_and_ordered():
    worker, idle = make_worker_with_task(), make_worker()
    assert dispatch_to(worker, idle) == {worker.pk: ["start"], idle.pk: []}
    assert Attempt.objects.get().worker == worker


@pytest.mark.production
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("model", [Task, Worker])
def test_locked_rows_do_not_block_other_devices(model):
    ready, *locked = at_once(lambda: [make_worker_with_task() for _ in range(31)])[0]
    is_locked, is_done = threading.Event(), threading.Event()

    def lock():
        with transaction.atomic():
            keys = [worker.pk for worker in locked]
            condition = {"worker__in": keys} if model is Task else {"pk__in": keys}
            assert len(model.objects.select_for_update(of=("self",)).filter(**condition)) == 30
            is_locked.set()
            assert is_done.wait(TIMEOUT_S)

    def dispatch():
        assert is_locked.wait(TIMEOUT_S)
        try:
            return dispatch_to(ready, *locked)
        finally:
            is_done.set()

    # `lock` fails after the timeout, so the dispatcher did not wait for the locks
    _, orders = at_once(lock, dispatch)
    assert orders == {ready.pk: ["start"]} | {worker.pk: [] for worker in locked}
    (orders,) = at_once(lambda: dispatch_to(*locked))
    assert orders == {worker.pk: ["start"] for worker in locked}


@pytest.mark.usefixtures("disconnect_sockets")
@pytest.mark.django_db(transaction=True)
async def test_a_second_wake_up_does_not_repeat_an_order_before_its_timeout(monkeypatch):
    agent, order = await connect_busy_agent()
    worker = await Worker.objects.aget()
    monkeypatch.setattr("tasks.dispatch.consumer._PATIENCE_S", 60)
    poke = {worker_group(worker.pk)}, {"type": "worker.poke"}
    await sync_to_async(send_to_groups)(*poke)
    assert await agent.socket.receive_nothing(0.5)
    # a frame may be lost with its process, so the order is repeated later
    monkeypatch.setattr("tasks.dispatch.consumer._PATIENCE_S", 0)
    await sync_to_async(send_to_groups)(*poke)
    assert (await agent.receive()).attempt == order.attempt
