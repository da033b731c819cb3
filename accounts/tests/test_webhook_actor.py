"""Webhook calls do not block other actors, with Dramatiq's own threads."""

import threading
import time

import dramatiq
import pytest

from accounts import actors
from webprofile.actors import answer_doctor


@pytest.fixture
def two_threads():
    """A Dramatiq worker with two threads, as the site starts it."""
    worker = dramatiq.Worker(dramatiq.get_broker(), worker_timeout=50, worker_threads=2)
    worker.start()
    yield worker
    worker.stop()
    dramatiq.get_broker().flush_all()


def test_slow_receivers_leave_a_thread_free_and_are_all_called(monkeypatch, two_threads):
    due, called = [1, 2, 3, 4], []
    all_called, respond, answered = threading.Event(), threading.Event(), threading.Event()

    def call(pk):
        respond.wait(60)
        if pk in due:
            due.remove(pk)
            called.append(pk)
        if not due:
            all_called.set()

    monkeypatch.setattr(actors, "try_delivery", call)
    monkeypatch.setattr(actors, "next_delivery", lambda: due[0] if due else None)
    monkeypatch.setattr(answer_doctor, "fn", lambda mark: answered.set())
    for pk in list(due):
        actors.deliver_webhook.send(pk)
    waiting = dramatiq.get_broker().queues["webhooks"]
    deadline = time.monotonic() + 60
    while waiting.unfinished_tasks > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    answer_doctor.send("x")
    assert answered.wait(30), "both threads wait for receivers"
    assert called == []
    respond.set()
    assert all_called.wait(60)
    assert sorted(called) == [1, 2, 3, 4]
