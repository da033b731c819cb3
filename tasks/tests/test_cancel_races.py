"""Tests of a cancel at the same time as the end of an attempt, on a database with row locks."""

import threading
from unittest import mock

import pytest
from django.db import connection

from agent.protocol.messages import EndReason
from tasks.lifecycle import attempts, reports
from tasks.lifecycle.cancel import cancel_task
from tasks.models import Task
from tasks.tests.make import accept_attempt, finished_report, make_attempt, receive_report

pytestmark = [pytest.mark.production, pytest.mark.django_db(transaction=True)]


class CancelInThread(threading.Thread):
    """A concurrent request, which may wait for the lock of the task's row."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.row = Task.objects.get(pk=task.pk)

    def run(self) -> None:
        try:
            cancel_task(self.row)
        finally:
            connection.close()


def cancel_before(module, name: str, end) -> Task:
    """Cancel a running task just before `end` calls the function `name` of `module`."""
    attempt = make_attempt()
    accept_attempt(attempt)
    Task.objects.filter(pk=attempt.task_id).update(state="running")
    cancel = CancelInThread(attempt.task)
    inner = getattr(module, name)

    def cancel_first(*args, **kwargs):
        if not cancel.is_alive() and not cancel.ident:
            cancel.start()
            cancel.join(0.5)
        return inner(*args, **kwargs)

    with mock.patch.object(module, name, cancel_first):
        end(attempt)
    cancel.join()
    return Task.objects.get(pk=attempt.task_id)


@pytest.mark.parametrize(
    ("reason", "state"),
    [(EndReason.EXITED, "processing"), (EndReason.TIMED_OUT, "finished")],
    ids=["run ended", "run was stopped"],
)
def test_cancel_during_the_final_report_does_not_block_it(reason, state):
    def end(attempt):
        assert receive_report(attempt, finished_report(attempt, reason))

    assert cancel_before(reports, "_store_checksums", end).state == state


def test_cancel_while_the_task_is_requeued_takes_effect():
    task = cancel_before(
        attempts,
        "continue_task",
        lambda attempt: attempts.lose_attempt(attempt, reason="lease_expired"),
    )
    assert (task.state, task.outcome) == ("finished", "cancelled")
