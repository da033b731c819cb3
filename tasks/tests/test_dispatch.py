"""Tests of the dispatch actor: assignments, messages that call it, and batching."""

import dramatiq
import pytest
from dramatiq.errors import ConnectionClosed
from dramatiq.middleware import TimeLimitExceeded

from agent.protocol.messages import Hello
from tasks import actors
from tasks.actors import DispatchBatch, dispatch
from tasks.dispatch import gateway
from tasks.lifecycle.sweep import sweep
from tasks.models import Attempt, Task
from tasks.submission.uploads import submit_task
from tasks.tests.make import (
    FACTS,
    finished_report,
    make_attempt,
    make_task,
    make_user,
    make_waiting_task,
    make_worker,
    receive_report,
    started_report,
    stored_objects,
)
from webprofile import background
from workers.models import Worker

QUEUE = "dispatch"


@pytest.fixture(autouse=True)
def broker():
    broker = dramatiq.get_broker()
    broker.flush_all()
    yield broker
    broker.flush_all()


def take_dispatched_devices(broker) -> list[int]:
    """Remove the messages for the dispatcher from the queue; return the devices that they name."""
    devices, queue = [], broker.queues[QUEUE]
    while not queue.empty():
        message = dramatiq.Message.decode(queue.get_nowait())
        queue.task_done()
        assert message.actor_name == "dispatch"
        devices += message.args[0]
    return devices


@pytest.mark.django_db
def test_dispatch_assigns_a_task_and_wakes_the_device_once(
    django_capture_on_commit_callbacks, monkeypatch
):
    messages = []
    monkeypatch.setattr(
        "tasks.lifecycle.wakeups._send", lambda groups, kind: messages.append((kind, groups))
    )
    worker = make_worker()
    task = make_waiting_task(make_user(), worker)
    with django_capture_on_commit_callbacks(execute=True):
        dispatch([worker.pk])
        dispatch([worker.pk])
    assert Attempt.objects.get().task == task
    assert messages[0] == ("worker.poke", {f"worker.{worker.pk}"})
    assert [kind for kind, _ in messages].count("worker.poke") == 1


@pytest.mark.django_db(transaction=True)
def test_submission_freed_slot_and_hello_enqueue_dispatch(broker):
    worker = make_worker()
    task = make_waiting_task(make_user(), worker)
    assert take_dispatched_devices(broker) == [worker.pk]
    attempt = make_attempt(task)
    receive_report(attempt, started_report(attempt))
    assert take_dispatched_devices(broker) == []
    receive_report(attempt, finished_report(attempt, exit_code=1))
    assert take_dispatched_devices(broker) == [worker.pk]
    gateway.handle(worker, Hello(agent_version="1", facts=FACTS, runtimes=()))
    assert take_dispatched_devices(broker) == [worker.pk]


@pytest.mark.django_db
def test_submission_enqueues_dispatch_before_it_notifies_pages(
    django_capture_on_commit_callbacks, monkeypatch
):
    messages = []
    monkeypatch.setattr("tasks.lifecycle.wakeups._send", lambda groups, kind: messages.append(kind))
    monkeypatch.setattr(dispatch.broker, "enqueue", lambda message: messages.append(*message.args))
    with django_capture_on_commit_callbacks(execute=True):
        task = make_task()
    with django_capture_on_commit_callbacks(execute=True):
        submit_task(task, stored_objects(task))
    assert messages == ["task.changed", [task.worker_id], "task.changed"]


@pytest.mark.django_db(transaction=True)
def test_submission_survives_an_unreachable_broker_and_the_sweep_enqueues_again(
    monkeypatch, broker
):
    def fail(*_, **__):
        raise ConnectionClosed("unreachable")

    with monkeypatch.context() as patch:
        patch.setattr(dispatch.broker, "enqueue", fail)
        patch.setattr(background, "sender", background.Sender())
        task = make_waiting_task(make_user(), make_worker())
        sweep()
    assert Task.objects.get().state == "waiting"
    assert take_dispatched_devices(broker) == []
    sweep()
    assert take_dispatched_devices(broker) == [task.worker_id]


def test_silent_broker_blocks_one_sender_at_a_time(monkeypatch):
    now, sent = 100.0, []
    monkeypatch.setattr(background.time, "monotonic", lambda: now)
    sender = background.Sender()

    def fail() -> None:
        sender.send("dispatch", lambda: sent.append("during another send"))
        raise ConnectionClosed("no answer")

    with pytest.raises(ConnectionClosed):
        sender.send("dispatch", fail)
    assert sent.pop()  # before the first failure, sends are concurrent
    for _ in range(2):
        sender.send("dispatch", lambda: sent.append("during the pause"))
        now += background.REST_S
        with pytest.raises(ConnectionClosed):
            sender.send("dispatch", fail)
    assert sent == []
    now += background.REST_S
    for _ in range(2):
        sender.send("dispatch", lambda: sent.append("after the recovery"))
    assert sent == ["after the recovery"] * 2


@pytest.fixture
def batch(monkeypatch) -> DispatchBatch:
    """Return a batch in which messages are joined: a call was just handled."""
    monkeypatch.setattr(actors, "JOIN_S", 60.0)
    batch = DispatchBatch()
    assert batch.take([1]) == {1}
    return batch


def test_batch_joins_concurrent_messages(batch, monkeypatch):
    joined = []

    def take_more(_s: float) -> None:
        joined.extend(batch.take([number, 7]) for number in (3, 4, 5))

    with monkeypatch.context() as patch:
        patch.setattr(actors.time, "sleep", take_more)
        assert batch.take([2]) == {2, 3, 4, 5, 7}
    assert joined == [set(), set(), set()]
    monkeypatch.setattr(actors.time, "sleep", lambda _s: None)
    assert batch.take([8]) == {8}


def test_batch_takes_over_devices_of_an_aborted_thread(batch, monkeypatch):
    def exceed_time_limit(_s: float) -> None:
        raise TimeLimitExceeded

    with monkeypatch.context() as patch, pytest.raises(TimeLimitExceeded):
        patch.setattr(actors.time, "sleep", exceed_time_limit)
        batch.take([2])
    monkeypatch.setattr(actors, "GIVEN_UP_S", -2 * actors.JOIN_S)
    monkeypatch.setattr(actors.time, "sleep", lambda _s: None)
    assert batch.take([3]) == {2, 3}


def test_batch_of_a_single_message_does_not_wait(monkeypatch):
    monkeypatch.setattr(actors.time, "sleep", lambda _s: pytest.fail("the batch waits"))
    assert DispatchBatch().take([1]) == {1}


@pytest.mark.django_db
def test_an_attempt_records_the_environment_of_its_device():
    worker = make_worker(agent_version="1.2", facts={"platform": "Linux-6.1", "cores": 8})
    attempt = make_attempt(make_waiting_task(worker=worker))
    expected = {"agent": "1.2", "platform": "Linux-6.1", "cpu_model": None, "driver": None}
    assert attempt.environment == expected
    Worker.objects.update(agent_version="1.3")
    assert Attempt.objects.get(pk=attempt.pk).environment == expected
