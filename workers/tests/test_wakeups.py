"""Wake-ups: devices get waiting tasks and their orders without delay."""

import itertools
import threading
import time

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

from accounts.tests.threads import at_once
from tasks.dispatch import gateway
from tasks.models import Attempt, Task
from tasks.scheduling import assignment
from tasks.tests.make import make_user, make_waiting_task, make_worker
from webprofile.realtime.layer import tell
from workers.models import Worker
from workers.tests.make import connect_agent, enrol_device, submit_task_for
from workers.tokens import worker_group

PATIENCE_S = 20


def woken(*workers: Worker) -> dict[int, list[str]]:
    """Assign waiting tasks to the workers; return the types of the orders for each worker."""
    assignment.assign_waiting([worker.pk for worker in workers])
    return {
        worker.pk: [reply.type for reply in gateway.desired_state(worker.pk)] for worker in workers
    }


def with_a_task() -> Worker:
    worker = make_worker()
    make_waiting_task(make_user(f"no-{next(_numbers)}"), worker)
    return worker


_numbers = itertools.count()


@pytest.mark.django_db
def test_a_waiting_task_is_assigned_and_ordered():
    worker, idle = with_a_task(), make_worker()
    assert woken(worker, idle) == {worker.pk: ["start"], idle.pk: []}
    assert Attempt.objects.get().worker == worker


@pytest.mark.production
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("model", [Task, Worker])
def test_locked_rows_do_not_block_other_devices(model):
    ready, *locked = at_once(lambda: [with_a_task() for _ in range(31)])[0]
    is_held, over = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            keys = [worker.pk for worker in locked]
            those = {"worker__in": keys} if model is Task else {"pk__in": keys}
            assert len(model.objects.select_for_update(of=("self",)).filter(**those)) == 30
            is_held.set()
            assert over.wait(PATIENCE_S)

    def wake():
        assert is_held.wait(PATIENCE_S)
        begin = time.monotonic()
        try:
            return woken(ready, *locked), time.monotonic() - begin
        finally:
            over.set()

    _, (orders, lasted_s) = at_once(hold, wake)
    assert orders == {ready.pk: ["start"]} | {worker.pk: [] for worker in locked}
    assert lasted_s < PATIENCE_S / 2  # not a moment for each
    (orders,) = at_once(lambda: woken(*locked))
    assert orders == {worker.pk: ["start"] for worker in locked}


@pytest.mark.django_db(transaction=True)
async def test_a_connected_device_gets_a_new_task_without_the_sweep():
    worker, token = await enrol_device()
    agent = await connect_agent(token)
    task = await submit_task_for(worker)
    start = await agent.receive()
    attempt = await Attempt.objects.aget(task=task)
    assert (start.type, start.attempt) == ("start", attempt.pk)
    await agent.socket.disconnect()


@pytest.mark.django_db(transaction=True)
async def test_a_second_wake_up_does_not_repeat_an_order_before_its_timeout(monkeypatch):
    worker, token = await enrol_device()
    agent = await connect_agent(token)
    await submit_task_for(worker)
    order = await agent.receive()
    monkeypatch.setattr("tasks.dispatch.consumer._PATIENCE_S", 60)
    poke = {worker_group(worker.pk)}, {"type": "worker.poke"}
    await sync_to_async(tell)(*poke)
    assert await agent.socket.receive_nothing(0.5)
    # a frame may be lost with a process that dies: later it is said again
    monkeypatch.setattr("tasks.dispatch.consumer._PATIENCE_S", 0)
    await sync_to_async(tell)(*poke)
    assert (await agent.receive()).attempt == order.attempt
    await agent.socket.disconnect()
