"""Tests of requests of users while an attempt ends, on a database with row locks."""

import threading
from unittest import mock

import pytest
from django.db import connection

from agent.protocol.messages import EndReason
from tasks.lifecycle import attempts, reports
from tasks.lifecycle.cancel import cancel_task, end_early
from tasks.models import Attempt, Task
from tasks.tests.make import (
    accept_attempt,
    finished_report,
    make_attempt,
    make_waiting_task,
    make_worker,
    receive_report,
)
from webprofile.errors import DomainError

pytestmark = [pytest.mark.production, pytest.mark.django_db(transaction=True)]


class RequestInThread(threading.Thread):
    """A concurrent request, which may wait for the lock of the task's row."""

    def __init__(self, task: Task, request) -> None:
        super().__init__()
        self.row = Task.objects.get(pk=task.pk)
        self.request = request
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.request(self.row)
        except Exception as error:
            self.error = error
        finally:
            connection.close()


def request_before(place, name: str, end, request=cancel_task) -> tuple[Task, Exception | None]:
    """Send a request for a running task just before `end` calls the function `name` of `place`.

    Returns the task after both, and the error of the request.
    """
    worker = make_worker(facts={"features": ["enough"]})
    attempt = make_attempt(make_waiting_task(worker=worker))
    accept_attempt(attempt)
    Task.objects.filter(pk=attempt.task_id).update(state="running")
    Attempt.objects.filter(pk=attempt.pk).update(passes_done=1)
    thread = RequestInThread(attempt.task, request)
    inner = getattr(place, name)

    def send_first(*args, **kwargs):
        if not thread.is_alive() and not thread.ident:
            thread.start()
            thread.join(0.5)
        return inner(*args, **kwargs)

    with mock.patch.object(place, name, send_first):
        end(attempt)
    thread.join()
    return Task.objects.get(pk=attempt.task_id), thread.error


def lose(attempt: Attempt) -> None:
    assert attempts.lose_attempt(attempt, reason="lease_expired")


@pytest.mark.parametrize(
    ("reason", "state"),
    [(EndReason.EXITED, "processing"), (EndReason.TIMED_OUT, "finished")],
    ids=["run ended", "run was stopped"],
)
def test_cancel_during_the_final_report_does_not_block_it(reason, state):
    def end(attempt):
        assert receive_report(attempt, finished_report(attempt, reason))

    task, error = request_before(reports, "_store_checksums", end)
    assert (task.state, error) == (state, None)


def test_cancel_while_the_task_is_requeued_takes_effect():
    task, _ = request_before(attempts, "continue_task", lose)
    assert (task.state, task.outcome) == ("finished", "cancelled")


def test_a_request_for_an_early_end_while_the_attempt_is_lost_is_refused():
    task, error = request_before(Attempt, "refresh_from_db", lose, end_early)
    assert task.state == "waiting"
    assert isinstance(error, DomainError)
    assert error.code == "enough_nothing"
