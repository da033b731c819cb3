"""Tests of health checks: when they are due, and how their outcome changes the device."""

import datetime

import pytest
from django.utils import timezone

from accounts.models import AuditEntry
from agent.protocol.messages import Facts, RuntimeInfo
from tasks.health_checks import (
    checks_due,
    create_health_task,
    environment_of,
    newest_runtime,
    runtime_to_check,
    verdict_of,
)
from tasks.models import Attempt, Purpose, Task
from tasks.scheduling.assignment import assign_waiting
from tasks.selectors import listed_tasks
from tasks.states import Outcome, TaskState
from tasks.tests.make import (
    change_worker,
    make_user,
    make_waiting_task,
    make_worker,
    set_last_heartbeat,
)
from workers import health
from workers.health import close_check, open_check, recheck_at
from workers.models import HealthCheck, Runtime, Worker
from workers.services import introduce_worker, resume_worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]

Cause, Result = HealthCheck.Cause, HealthCheck.Result


def due(after_s: float = 0) -> dict[str, str]:
    now = timezone.now() + datetime.timedelta(seconds=after_s)
    return {worker.name: str(cause) for worker, cause in checks_due(now)}


def make_overdue(worker: Worker) -> Worker:
    """Move the registration and all checks into the past, so that the next check is due."""
    then = timezone.now() - datetime.timedelta(hours=7)
    Worker.objects.filter(pk=worker.pk).update(created_at=then)
    worker.health_checks.update(created_at=then)
    return worker


def make_check(worker: Worker, result: str = Result.PASSED, **facts: str) -> HealthCheck:
    check = open_check(worker, version="1.13.0", cause=Cause.SCHEDULE)
    assert check is not None
    close_check(check, Result(result), **facts)
    worker.refresh_from_db()
    return check


def make_ended_attempts(worker: Worker, reason: str, number: int = 1) -> None:
    """Create attempts of a user that ended with this reason."""
    owner = make_user(f"user{Task.objects.count()}")
    for _ in range(number):
        task = make_waiting_task(owner, worker)
        attempt = Attempt.objects.create(
            task=task, worker=worker, number=9, slot=9, lease_expires_at=timezone.now()
        )
        Attempt.objects.filter(pk=attempt.pk).update(end_reason=reason, ended_at=timezone.now())
        Attempt.objects.filter(task=task, ended_at=None).delete()
        end_task(task)


def end_task(task: Task, outcome: str = Outcome.FAILED, reason: str = "") -> Task:
    Task.objects.filter(pk=task.pk).update(
        **{"state": TaskState.FINISHED, "outcome": outcome, "reason": reason}
    )
    task.refresh_from_db()
    return task


def test_idle_device_is_checked_every_six_hours():
    worker = make_overdue(make_worker("idle"))
    assert due() == {"idle": "schedule"}
    make_check(worker)
    assert due() == {}
    make_overdue(worker)
    assert due() == {"idle": "schedule"}


def test_new_device_is_not_checked_at_once():
    make_worker("new")
    assert due() == {}


def test_runs_that_measure_a_device_do_not_postpone_its_check(scatter_runs, aa_runs):
    worker = make_overdue(make_worker("idle"))
    make_scatter_check(worker)
    make_aa_run(worker, Result.ABANDONED)
    assert due() == {"idle": "schedule"}


def test_a_check_is_due_after_runs_that_measured_a_device():
    worker = make_overdue(make_worker("idle"))
    make_aa_run(worker)
    assert due() == {"idle": "schedule"}


def test_schedule_can_be_turned_off(settings):
    settings.HEALTH_CHECK_EVERY_S = 0
    make_overdue(make_worker())
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
def test_device_out_of_service_is_not_checked(change):
    worker = make_overdue(make_worker())
    change_worker(worker.pk, **change)
    assert due() == {}


def test_busy_device_is_not_checked():
    worker = make_overdue(make_worker())
    task = make_waiting_task(make_user(), worker)
    assert due() == {}
    end_task(task)
    Attempt.objects.update(ended_at=timezone.now())
    assert due() == {worker.name: "schedule"}


def test_device_has_at_most_one_open_check():
    worker = make_overdue(make_worker())
    assert open_check(worker, version="1.13.0", cause=Cause.ASKED) is not None
    assert open_check(worker, version="1.13.0", cause=Cause.ASKED) is None
    assert due() == {}


def test_two_consecutive_device_failures_cause_a_check():
    worker = make_worker("ill")
    make_ended_attempts(worker, "agent_error")
    assert due() == {}
    make_ended_attempts(worker, "lease_expired")
    assert due() == {"ill": "failure"}


@pytest.mark.parametrize(
    "reasons",
    [
        ["exited"] * 5 + ["out_of_memory"] * 5,
        ["cancelled"] * 3,
        ["agent_error", "exited", "agent_error"],
    ],
    ids=["failures of models", "cancelled tasks", "success between failures"],
)
def test_ends_that_are_no_consecutive_device_failures_cause_no_check(reasons):
    worker = make_worker()
    for reason in reasons:
        make_ended_attempts(worker, reason)
    assert due() == {}


def test_failures_before_a_check_are_not_counted_again():
    worker = make_worker()
    make_ended_attempts(worker, "agent_error", 3)
    make_check(worker)
    assert due() == {}
    make_ended_attempts(worker, "agent_error", 2)
    assert due() == {worker.name: "failure"}


def test_failed_check_holds_the_device_until_a_check_passes():
    worker = make_worker("w")
    make_check(worker, Result.FAILED, held_reason="It crashed.", reason="crashed")
    assert (worker.held_reason, worker.held_at is not None) == ("It crashed.", True)
    make_check(worker, Result.ABANDONED)
    assert worker.held_at is not None
    make_check(worker)
    assert (worker.held_reason, worker.held_at) == ("", None)
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", "actor"))
    assert actions == [("worker.hold", None), ("worker.release", None)]


def test_pause_between_checks_of_a_held_device_doubles(settings):
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


def test_pause_between_checks_is_at_most_six_hours():
    worker = make_worker()
    for _ in range(20):
        check = make_check(worker, Result.FAILED, held_reason="x")
    assert recheck_at(worker) - check.ended_at == datetime.timedelta(hours=6)


def test_resumed_device_is_not_held_for_old_failures():
    worker = make_worker()
    make_ended_attempts(worker, "agent_error", 2)
    make_check(worker, Result.FAILED, held_reason="x")
    resume_worker(worker, by=make_user("root", is_staff=True))
    worker.refresh_from_db()
    assert worker.held_at is None
    assert due() == {}


def test_closed_check_cannot_be_closed_again():
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
def test_verdict_depends_on_the_blame_of_the_reason(outcome, reason, result):
    task = end_task(make_waiting_task(), outcome, reason)
    assert verdict_of(task)[0] == result


def test_checks_alternate_between_usable_versions():
    worker = make_worker()
    Runtime.objects.create(worker=worker, version="1.9.0", kind="binary")
    Runtime.objects.create(worker=worker, version="1.8.0", kind="binary", problem="gone")
    versions = []
    for _ in range(4):
        version = runtime_to_check(worker).version
        close_check(open_check(worker, version=version, cause=Cause.SCHEDULE), Result.PASSED)
        # it measures the newest version and is no check of it
        make_aa_run(worker)
        versions.append(version)
    assert sorted(versions[:2]) == sorted(versions[2:]) == ["1.13.0", "1.9.0"]


def test_health_task_belongs_to_a_system_user_and_is_not_listed():
    admin = make_user("root", is_staff=True)
    worker = make_worker(is_public=False)
    check = open_check(worker, version="1.13.0", cause=Cause.SCHEDULE)
    task = create_health_task(check)
    assert (task.purpose, task.owner.is_active) == (Purpose.HEALTH, False)
    assert not task.owner.has_usable_password()
    assert not listed_tasks(admin).filter(pk=task.pk).exists()
    another = create_health_task(open_check(make_worker(), version="1.13.0", cause=Cause.SCHEDULE))
    assert another.owner == task.owner


def make_scatter_check(
    worker: Worker, result: str = Result.PASSED, *, is_disturbed: bool = False
) -> HealthCheck:
    runtime = newest_runtime(worker)
    assert runtime is not None
    check = open_check(
        worker,
        version=runtime.version,
        cause=Cause.SCATTER,
        environment=environment_of(worker, runtime),
    )
    assert check is not None
    close_check(check, Result(result), samples={} if is_disturbed else {"device": [0.01]})
    return check


@pytest.fixture
def scatter_runs(settings) -> int:
    settings.SCATTER_RUNS = 5
    return 5


def test_a_new_idle_device_measures_the_scatter_of_equal_runs_once(scatter_runs):
    worker = make_worker("new")
    for _ in range(scatter_runs):
        assert due() == {"new": "scatter"}
        make_scatter_check(worker)
    assert due() == {}
    worker.refresh_from_db()
    assert not worker.may_lack_scatter


def test_disturbed_runs_are_repeated_but_not_forever(scatter_runs):
    worker = make_worker("new")
    for _ in range(3 * scatter_runs):
        assert due() == {"new": "scatter"}
        make_scatter_check(worker, is_disturbed=True)
    assert due() == {}


def test_a_failed_run_that_measures_scatter_does_not_hold_the_device(scatter_runs):
    worker = make_worker("w")
    for _ in range(2):
        assert due() == {"w": "scatter"}
        make_scatter_check(worker, Result.FAILED, is_disturbed=True)
    worker.refresh_from_db()
    assert worker.held_at is None
    # it cannot run the sample model
    assert due() == {}


def test_scatter_is_measured_again_after_a_change_of_kernel_or_agent(scatter_runs):
    worker = make_worker("new")
    for _ in range(scatter_runs):
        make_scatter_check(worker)
    assert due() == {}
    facts = Facts(
        hostname="h", platform="Linux-6.9", machine="x86_64", cores=2, memory_bytes=1 << 30
    )
    runtimes = [RuntimeInfo(version="1.13.0", kind="wheel")]
    introduce_worker(worker, facts=facts, agent_version="9", runtimes=runtimes)
    assert due() == {"new": "scatter"}
    for _ in range(scatter_runs):
        make_scatter_check(worker)
    assert due() == {}
    introduce_worker(worker, facts=facts, agent_version="9", runtimes=runtimes)
    assert due() == {}


def test_scatter_is_not_measured_on_a_device_that_users_just_used(scatter_runs):
    worker = make_worker("used")
    make_ended_attempts(worker, "exited")
    assert due() == {}
    assert due(after_s=11) == {"used": "scatter"}


def test_a_run_that_measures_scatter_yields_to_a_task(scatter_runs):
    worker = make_worker("w")
    check = open_check(worker, version="1.13.0", cause=Cause.SCATTER)
    assert check is not None
    task = create_health_task(check)
    Task.objects.filter(pk=task.pk).update(state=TaskState.RUNNING)
    assign_waiting([worker.pk])
    task.refresh_from_db()
    assert task.state == TaskState.RUNNING
    make_waiting_task(make_user(), worker)
    assign_waiting([worker.pk])
    task.refresh_from_db()
    assert task.state == TaskState.CANCELLING


@pytest.fixture
def aa_runs(settings) -> None:
    settings.AA_RUN_S = 20


def make_aa_run(worker: Worker, result: str = Result.PASSED) -> None:
    runtime = newest_runtime(worker)
    assert runtime is not None
    environment = environment_of(worker, runtime)
    check = open_check(worker, version=runtime.version, cause=Cause.AA, environment=environment)
    assert check is not None
    close_check(check, Result(result))


def test_an_aa_run_follows_each_health_check(aa_runs):
    worker = make_worker("w")
    assert due() == {"w": "aa"}
    make_aa_run(worker)
    assert due() == {}
    make_check(worker)
    assert due() == {"w": "aa"}
    make_aa_run(worker)
    assert due() == {}


def test_an_aa_run_that_yielded_to_a_task_is_repeated_after_ten_minutes(aa_runs):
    worker = make_worker("w")
    make_aa_run(worker, Result.ABANDONED)
    assert due() == {}
    assert due(after_s=599) == {}
    assert due(after_s=601) == {"w": "aa"}


def test_abandoned_runs_displace_no_results(monkeypatch):
    monkeypatch.setattr(health, "KEPT", 2)
    worker = make_worker("w")
    make_check(worker)
    make_aa_run(worker)
    for _ in range(3):
        make_scatter_check(worker)
    for _ in range(3):
        make_aa_run(worker, Result.ABANDONED)
    kept = worker.health_checks.order_by("pk").values_list("cause", "result")
    assert list(kept) == [
        ("schedule", "passed"),
        ("aa", "passed"),
        *[("scatter", "passed")] * 2,
        *[("aa", "abandoned")] * 2,
    ]


def test_a_failed_aa_run_neither_holds_the_device_nor_is_repeated(aa_runs):
    worker = make_worker("w")
    make_aa_run(worker, Result.FAILED)
    worker.refresh_from_db()
    assert worker.held_at is None
    assert due() == {}


def test_no_aa_run_follows_a_failed_health_check(aa_runs):
    worker = make_worker("w")
    make_aa_run(worker)
    assert due() == {}
    make_check(worker, Result.FAILED, held_reason="x")
    assert due() == {}


def test_an_aa_run_compares_the_sample_model_with_itself(aa_runs):
    worker = make_worker("w")
    check = open_check(worker, version="1.13.0", cause=Cause.AA)
    task = create_health_task(check)
    assert task.pairing["budget_s"] == 20
    assert [file.md5 for file in task.arm_models] == [task.arm_models[0].md5] * 2


def test_an_aa_run_yields_to_a_task(aa_runs):
    worker = make_worker("w")
    task = create_health_task(open_check(worker, version="1.13.0", cause=Cause.AA))
    Task.objects.filter(pk=task.pk).update(state=TaskState.RUNNING)
    make_waiting_task(make_user(), worker)
    assign_waiting([worker.pk])
    task.refresh_from_db()
    assert task.state == TaskState.CANCELLING


def test_a_health_check_does_not_yield(scatter_runs):
    worker = make_worker("w")
    check = open_check(worker, version="1.13.0", cause=Cause.SCHEDULE)
    assert check is not None
    task = create_health_task(check)
    Task.objects.filter(pk=task.pk).update(state=TaskState.RUNNING)
    make_waiting_task(make_user(), worker)
    assign_waiting([worker.pk])
    task.refresh_from_db()
    assert task.state == TaskState.RUNNING
