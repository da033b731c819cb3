"""Tests of a cancel at the same time as the end of an attempt, on a database with row locks."""

import threading
from unittest import mock

import pytest
from django.db import connection

from agent.protocol import AttemptFinished, EndReason
from tasks.lifecycle import attempts, reports
from tasks.lifecycle.cancel import cancel_task
from tasks.models import Task
from tasks.tests.make import accept_attempt, make_attempt, receive_report

pytestmark = [pytest.mark.production, pytest.mark.django_db(transaction=True)]


class CancelInThread(threading.Thread):
    """Somebody else's request; it may have to wait until the end is written."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.row = Task.objects.get(pk=task.pk)

    def run(self) -> None:
        try:
            cancel_task(self.row)
        finally:
            connection.close()


def ended_meanwhile(module, name: str, end) -> Task:
    """Cancel a running task just before the inner step `name` of what ends its attempt."""
    attempt = make_attempt()
    accept_attempt(attempt)
    Task.objects.filter(pk=attempt.task_id).update(state="running")
    cancel = CancelInThread(attempt.task)
    inner = getattr(module, name)

    def between(*args, **kwargs):
        if not cancel.is_alive() and not cancel.ident:
            cancel.start()
            cancel.join(0.5)
        return inner(*args, **kwargs)

    with mock.patch.object(module, name, between):
        end(attempt)
    cancel.join()
    return Task.objects.get(pk=attempt.task_id)


@pytest.mark.parametrize(
    ("exit_code", "ends"), [(0, {"processing"}), (1, {"finished"})], ids=["good", "bad"]
)
def test_task_cancelled_while_its_attempt_ends_reaches_an_end(exit_code, ends):
    def end(attempt):
        report = AttemptFinished(
            attempt=attempt.pk, at=0, reason=EndReason.EXITED, exit_code=exit_code
        )
        assert receive_report(attempt, report)

    assert ended_meanwhile(reports, "_store_checksums", end).state in ends


def test_task_cancelled_while_it_is_requeued_ends_as_cancelled():
    task = ended_meanwhile(
        attempts,
        "continue_task",
        lambda attempt: attempts.lose_attempt(attempt, reason="lease_expired"),
    )
    assert (task.state, task.outcome) == ("finished", "cancelled")
