"""Tests of the fair share in whole queues with a simulated clock."""

import datetime
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting, rebind_orphans
from tasks.scheduling.queue_status import queue_facts
from tasks.tests.make import (
    make_copies,
    make_task_for_any_device,
    make_user,
    make_waiting_task,
    make_worker,
)
from workers.models import Worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]

BEGIN = datetime.datetime(2026, 3, 1, 8, tzinfo=datetime.UTC)


@dataclass
class Simulation:
    """A site with a simulated clock, which advances from one event to the next."""

    now: datetime.datetime = BEGIN
    #: time and function of each future event
    events: list = field(default_factory=list)
    #: duration of the attempt of a task, s, by task id
    durations_s: dict = field(default_factory=dict)
    #: attempts in the order of their start
    attempts: list = field(default_factory=list)
    #: called after each event, before tasks are assigned
    sweep: Callable[[], object] = lambda: None

    def schedule(self, after_s: float, function) -> None:
        self.events.append((BEGIN + datetime.timedelta(seconds=after_s), function))

    def run(self) -> None:
        """Run until no event is left."""
        while True:
            self.sweep()
            for attempt in assign_waiting():
                self.attempts.append(attempt)
                length = datetime.timedelta(seconds=self.durations_s.get(attempt.task_id, 10))
                self.events.append((self.now + length, lambda attempt=attempt: self._end(attempt)))
            if not self.events:
                return
            self.events.sort(key=lambda event: event[0])
            self.now, function = self.events.pop(0)
            function()

    def _end(self, attempt: Attempt) -> None:
        Attempt.objects.filter(pk=attempt.pk).update(ended_at=self.now)
        columns = {"state": "finished", "outcome": "succeeded", "finished_at": self.now}
        Task.objects.filter(pk=attempt.task_id).update(**columns)

    def submit(self, *args, duration_s: float, count: int = 1) -> Task:
        """Create equal tasks that wait from now on; return the first."""
        task = make_waiting_task(*args)
        for each in (task, *make_copies(task, count - 1)):
            self.durations_s[each.pk] = duration_s
        return task

    def start_s(self, task: Task) -> float:
        (attempt,) = (attempt for attempt in self.attempts if attempt.task_id == task.pk)
        return (attempt.created_at - BEGIN).total_seconds()


@pytest.fixture
def simulation(monkeypatch, settings) -> Simulation:
    simulation = Simulation()
    settings.HEARTBEAT_S = 86_400  # devices stay online
    monkeypatch.setattr("django.utils.timezone.now", lambda: simulation.now)
    return simulation


def check_assignments() -> None:
    """Check that each task had one attempt, and each slot one task at a time."""
    assert set(Task.objects.values_list("state", flat=True)) == {"finished"}
    assert set(Counter(Attempt.objects.values_list("task_id", flat=True)).values()) == {1}
    assert Attempt.objects.count() == Task.objects.count()
    attempts = Attempt.objects.order_by("worker_id", "slot", "created_at")
    for first, second in pairwise(attempts):
        if (first.worker_id, first.slot) == (second.worker_id, second.slot):
            assert first.ended_at <= second.created_at


@pytest.mark.exhaustive
def test_tasks_of_two_users_alternate(simulation):
    worker = make_worker()
    alice, bob = make_user("alice"), make_user("bob")
    tasks = {}
    for user in (alice, bob):
        first = make_waiting_task(user, worker)
        tasks[user.pk] = [task.pk for task in (first, *make_copies(first, 9))]
    simulation.run()
    check_assignments()
    owners = [attempt.task.owner_id for attempt in simulation.attempts]
    for length in range(len(owners)):
        starts = Counter(owners[:length])
        assert abs(starts[alice.pk] - starts[bob.pk]) <= 1
    for pk, own in tasks.items():
        attempts = [attempt for attempt in simulation.attempts if attempt.task.owner_id == pk]
        assert [attempt.task_id for attempt in attempts] == own


def test_users_with_long_and_short_tasks_get_the_same_device_time(simulation):
    worker = make_worker(slots=2)
    slow, quick = make_user("slow"), make_user("quick")
    simulation.submit(slow, worker, duration_s=120, count=10)
    simulation.submit(quick, worker, duration_s=30, count=40)
    simulation.run()
    check_assignments()
    # both have 1200 s of work, so neither ends long before the other
    used_s = {slow.pk: 0.0, quick.pk: 0.0}
    for attempt in simulation.attempts:
        used_s[attempt.task.owner_id] += simulation.durations_s[attempt.task_id]
        assert abs(used_s[slow.pk] - used_s[quick.pk]) <= 2 * 120 + 30


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
def test_every_task_of_a_random_schedule_runs_once(simulation, seed):
    generator = random.Random(seed)
    users = [make_user(name) for name in ("alice", "bob", "carol")]
    make_worker("desk", labels={"chip": "A"}, slots=2)
    make_worker("shelf", labels={"chip": "A"})
    drained_s, resumed_s = 120, 1500
    simulation.sweep = rebind_orphans

    def submit() -> None:
        user = generator.choice(users)
        duration_s = generator.choice([1, 5, 20, 90])
        if generator.random() < 0.5:
            priority = generator.randint(-10, 10)
            task = make_task_for_any_device(user, {"chip": "A"}, priority=priority)
            simulation.durations_s[task.pk] = duration_s
        else:
            worker = Worker.objects.get(name=generator.choice(["desk", "shelf"]))
            simulation.submit(user, worker, duration_s=duration_s)

    def enable(*, is_enabled: bool) -> None:
        Worker.objects.filter(name="shelf").update(is_enabled=is_enabled)

    for _ in range(24):
        simulation.schedule(generator.uniform(0, drained_s - 1), submit)
    simulation.schedule(drained_s, lambda: enable(is_enabled=False))
    simulation.schedule(resumed_s, lambda: enable(is_enabled=True))
    simulation.run()
    check_assignments()
    # tasks for any device do not wait for the drained one
    for task in Task.objects.filter(target__isnull=False):
        assert simulation.start_s(task) < resumed_s


@pytest.mark.exhaustive
def test_user_with_much_device_time_is_not_starved_by_new_users(simulation):
    worker = make_worker()
    heavy = make_user("heavy")
    simulation.submit(heavy, worker, duration_s=3600)
    second = make_waiting_task(heavy, worker)
    # the device is not free before 9000 s, and each new user goes first
    for number in range(20):
        user = make_user(f"new-{number}")

        def submit(user=user) -> None:
            simulation.submit(user, Worker.objects.get(), duration_s=300)

        simulation.schedule(3500 + 300 * number, submit)
    simulation.run()
    check_assignments()
    # device time counts for an hour; after that, the user who has waited longest is next
    assert 3600 + 1800 < simulation.start_s(second) <= 3600 + 3600 + 300


def test_estimated_wait_equals_the_simulated_wait(simulation):
    worker = make_worker()
    alice, bob = make_user("alice"), make_user("bob")
    simulation.submit(bob, worker, duration_s=60, count=3)
    estimates = dict[int, tuple[int, float]]()

    def estimate() -> None:
        worker = Worker.objects.get()
        for user in (bob, bob, alice, bob, alice):
            simulation.submit(user, worker, duration_s=60)
        for task in Task.objects.filter(state="waiting"):
            facts = queue_facts(task, reader=alice)
            estimates[task.pk] = (facts.position, facts.wait.p50_s)

    # at 200 s the fourth task of bob has run for 20 s of 60
    simulation.schedule(0, lambda: simulation.submit(bob, Worker.objects.get(), duration_s=60))
    simulation.schedule(200, estimate)
    simulation.run()
    order = [attempt.task_id for attempt in simulation.attempts][-5:]
    assert [estimates[pk][0] for pk in order] == [1, 2, 3, 4, 5]
    waits = [simulation.start_s(Task.objects.get(pk=pk)) - 200 for pk in order]
    assert [estimates[pk][1] for pk in order] == pytest.approx(waits, abs=0.1)
    assert waits == [40, 100, 160, 220, 280]
