"""Tests of moving waiting tasks to another device, by the dispatcher and by their owner."""

import datetime

import pytest
from django.utils import timezone
from django.utils.html import escape

from tasks.lifecycle.cancel import cancel_task
from tasks.lifecycle.sweep import sweep
from tasks.lifecycle.transitions import transition_if
from tasks.models import Attempt, Task
from tasks.scheduling import assignment, rebinding
from tasks.scheduling.assignment import assign_waiting, rebind_orphans
from tasks.tests.make import (
    change_worker,
    finished_report,
    go_offline,
    make_task_for_any_device,
    make_user,
    make_waiting_task,
    make_worker,
    occupy,
    receive_report,
)
from workers.models import Grant, Runtime, Worker
from workers.services import retire_worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]

LONG_AGO = timezone.now() - datetime.timedelta(days=1)


def test_task_moves_to_the_matching_device_with_the_first_free_slot(alice):
    here, there = make_worker("here"), make_worker("there", version="1.12.4")
    for worker in (here, there):
        occupy(worker, alice)
    task = make_task_for_any_device(alice)
    before = task.worker
    other = there if before == here else here
    Attempt.objects.filter(worker=other).update(ended_at=timezone.now())
    assert [attempt.task_id for attempt in assign_waiting([other.pk])] == [task.pk]
    task.refresh_from_db()
    assert task.worker == other
    assert task.runtime_version == other.runtimes.get().version
    moved = task.events.get(kind="task.moved")
    assert (moved.data["from"], moved.data["to"]) == (before.name, other.name)
    assert moved.data["because"] == "slot_free"


def test_free_slot_without_waiting_tasks_takes_one_query(alice, django_assert_num_queries):
    here = make_worker("here")
    occupy(here, alice)
    attempt = Attempt.objects.get()
    assert receive_report(attempt, finished_report(attempt, exit_code=1))
    with django_assert_num_queries(1):
        assert assign_waiting([here.pk]) == []


def test_task_for_a_named_device_does_not_move(alice):
    here, there = make_worker("here"), make_worker("there")
    occupy(here, alice)
    task = make_waiting_task(alice, here)
    assert assign_waiting([there.pk]) == []
    task.refresh_from_db()
    assert task.worker == here


def test_device_takes_over_only_suitable_tasks_of_its_users(alice):
    here = make_worker("here", labels={"chip": "A"})
    Runtime.objects.filter(worker=here).update(kind="binary", builds=["cuda"])
    occupy(here, alice)
    make_task_for_any_device(alice, {"chip": "A"})
    make_task_for_any_device(alice, options={"cuda": True})
    granted = make_task_for_any_device(alice)
    private = make_worker("private", is_public=False, labels={"chip": "B"})
    assert assign_waiting([private.pk]) == []
    Grant.objects.create(worker=private, user=alice)
    assert [attempt.task_id for attempt in assign_waiting([private.pk])] == [granted.pk]


@pytest.mark.parametrize(
    "labels",
    [
        {"chip": "A\"'; DROP TABLE tasks_task; --"},
        {"芯片": "麒麟 990 %s %(x)s {0}"},
        {"<b>": "<script>alert(1)</script>"},
        {"z": "1", "a": "2", "m": "3"},
        {f"label-{number}": "v" * 200 for number in range(10)},
    ],
)
def test_labels_of_any_text_match_literally(client, alice, labels):
    here = make_worker("here", labels=labels)
    occupy(here, alice)
    task = make_task_for_any_device(alice, labels)
    make_worker("other", labels={name: "else" for name in labels})
    there = make_worker("there", labels=dict(reversed(labels.items())))
    client.force_login(alice)
    page = client.get(f"/tasks/{task.pk}/").content.decode()
    form = client.get("/tasks/new/").content.decode()
    for name, value in labels.items():
        assert escape(f"{name}={value}") in page
        assert escape(value) in form
    assert "<script>alert" not in page + form
    assert [attempt.task_id for attempt in assign_waiting()] == [task.pk]
    task.refresh_from_db()
    assert task.worker == there


@pytest.mark.parametrize(
    "take_away",
    [
        lambda worker: change_worker(worker.pk, is_enabled=False, disabled_at=LONG_AGO),
        lambda worker: change_worker(worker.pk, held_at=LONG_AGO),
        lambda worker: change_worker(worker.pk, last_seen_at=LONG_AGO),
        lambda worker: retire_worker(worker, by=None),
        lambda worker: worker.runtimes.update(problem="broken"),
    ],
    ids=["drained", "held", "offline", "retired", "broken version"],
)
def test_sweep_moves_an_old_task_instead_of_failing_it(alice, take_away):
    for name in ("here", "there"):
        occupy(make_worker(name), alice)
    task = make_task_for_any_device(alice)
    other = Worker.objects.exclude(pk=task.worker_id).get()
    Task.objects.filter(pk=task.pk).update(submitted_at=LONG_AGO)
    take_away(task.worker)
    sweep()
    task.refresh_from_db()
    assert (task.worker, task.state, task.reason) == (other, "waiting", "")
    assert task.events.get(kind="task.moved").data["because"] == "worker_away"


def test_task_leaves_a_device_after_its_grant_is_removed(alice):
    private = make_worker("a-private", is_public=False)
    grant = Grant.objects.create(worker=private, user=alice)
    occupy(private, alice)
    task = make_task_for_any_device(alice)
    assert task.worker == private
    public = make_worker("b-public")
    occupy(public, alice)
    grant.delete()
    assert rebind_orphans() == 1
    task.refresh_from_db()
    assert task.worker == public


def test_task_without_another_match_stays(alice):
    worker = make_worker()
    occupy(worker, alice)
    task = make_task_for_any_device(alice)
    go_offline(worker)
    assert rebind_orphans() == 0
    task.refresh_from_db()
    assert (task.worker, task.events.filter(kind="task.moved").count()) == (worker, 0)


def test_orphans_are_spread_over_remaining_devices(alice):
    offline = make_worker("gone")
    occupy(offline, alice)
    tasks = [make_task_for_any_device(alice) for _ in range(4)]
    left = [make_worker("left-1"), make_worker("left-2")]
    for worker in left:
        occupy(worker, alice)
    go_offline(offline)
    assert rebind_orphans() == 4
    places = sorted(Task.objects.get(pk=task.pk).worker.name for task in tasks)
    assert places == ["left-1", "left-1", "left-2", "left-2"]


def test_sweep_moves_all_orphans_in_one_round(alice, monkeypatch):
    monkeypatch.setattr(assignment, "ORPHANS_READ", 3)
    offline = make_worker("gone")
    occupy(offline, alice)
    tasks = [make_task_for_any_device(alice) for _ in range(8)]
    left = make_worker("left")
    occupy(left, alice)
    Task.objects.filter(pk__in=[task.pk for task in tasks]).update(submitted_at=LONG_AGO)
    # tasks that do not move fail in the same round
    offline.runtimes.update(problem="broken")
    sweep()
    moved = Task.objects.filter(pk__in=[task.pk for task in tasks], worker=left, state="waiting")
    assert moved.count() == 8


def test_old_orphans_without_a_match_do_not_block_younger_ones(alice, monkeypatch):
    monkeypatch.setattr(assignment, "ORPHANS_READ", 2)
    monkeypatch.setattr(assignment, "ORPHANS_IN_VAIN", 2)
    offline = make_worker("gone", labels={"chip": "rare"})
    occupy(offline, alice)
    for _ in range(6):
        make_task_for_any_device(alice, {"chip": "rare"})
    task = make_task_for_any_device(alice)
    left = make_worker("left")
    occupy(left, alice)
    go_offline(offline)
    assert rebind_orphans() == 1
    task.refresh_from_db()
    assert task.worker == left


@pytest.mark.exhaustive
def test_orphans_with_unsupported_options_delay_others_by_some_rounds_only(alice, monkeypatch):
    monkeypatch.setattr(assignment, "ORPHANS_READ", 2)
    monkeypatch.setattr(assignment, "ORPHANS_IN_VAIN", 2)
    offline = make_worker("gone")
    offline.runtimes.update(kind="binary", builds=["cuda"])
    occupy(offline, alice)
    for _ in range(6):
        make_task_for_any_device(alice, options={"cuda": True})
    task = make_task_for_any_device(alice)
    occupy(make_worker("left"), alice)
    go_offline(offline)
    # a round reads a random two of seven; the probability that all miss the task is 10^-14
    assert any(rebind_orphans() == 1 for _ in range(100))
    assert rebind_orphans() == 0
    task.refresh_from_db()
    assert task.worker.name == "left"


# -- races ----------------------------------------------------------------------------------------


@pytest.fixture
def task_and_candidate(alice):
    """Return a waiting task with a target on a busy device, and a free device that matches."""
    here = make_worker("here")
    occupy(here, alice)
    task = make_task_for_any_device(alice)
    there = make_worker("there")
    return task, there.runtimes.get()


def test_concurrent_rebinding_moves_a_task_once(task_and_candidate):
    task, there = task_and_candidate
    third = make_worker("third")
    stale = Task.objects.get(pk=task.pk)
    assert rebinding.rebind_task(task, to=there, because="slot_free")
    late = third.runtimes.get()
    assert not rebinding.rebind_task(stale, to=late, because="slot_free")
    assert stale.worker == there.worker
    assert task.events.filter(kind="task.moved").count() == 1


def test_concurrently_cancelled_task_does_not_move(task_and_candidate):
    task, there = task_and_candidate
    stale = Task.objects.get(pk=task.pk)
    cancel_task(task)
    assert not rebinding.rebind_task(stale, to=there, because="slot_free")
    assert (stale.state, stale.worker.name) == ("finished", "here")


def test_concurrently_moved_task_can_be_cancelled(task_and_candidate):
    task, there = task_and_candidate
    stale = Task.objects.get(pk=task.pk)
    rebinding.rebind_task(task, to=there, because="slot_free")
    cancel_task(stale)
    assert (stale.state, stale.outcome) == ("finished", "cancelled")
    assert assign_waiting([there.worker.pk]) == []


def test_task_moves_on_if_its_new_device_goes_offline(task_and_candidate, alice):
    task, there = task_and_candidate
    rebinding.rebind_task(task, to=there, because="slot_free")
    go_offline(there.worker)
    assert assign_waiting() == []
    sweep()
    task.refresh_from_db()
    assert task.worker.name == "here"
    assert [event.data["to"] for event in task.events.filter(kind="task.moved")] == [
        "there",
        "here",
    ]


def test_task_stays_if_another_dispatcher_fills_the_slot(task_and_candidate, monkeypatch):
    task, there = task_and_candidate
    with_free_slots, calls = assignment._with_free_slots, []

    def occupy_after_second_call(workers):
        free = with_free_slots(workers)
        calls.append(free)
        if len(calls) == 2:  # before the task is taken over
            occupy(there.worker, task.owner)
        return free

    monkeypatch.setattr(assignment, "_with_free_slots", occupy_after_second_call)
    assert assignment.assign_waiting([there.worker.pk]) == []
    assert len(calls) == 2
    task.refresh_from_db()
    assert (task.worker.name, task.state) == ("here", "waiting")
    assert not task.events.filter(kind="task.moved").exists()


def test_events_of_moves_have_consecutive_numbers(task_and_candidate):
    task, there = task_and_candidate
    rebinding.rebind_task(task, to=there, because="slot_free")
    transition_if(task, "finished", {"waiting"}, outcome="cancelled")
    assert list(task.events.values_list("seq", flat=True)) == [1, 2, 3]


# -- moves by the owner ---------------------------------------------------------------------------


def test_owner_moves_a_waiting_task(client, alice):
    here, there = make_worker("here"), make_worker("there")
    occupy(here, alice)
    task = make_waiting_task(alice, here)
    client.force_login(alice)
    for _ in range(2):  # a repetition has no effect
        answer = client.post(f"/tasks/{task.pk}/move/", {"worker": there.pk})
        assert answer["Location"] == f"/tasks/{task.pk}/"
    task.refresh_from_db()
    assert (task.worker, task.events.filter(kind="task.moved").count()) == (there, 1)


def test_a_task_that_the_dispatcher_has_just_moved_runs_where_its_owner_keeps_it(
    task_and_candidate,
):
    task, there = task_and_candidate
    here = task.worker
    seen_by_owner = Task.objects.get(pk=task.pk)
    rebinding.rebind_task(task, to=there, because="slot_free")
    rebinding.move_task(seen_by_owner, to=here)
    task.refresh_from_db()
    assert (task.worker, task.target) == (here, None)


def test_invalid_move_is_rejected(client, alice):
    here, there = make_worker("here"), make_worker("there", version="1.12.4")
    hidden = make_worker("hidden", is_public=False)
    occupy(here, alice)
    task = make_waiting_task(alice, here)
    client.force_login(make_user("bob"))
    assert client.post(f"/tasks/{task.pk}/move/", {"worker": there.pk}).status_code == 404
    client.force_login(alice)
    for worker, code in [(there.pk, "runtime_missing"), (hidden.pk, "worker_unknown")]:
        answer = client.post(
            f"/tasks/{task.pk}/move/", {"worker": worker}, headers={"accept": "application/json"}
        )
        assert (answer.status_code, answer.json()["code"]) == (422, code)
    for invalid in ("", "x", "9" * 30, "²"):
        answer = client.post(f"/tasks/{task.pk}/move/", {"worker": invalid})
        assert answer.status_code == 422
    cancel_task(task)
    Runtime.objects.create(worker=there, version="1.13.0", kind="wheel")
    assert client.post(f"/tasks/{task.pk}/move/", {"worker": there.pk}).status_code == 409
