"""One task that is submitted by two requests at the same moment."""

import pytest

from accounts.tests.threads import at_once
from tasks.models import Task, TaskEvent
from tasks.submitting import task_submit
from tasks.tests.make import make_task, stored


@pytest.mark.django_db(transaction=True)
def test_the_same_task_twice_at_once_is_submitted_once():
    task, files = at_once(lambda: (made := make_task(), stored(made)))[0]

    def submit():
        task_submit(Task.objects.get(pk=task.pk), files)

    at_once(submit, submit)

    def found():
        moves = list(TaskEvent.objects.values_list("task", "kind"))
        return moves, Task.objects.get().state, Task.objects.get().files.filter(stored_at=None)

    ((moves, state, missing),) = at_once(found)
    assert moves == [(task.pk, "task.waiting")]
    assert (state, list(missing)) == ("waiting", [])
