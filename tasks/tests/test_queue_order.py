"""Tests of the fair-share order: tiers, shares, own priorities, and the limit of tasks per user."""

import datetime
import random
import re
from collections import Counter

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tasks.lifecycle.attempts import assign_attempt
from tasks.lifecycle.cancel import cancel_task
from tasks.models import Attempt, Purpose, Task
from tasks.scheduling import rebinding
from tasks.scheduling.assignment import assign_waiting
from tasks.scheduling.fair_share import Turn, UserQueue, count_before, next_turns
from tasks.scheduling.queue_status import queue_facts
from tasks.submission.creation import rerun_task
from tasks.tests.make import make_task, make_user, make_waiting_task, make_worker, stored_objects
from webprofile.errors import DomainError

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.database,
    pytest.mark.usefixtures("devices_stay_online"),
]

DAY = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def run_next(worker, *, duration_s: float = 10.0) -> Task:
    """Start the next task of a device and end it after `duration_s` of device time."""
    (attempt,) = assign_waiting([worker.pk])
    now = timezone.now()
    Attempt.objects.filter(pk=attempt.pk).update(
        created_at=now - datetime.timedelta(seconds=duration_s), ended_at=now
    )
    Task.objects.filter(pk=attempt.task_id).update(state="processing")
    return attempt.task


def test_user_with_more_device_time_in_the_last_hour_waits():
    worker = make_worker()
    alice, bob = make_user("alice"), make_user("bob")
    make_waiting_task(alice, worker)
    run_next(worker, duration_s=600)
    make_waiting_task(alice, worker)
    later = make_waiting_task(bob, worker)
    assert run_next(worker) == later


def test_device_time_older_than_an_hour_is_ignored():
    worker = make_worker()
    alice, bob = make_user("alice"), make_user("bob")
    make_waiting_task(alice, worker)
    run_next(worker, duration_s=600)
    Attempt.objects.update(ended_at=timezone.now() - datetime.timedelta(minutes=61))
    first = make_waiting_task(alice, worker)
    make_waiting_task(bob, worker)
    assert run_next(worker) == first


def test_priority_orders_only_tasks_of_the_same_user():
    worker = make_worker()
    alice, bob = make_user("alice"), make_user("bob")
    low = make_waiting_task(alice, worker, priority=-10)
    high = make_waiting_task(alice, worker, priority=10)
    first, second = (make_waiting_task(bob, worker, priority=10) for _ in range(2))
    order = [run_next(worker) for _ in range(4)]
    assert order == [high, first, low, second]


def test_administrator_priority_and_health_checks_precede_all_users():
    worker = make_worker()
    alice, root = make_user("alice"), make_user("root", is_staff=True)
    plain = make_waiting_task(alice, worker)
    late = make_waiting_task(root, worker, priority=-50)
    urgent = make_waiting_task(root, worker, priority=60)
    top = make_waiting_task(root, worker, priority=100)
    check = make_waiting_task(root, worker, purpose=Purpose.HEALTH)
    order = [run_next(worker) for _ in range(5)]
    assert order == [check, top, urgent, plain, late]


def test_two_free_slots_go_to_two_users():
    worker = make_worker(slots=2)
    alice, bob = make_user("alice"), make_user("bob")
    first = make_waiting_task(alice, worker)
    make_waiting_task(alice, worker)
    second = make_waiting_task(bob, worker)
    assert [attempt.task_id for attempt in assign_waiting([worker.pk])] == [first.pk, second.pk]


def test_held_device_starts_only_health_checks():
    worker = make_worker()
    owner = make_user()
    make_waiting_task(owner, worker)
    worker.held_at = timezone.now()
    worker.save()
    assert assign_waiting([worker.pk]) == []
    check = make_waiting_task(owner, worker, purpose=Purpose.HEALTH)
    assert [attempt.task_id for attempt in assign_waiting([worker.pk])] == [check.pk]


def test_user_without_a_grant_gets_no_slot():
    owner = make_user()
    worker = make_worker(is_public=False)
    worker.grants.create(user=owner)
    make_waiting_task(owner, worker)
    worker.grants.all().delete()
    assert assign_waiting([worker.pk]) == []


def test_task_that_cannot_be_assigned_does_not_block_others(monkeypatch):
    worker, other = make_worker(), make_worker()
    broken, second, elsewhere = (make_waiting_task(worker=w) for w in (worker, worker, other))

    def assign(task, *, slot):
        if task.pk == broken.pk:
            raise ValueError("an unexpected row")
        return assign_attempt(task, slot=slot)

    monkeypatch.setattr("tasks.scheduling.assignment.assign_attempt", assign)
    assert {attempt.task_id for attempt in assign_waiting()} == {second.pk, elsewhere.pk}


def test_shown_positions_equal_the_start_order():
    worker = make_worker()
    users = [make_user(name) for name in ("alice", "bob", "carol")]
    root = make_user("root", is_staff=True)
    generator = random.Random(4)
    for _ in range(14):
        make_waiting_task(generator.choice(users), worker, priority=generator.choice((-5, 0, 5)))
    make_waiting_task(root, worker, priority=50)
    waiting = list(Task.objects.filter(state="waiting"))
    positions = sorted((queue_facts(task, reader=root).position, task.pk) for task in waiting)
    assert [position for position, _ in positions] == list(range(1, 16))
    # 60 s is the default estimate of a duration
    order = [run_next(worker, duration_s=60.0).pk for _ in waiting]
    assert order == [pk for _, pk in positions]


groups = st.lists(
    st.tuples(
        st.sampled_from([100, 50, 0, -20]), st.integers(1, 4), st.integers(1, 4), st.integers(0, 3)
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda row: row[:2],
)


@hypothesis_settings(max_examples=150, deadline=None)
@given(groups, st.lists(st.sampled_from([0.0, 3.0, 10.0, 25.5]), min_size=4, max_size=4))
def test_count_before_equals_the_place_in_next_turns(rows, device_time_s):
    queues = [
        UserQueue(tier, owner, number, DAY + datetime.timedelta(hours=hour))
        for tier, owner, number, hour in rows
    ]
    used_s = {owner: device_time_s[owner - 1] for owner in range(1, 5)}
    counts: Counter[Turn] = Counter()
    for place, turn in enumerate(next_turns(queues, used_s, 10.0)):
        assert count_before(queues, used_s, 10.0, turn=turn, own=counts[turn]) == place
        counts[turn] += 1


# -- limits ---------------------------------------------------------------------------------------


def test_number_of_live_tasks_of_a_user_is_limited(settings):
    settings.TASKS_PER_USER = 2
    owner = make_user()
    first = make_task(owner)
    make_task(owner)
    with pytest.raises(DomainError) as caught:
        make_task(owner)
    assert (caught.value.code, caught.value.data) == ("quota_reached", {"live": 2, "limit": 2})
    cancel_task(first)
    make_task(owner)
    make_task(make_user("bob"))


def test_user_limit_overrides_the_setting_and_ignores_health_checks(settings):
    settings.TASKS_PER_USER = 1
    owner = make_user(task_limit=2)
    for _ in range(3):
        make_task(owner, purpose=Purpose.HEALTH)
    make_task(owner)
    make_task(owner)
    with pytest.raises(DomainError, match="quota_reached"):
        make_task(owner)
    with pytest.raises(DomainError, match="quota_reached"):
        make_task(make_user("bob", task_limit=0))


@pytest.mark.parametrize(("staff", "priority"), [(False, 11), (False, -11), (True, 101)])
def test_priority_out_of_range_is_rejected(staff, priority):
    with pytest.raises(DomainError, match="priority_bad"):
        make_task(make_user(is_staff=staff), priority=priority)


def test_owner_changes_the_priority_of_a_waiting_task(client):
    owner, worker = make_user(), make_worker()
    make_waiting_task(owner, worker)
    task = make_waiting_task(owner, worker)
    client.force_login(owner)
    for _ in range(2):  # a repetition has no effect
        assert client.post(f"/tasks/{task.pk}/priority/", {"priority": "5"}).status_code == 302
    assert task.events.filter(kind="task.prioritized").count() == 1
    assert [attempt.task_id for attempt in assign_waiting()] == [task.pk]
    assert client.post(f"/tasks/{task.pk}/priority/", {"priority": "6"}).status_code == 409
    for invalid in ("", "1.5", "x", "9" * 40, "100"):
        answer = client.post(f"/tasks/{task.pk}/priority/", {"priority": invalid})
        assert answer.status_code == 422
    client.force_login(make_user("bob"))
    assert client.post(f"/tasks/{task.pk}/priority/", {"priority": "5"}).status_code == 404


def test_copy_of_a_user_does_not_inherit_an_administrator_priority():
    owner = make_user()
    task = make_waiting_task(owner)
    task.files.update(stored_at=timezone.now())
    rebinding.prioritize_task(task, priority=80, by=make_user("root", is_staff=True))
    cancel_task(task)
    copy, _ = rerun_task(task, owner=owner)
    assert copy.priority == 10
    assert stored_objects(copy)


@pytest.mark.parametrize(
    ("priority", "offered"),
    [
        (0, {-5, 5}),
        (8, {3, 10}),
        (10, {5}),
        (-10, {-5}),
        # set by an administrator; the owner can return to the range of users
        (80, {10}),
        (-50, {-10}),
    ],
)
def test_task_page_offers_only_allowed_priorities(client, priority, offered):
    owner = make_user()
    task = make_waiting_task(owner)
    Task.objects.update(priority=priority)
    client.force_login(owner)
    page = client.get(f"/tasks/{task.pk}/").content.decode()
    values = re.findall(r'name="priority" value="(-?\d+)"', page)
    assert {int(number) for number in values} == offered
    for number in values:
        assert client.post(f"/tasks/{task.pk}/priority/", {"priority": number}).status_code == 302
    client.force_login(make_user("root", is_staff=True))
    Task.objects.update(priority=priority)
    page = client.get(f"/tasks/{task.pk}/").content.decode()
    assert 'name="priority" value="100"' in page
