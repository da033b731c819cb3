"""Tests of health checks: when they are due, and how their outcome changes the device."""

import datetime

import pytest
from django.utils import timezone

from accounts.models import AuditEntry
from tasks.health_checks import checks_due, create_health_task, runtime_to_check, verdict_of
from tasks.models import Attempt, Purpose, Task
from tasks.selectors import listed_tasks
from tasks.states import Outcome, TaskState
from tasks.tests.make import (
    change_worker,
    make_user,
    make_waiting_task,
    make_worker,
    set_last_heartbeat,
)
from workers.health import close_check, open_check, recheck_at
from workers.models import HealthCheck, Runtime, Worker
from workers.services import resume_worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]

Cause, Result = HealthCheck.Cause, HealthCheck.Result


def due(after_s: float = 0) -> dict[str, str]:
    now = timezone.now() + datetime.timedelta(seconds=after_s)
    return {worker.name: str(cause) for worker, cause in checks_due(now)}


def make_old(worker: Worker, hours: float = 7) -> Worker:
    """Registered, or checked, so long ago that a check on schedule is due."""
    then = timezone.now() - datetime.timedelta(hours=hours)
    Worker.objects.filter(pk=worker.pk).update(created_at=then)
    worker.health_checks.update(created_at=then)
    return worker


def make_check(worker: Worker, result: str = Result.PASSED, **facts: str) -> HealthCheck:
    check = open_check(worker, version="1.13.0", cause=Cause.SCHEDULE)
    assert check is not None
    close_check(check, Result(result), **facts)
    worker.refresh_from_db()
    return check


def make_ended(worker: Worker, reason: str, number: int = 1) -> None:
    """Attempts of users that ended so, one after the other."""
    owner = make_user(f"user{Task.objects.count()}")
    for _ in range(number):
        task = make_waiting_task(owner, worker)
        attempt = Attempt.objects.create(
            task=task, worker=worker, number=9, slot=9, lease_expires_at=timezone.now()
        )
        Attempt.objects.filter(pk=attempt.pk).update(end_reason=reason, ended_at=timezone.now())
        Attempt.objects.filter(task=task, ended_at=None).delete()
        end(task)


def end(task: Task, outcome: str = Outcome.FAILED, reason: str = "") -> Task:
    Task.objects.filter(pk=task.pk).update(
        **{"state": TaskState.FINISHED, "outcome": outcome, "reason": reason}
    )
    task.refresh_from_db()
    return task


def test_an_idle_device_is_checked_every_six_hours():
    worker = make_old(make_worker("idle"))
    assert due() == {"idle": "schedule"}
    make_check(worker)
    assert due() == {}
    make_old(worker)
    assert due() == {"idle": "schedule"}


def test_a_new_device_is_not_checked_before_its_first_task_could_come():
    make_worker("new")
    assert due() == {}


def test_no_schedule_where_it_is_turned_off(settings):
    settings.HEALTH_CHECK_EVERY_S = 0
    make_old(make_worker())
    assert due() == {}


@pytest.mark.parametrize(
    "change",
    [
        {"is_enabled": False},
        {"last_seen_at": None},
        {"retired_at": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)},
    ],
    ids=["drained", "offline", "retired"],
)
def test_a_device_out_of_service_is_left_alone(change):
    worker = make_old(make_worker())
    change_worker(worker.pk, **change)
    assert due() == {}


def test_a_device_with_work_is_not_disturbed():
    worker = make_old(make_worker())
    task = make_waiting_task(make_user(), worker)
    assert due() == {}
    end(task)
    Attempt.objects.update(ended_at=timezone.now())
    assert due() == {worker.name: "schedule"}


def test_a_check_under_way_is_not_begun_twice():
    worker = make_old(make_worker())
    assert open_check(worker, version="1.13.0", cause=Cause.ASKED) is not None
    assert open_check(worker, version="1.13.0", cause=Cause.ASKED) is None
    assert due() == {}


def test_two_failures_in_a_row_that_are_not_a_users_ask_for_a_check():
    worker = make_worker("ill")
    make_ended(worker, "agent_error")
    assert due() == {}
    make_ended(worker, "lease_expired")
    assert due() == {"ill": "failure"}


def test_failures_of_models_are_no_failures_of_the_device():
    worker = make_worker()
    make_ended(worker, "exited", 5)
    make_ended(worker, "out_of_memory", 5)
    assert due() == {}


def test_tasks_that_users_cancel_are_no_failures_of_the_device():
    worker = make_worker()
    for _ in range(3):
        make_ended(worker, "cancelled")
    assert due() == {}


def test_a_success_between_two_failures_breaks_the_row():
    worker = make_worker()
    for reason in ("agent_error", "exited", "agent_error"):
        make_ended(worker, reason)
    assert due() == {}


def test_failures_that_a_check_looked_into_are_not_looked_into_again():
    worker = make_worker()
    make_ended(worker, "agent_error", 3)
    make_check(worker)
    assert due() == {}
    make_ended(worker, "agent_error", 2)
    assert due() == {worker.name: "failure"}


def test_a_failed_check_holds_the_device_back_and_a_passed_one_lets_it_go_on():
    worker = make_worker("w")
    make_check(worker, Result.FAILED, held_reason="It crashed.", reason="crashed")
    assert (worker.held_reason, worker.held_at is not None) == ("It crashed.", True)
    make_check(worker, Result.ABANDONED)
    assert worker.held_at is not None
    make_check(worker)
    assert (worker.held_reason, worker.held_at) == ("", None)
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", "actor"))
    assert actions == [("worker.hold", None), ("worker.release", None)]


def test_a_device_that_is_held_is_checked_again_ever_later(settings):
    settings.HEALTH_RECHECK_S = 60
    worker = make_worker("held")
    pauses = []
    for _ in range(3):
        check = make_check(worker, Result.FAILED, held_reason="x")
        pauses.append(round((recheck_at(worker) - check.ended_at).total_seconds()))
    assert pauses == [60, 120, 240]
    assert due(after_s=230) == {}
    set_last_heartbeat(timezone.now() + datetime.timedelta(seconds=240))
    assert due(after_s=241) == {"held": "failure"}


def test_the_pause_is_never_longer_than_six_hours():
    worker = make_worker()
    for _ in range(20):
        check = make_check(worker, Result.FAILED, held_reason="x")
    assert recheck_at(worker) - check.ended_at == datetime.timedelta(hours=6)


def test_an_administrator_may_override_and_old_failures_do_not_hold_it_again():
    worker = make_worker()
    make_ended(worker, "agent_error", 2)
    make_check(worker, Result.FAILED, held_reason="x")
    resume_worker(worker, by=make_user("root", is_staff=True))
    worker.refresh_from_db()
    assert worker.held_at is None
    assert due() == {}


def test_a_check_is_closed_once():
    worker = make_worker()
    check = make_check(worker)
    assert not close_check(check, Result.FAILED, held_reason="late")
    worker.refresh_from_db()
    assert worker.held_at is None


@pytest.mark.parametrize(
    ("outcome", "reason", "result"),
    [
        ("succeeded", "", "passed"),
        ("failed", "crashed", "failed"),
        ("failed", "out_of_memory", "failed"),
        ("failed", "runtime_missing", "failed"),
        ("lost", "lease_expired", "failed"),
        ("failed", "profile_missing", "abandoned"),
        ("failed", "worker_went_offline", "abandoned"),
        ("failed", "queue_timed_out", "abandoned"),
        ("cancelled", "cancelled_by_user", "abandoned"),
    ],
)
def test_who_is_to_blame_decides(outcome, reason, result):
    task = end(make_waiting_task(), outcome, reason)
    assert verdict_of(task)[0] == result


def test_each_version_gets_its_turn():
    worker = make_worker()
    Runtime.objects.create(worker=worker, version="1.9.0", kind="binary")
    Runtime.objects.create(worker=worker, version="1.8.0", kind="binary", problem="gone")
    seen = []
    for _ in range(4):
        version = runtime_to_check(worker).version
        close_check(open_check(worker, version=version, cause=Cause.SCHEDULE), Result.PASSED)
        seen.append(version)
    assert sorted(seen[:2]) == sorted(seen[2:]) == ["1.13.0", "1.9.0"]


def test_a_health_task_is_nobodys_and_in_no_list():
    admin = make_user("root", is_staff=True)
    worker = make_worker(is_public=False)
    check = open_check(worker, version="1.13.0", cause=Cause.SCHEDULE)
    task = create_health_task(check)
    assert (task.purpose, task.owner.is_active) == (Purpose.HEALTH, False)
    assert not task.owner.has_usable_password()
    assert not listed_tasks(admin).filter(pk=task.pk).exists()
    another = create_health_task(open_check(make_worker(), version="1.13.0", cause=Cause.SCHEDULE))
    assert another.owner == task.owner
