"""Tests of whole queues that the dispatcher runs to their end with a simulated clock."""

import datetime
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting, rebind_orphans
from tasks.scheduling.queue_status import facts_of
from tasks.tests.make import (
    make_task_for_any_device,
    make_user,
    make_waiting_task,
    make_worker,
    set_last_heartbeat,
)
from workers.models import Worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]

BEGIN = datetime.datetime(2026, 3, 1, 8, tzinfo=datetime.UTC)


@dataclass
class Play:
    """A site whose time goes on from one event to the next."""

    now: datetime.datetime = BEGIN
    #: moment and what happens then
    agenda: list = field(default_factory=list)
    #: how long each task holds its slot, s, by its id
    lasts_s: dict = field(default_factory=dict)
    #: attempts in the order in which they began
    begun: list = field(default_factory=list)

    def at(self, after_s: float, act) -> None:
        self.agenda.append((BEGIN + datetime.timedelta(seconds=after_s), act))

    def to_the_end(self) -> None:
        """Until nothing is left to happen."""
        while True:
            rebind_orphans()
            for attempt in assign_waiting():
                self.begun.append(attempt)
                length = datetime.timedelta(seconds=self.lasts_s.get(attempt.task_id, 10))
                self.agenda.append((self.now + length, lambda attempt=attempt: self._end(attempt)))
            if not self.agenda:
                return
            self.agenda.sort(key=lambda event: event[0])
            self.now, act = self.agenda.pop(0)
            set_last_heartbeat(self.now)
            act()

    def _end(self, attempt: Attempt) -> None:
        Attempt.objects.filter(pk=attempt.pk).update(ended_at=self.now)
        done = {"state": "finished", "outcome": "succeeded", "finished_at": self.now}
        Task.objects.filter(pk=attempt.task_id).update(**done)

    def send(self, *args, lasts_s: float, **kwargs) -> Task:
        """A task that waits from now on."""
        task = make_waiting_task(*args, **kwargs)
        self.lasts_s[task.pk] = lasts_s
        return task

    def began_s(self, task: Task) -> float:
        (attempt,) = (attempt for attempt in self.begun if attempt.task_id == task.pk)
        return (attempt.created_at - BEGIN).total_seconds()


@pytest.fixture
def play(monkeypatch) -> Play:
    play = Play()
    monkeypatch.setattr("django.utils.timezone.now", lambda: play.now)
    return play


def check_assignments() -> None:
    assert set(Task.objects.values_list("state", flat=True)) == {"finished"}
    assert set(Counter(Attempt.objects.values_list("task_id", flat=True)).values()) == {1}
    assert Attempt.objects.count() == Task.objects.count()
    places = Attempt.objects.order_by("worker_id", "slot", "created_at")
    for one, next_one in pairwise(places):
        if (one.worker_id, one.slot) == (next_one.worker_id, next_one.slot):
            assert one.ended_at <= next_one.created_at


def test_tasks_of_two_users_alternate(play):
    worker = make_worker()
    alice, bob = make_user("alice"), make_user("bob")
    own = {user.pk: [] for user in (alice, bob)}
    for user in (alice, bob):
        own[user.pk] = [make_waiting_task(user, worker).pk for _ in range(25)]
    play.to_the_end()
    check_assignments()
    owners = [attempt.task.owner_id for attempt in play.begun]
    for length in range(len(owners)):
        begun = Counter(owners[:length])
        assert abs(begun[alice.pk] - begun[bob.pk]) <= 1
    for pk, tasks in own.items():
        assert [attempt.task_id for attempt in play.begun if attempt.task.owner_id == pk] == tasks


def test_users_with_long_and_short_tasks_get_the_same_device_time(play):
    worker = make_worker(slots=2)
    slow, quick = make_user("slow"), make_user("quick")
    for _ in range(10):
        play.send(slow, worker, lasts_s=120)
    for _ in range(40):
        play.send(quick, worker, lasts_s=30)
    play.to_the_end()
    check_assignments()
    # both had 1200 s of work, so that neither is done long before the other
    held = {slow.pk: 0.0, quick.pk: 0.0}
    for attempt in play.begun:
        held[attempt.task.owner_id] += play.lasts_s[attempt.task_id]
        assert abs(held[slow.pk] - held[quick.pk]) <= 2 * 120 + 30


@pytest.mark.parametrize("seed", range(3))
def test_every_task_of_a_random_schedule_runs_once(play, seed):
    deal = random.Random(seed)
    users = [make_user(name) for name in ("alice", "bob", "carol")]
    make_worker("desk", labels={"chip": "A"}, slots=2)
    make_worker("shelf", labels={"chip": "A"})
    away_s, back_s = 200, 1500

    def send() -> None:
        user = deal.choice(users)
        lasts_s = deal.choice([1, 5, 20, 90])
        if deal.random() < 0.5:
            task = make_task_for_any_device(user, {"chip": "A"}, priority=deal.randint(-10, 10))
            play.lasts_s[task.pk] = lasts_s
        else:
            worker = Worker.objects.get(name=deal.choice(["desk", "shelf"]))
            play.send(user, worker, lasts_s=lasts_s)

    def switch(*, on: bool) -> None:
        Worker.objects.filter(name="shelf").update(is_enabled=on)

    for _ in range(40):
        play.at(deal.uniform(0, away_s - 1), send)
    play.at(away_s, lambda: switch(on=False))
    play.at(back_s, lambda: switch(on=True))
    play.to_the_end()
    check_assignments()
    # what any device may take did not wait for the one that was away
    for task in Task.objects.filter(target__isnull=False):
        assert play.began_s(task) < back_s


def test_user_with_much_device_time_is_not_starved_by_new_users(play):
    worker = make_worker()
    heavy = make_user("heavy")
    play.send(heavy, worker, lasts_s=3600)
    kept = make_waiting_task(heavy, worker)
    # the device is never free: each newcomer has a right to go first
    for number in range(40):
        user = make_user(f"new-{number}")

        def send(user=user) -> None:
            play.send(user, Worker.objects.get(), lasts_s=300)

        play.at(3500 + 300 * number, send)
    play.to_the_end()
    check_assignments()
    # what one used counts for an hour; then who has waited longest is the next
    assert 3600 + 1800 < play.began_s(kept) <= 3600 + 3600 + 300


def test_estimated_wait_equals_the_simulated_wait(play):
    worker = make_worker()
    alice, bob = make_user("alice"), make_user("bob")
    for _ in range(3):
        play.send(bob, worker, lasts_s=60)
    estimates = dict[int, tuple[int, float]]()

    def ask() -> None:
        here = Worker.objects.get()
        tasks = [play.send(user, here, lasts_s=60) for user in (bob, bob, alice, bob, alice)]
        for task in tasks:
            facts = facts_of(task, reader=alice)
            estimates[task.pk] = (facts.position, facts.wait.p50_s)

    # the fourth of bob's runs then, for 20 s of 60
    play.at(0, lambda: play.send(bob, Worker.objects.get(), lasts_s=60))
    play.at(200, ask)
    play.to_the_end()
    came = [attempt.task_id for attempt in play.begun][-5:]
    assert [estimates[pk][0] for pk in came] == [1, 2, 3, 4, 5]
    waits = [play.began_s(Task.objects.get(pk=pk)) - 200 for pk in came]
    assert [estimates[pk][1] for pk in came] == pytest.approx(waits, abs=0.1)
    assert waits == [40, 100, 160, 220, 280]
