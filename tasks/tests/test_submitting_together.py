"""Tasks that several users submit at the same moment."""

import itertools
import threading
import time

import pytest
from django.db import OperationalError, connection, transaction

from accounts.tests.threads import at_once
from tasks import submitting
from tasks.asking.request import TaskRequest
from tasks.models import Task, TaskEvent
from tasks.queue.scheduling import assign_waiting
from tasks.queue.targets import Target
from tasks.services import task_create
from tasks.states import TaskState
from tasks.submitting import Arrived, task_submit, tasks_submit
from tasks.tests.make import (
    data_file,
    make_task,
    make_user,
    make_waiting_task,
    make_worker,
    model_file,
    stored,
)
from webprofile.errors import DomainError

PATIENCE_S = 20


class Gate:
    """Holds the first round until others wait for the next one."""

    def __init__(self, monkeypatch) -> None:
        self.rounds: list[list[int]] = []
        self._act = submitting._submit_together
        monkeypatch.setattr(submitting._rounds, "_act", self._round)
        monkeypatch.setattr(submitting._rounds, "_patience_s", 3 * PATIENCE_S)
        self._others = threading.Event()

    def _round(self, arrived):
        self.rounds.append([each.task.pk for each in arrived])
        if len(self.rounds) == 1:
            assert self._others.wait(PATIENCE_S)
        return self._act(arrived)

    def submit(self, *tasks, without_files=()) -> list[object]:
        """All at once; what each of them is told, "" if it goes."""

        def one(task):
            try:
                task_submit(task, {} if task in without_files else stored(task))
            except DomainError as error:
                return error.code
            return ""

        def let_go():
            deadline = time.monotonic() + PATIENCE_S
            while len(submitting._rounds._waiting) < len(tasks) - 1:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            self._others.set()

        return at_once(*(lambda task=task: one(task) for task in tasks), let_go)[:-1]


@pytest.fixture
def gate(transactional_db, monkeypatch) -> Gate:
    return Gate(monkeypatch)


def make(number: int) -> list[Task]:
    """Tasks of a user and for a device each, files uploaded."""
    names = [f"no-{next(_numbers)}" for _ in range(number)]
    return [make_task(make_user(name), make_worker(name)) for name in names]


_numbers = itertools.count()


def read_again(tasks) -> list[Task]:
    rows = Task.objects.prefetch_related("files").in_bulk([task.pk for task in tasks])
    return [rows[task.pk] for task in tasks]


def test_all_wait_for_their_devices_after_two_rounds(gate):
    tasks = at_once(lambda: make(5))[0]
    assert gate.submit(*tasks) == [""] * 5
    first, others = gate.rounds
    assert len(first) == 1
    assert sorted(first + others) == [task.pk for task in tasks]

    def found():
        return {(each.task_id, each.worker_id) for each in assign_waiting()}

    assert at_once(found) == [{(task.pk, task.worker_id) for task in tasks}]


def test_one_that_is_refused_holds_no_other_up(gate):
    tasks = at_once(lambda: make(4))[0]
    refused = ["", "", "upload_missing", ""]
    assert gate.submit(*tasks, without_files=[tasks[2]]) == refused


def test_the_same_task_twice_at_once_is_submitted_once(gate):
    tasks = at_once(lambda: make(2))[0]
    again = at_once(lambda: read_again(tasks))[0]
    assert gate.submit(tasks[0], tasks[1], again[1], again[0]) == [""] * 4

    def moves():
        return sorted(TaskEvent.objects.values_list("task", "kind"))

    assert at_once(moves) == [[(task.pk, "task.waiting") for task in tasks]]


@pytest.mark.production
def test_a_task_that_somebody_has_locked_keeps_only_its_own_user_waiting(gate):
    tasks = at_once(lambda: make(3))[0]
    locked, over = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            Task.objects.select_for_update().get(pk=tasks[1].pk)
            locked.set()
            assert over.wait(PATIENCE_S)

    def submit():
        assert locked.wait(PATIENCE_S)
        gate._others.set()
        arrived = [Arrived(task, stored(task)) for task in tasks]
        # as the round leaves it: without the one that is locked
        held = submitting._submit_together(arrived)
        states = dict(Task.objects.values_list("pk", "state"))
        over.set()
        return held, states, tasks_submit(arrived)

    (_, (held, states, refused)) = at_once(hold, submit)
    assert held == {0: None, 2: None}
    assert states[tasks[1].pk] == TaskState.INITIATED
    assert refused == {}
    assert at_once(lambda: Task.objects.get(pk=tasks[1].pk).state) == [TaskState.WAITING]


@pytest.mark.django_db(transaction=True)
def test_a_round_that_is_undone_leaves_nothing_behind(transactional_db, monkeypatch):
    """Not the device that it chose, either: that is chosen anew, from what is true then."""
    act = submitting._submit_together

    def undone(arrived):
        with transaction.atomic():
            act(arrived)
            raise OperationalError("found a circle of locks")

    monkeypatch.setattr(submitting._rounds, "_act", undone)

    def submit():
        alice = make_user("alice")
        first, other = make_worker("first"), make_worker("other")
        wanted = TaskRequest(target=Target({}, "", ""), files=(model_file(), data_file()))
        task = task_create(owner=alice, request=wanted)
        assert task.worker == first
        make_waiting_task(make_user("bob"), first)
        task_submit(task, stored(task))
        task.refresh_from_db()
        assert task.worker == other
        assert task.state == TaskState.WAITING
        return [event.kind for event in task.events.order_by("seq")]

    # it was sent there, and not fetched from a device that is busy
    assert at_once(submit) == [["task.waiting"]]


@pytest.mark.django_db
def test_several_of_one_request_take_as_many_queries_as_two(django_assert_max_num_queries):
    assert connection.in_atomic_block
    numbers = []
    for tasks in (make(2), make(10)):
        arrived = [Arrived(task, stored(task)) for task in read_again(tasks)]
        with django_assert_max_num_queries(12) as captured:
            assert tasks_submit(arrived) == {}
        numbers.append(len(captured))
    assert numbers[0] == numbers[1]
