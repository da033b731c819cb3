"""Health checks from their start to holding or releasing the device, with real storage."""

import datetime

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agent.protocol.messages import AttemptFinished, EndReason
from profiles.health import begin_health_checks, run_health_checks
from profiles.tests.make import SAME, UNDECIDED, finish_in_pairs
from tasks.actors import diagnose_run
from tasks.dispatch.gateway import desired_state
from tasks.health_checks import MODEL
from tasks.lifecycle.transitions import transition_if
from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting
from tasks.tests.make import make_user, make_worker, receive_report, set_last_heartbeat
from webprofile.storage import storage as objects
from workers.models import HealthCheck, Worker
from workers.trust import Trust, trust_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("storage")]


@pytest.fixture
def worker() -> Worker:
    worker = make_worker("w")
    Worker.objects.update(created_at=timezone.now() - datetime.timedelta(hours=7))
    return worker


def assign_and_send(worker: Worker) -> None:
    """Do what the dispatcher and the agent's socket do: assign waiting tasks and send them."""
    assign_waiting([worker.pk])
    assert [reply.type for reply in desired_state(worker.pk)] == ["start"]


def finish(reason: EndReason, exit_code: int | None) -> None:
    attempt = Attempt.objects.get(ended_at=None)
    report = AttemptFinished(attempt=attempt.pk, at=0.0, reason=reason, exit_code=exit_code)
    receive_report(attempt, report)
    if exit_code:
        diagnose_run.fn(str(attempt.pk))


def test_a_device_that_is_due_gets_one_health_check_with_the_model(worker):
    run_health_checks()
    assign_and_send(worker)
    (check,) = HealthCheck.objects.all()
    attempt = Attempt.objects.get()
    assert (check.task_id, check.cause) == (attempt.task_id, "schedule")
    (file,) = attempt.task.files.all()
    assert objects.read(file.object_key, limit_bytes=10_000) == MODEL.read_bytes()
    run_health_checks()
    assert HealthCheck.objects.count() == 1


def test_a_device_whose_check_crashes_is_held_until_a_check_passes(worker, settings):
    settings.HEALTH_RECHECK_S = 0
    run_health_checks()
    assign_and_send(worker)
    finish(EndReason.EXITED, 139)
    run_health_checks()
    worker.refresh_from_db()
    assert worker.held_at is not None
    assert "MegEngine 1.13.0" in worker.held_reason
    first = HealthCheck.objects.get(result="failed")
    assert (first.reason, first.detail) == ("crashed", "SIGSEGV")

    run_health_checks()
    assign_and_send(worker)
    task = Task.objects.latest("pk")
    assert task.purpose == "health"
    assert task.state == "assigned"
    finish(EndReason.EXITED, 0)
    task.refresh_from_db()
    transition_if(task, "finished", {"processing"}, outcome="succeeded")
    run_health_checks()
    worker.refresh_from_db()
    assert (worker.held_at, worker.held_reason) == (None, "")


def test_a_device_that_is_offline_is_not_held(worker):
    set_last_heartbeat(None)
    worker.refresh_from_db()
    check = begin_health_checks(worker, cause=HealthCheck.Cause.ASKED)
    check.refresh_from_db()
    assert (check.result, check.reason) == ("abandoned", "worker_is_offline")
    worker.refresh_from_db()
    assert worker.held_at is None


def test_a_check_interrupted_by_a_restart_is_abandoned(worker):
    HealthCheck.objects.create(worker=worker, runtime_version="1.13.0", cause="schedule")
    run_health_checks()
    assert HealthCheck.objects.get().result == ""
    HealthCheck.objects.update(created_at=timezone.now() - datetime.timedelta(minutes=3))
    run_health_checks()
    assert HealthCheck.objects.order_by("pk").first().result == "abandoned"


def test_only_an_administrator_can_start_a_health_check(worker):
    address = reverse("workers:check", args=["w"])
    user, admin = Client(), Client()
    user.force_login(make_user())
    admin.force_login(make_user("root", is_staff=True))
    assert user.post(address).status_code == 404
    assert admin.get(address).status_code == 405
    assert Client().post(address).status_code == 302
    assert not HealthCheck.objects.exists()
    response = admin.post(address)
    assert (response.status_code, response.url) == (302, reverse("workers:detail", args=["w"]))
    assert HealthCheck.objects.get().cause == "asked"
    assert admin.post(address).status_code == 409


def test_an_aa_run_keeps_its_verdict_with_the_check(worker, settings):
    settings.HEALTH_CHECK_EVERY_S, settings.AA_RUN_S = 0, 20
    run_health_checks()
    task = Task.objects.get()
    assert (task.purpose, task.is_paired) == ("health", True)
    finish_in_pairs(task, SAME)
    run_health_checks()
    check = HealthCheck.objects.get()
    assert (check.cause, check.result) == ("aa", "passed")
    assert trust_of([worker])[worker.pk] == Trust(
        runs=1, false_alarms=0, intervals=1, covered=1, smallest=pytest.approx(0.0026, abs=1e-4)
    )


def test_an_aa_run_without_an_undisturbed_pair_is_no_evidence(worker, settings):
    settings.HEALTH_CHECK_EVERY_S, settings.AA_RUN_S = 0, 20
    run_health_checks()
    nothing = {"effect": None, "low": None, "high": None, "more_s": None, "pairs": 0}
    finish_in_pairs(Task.objects.get(), UNDECIDED.model_copy(update=nothing))
    run_health_checks()
    assert HealthCheck.objects.get().result == "passed"
    assert trust_of([worker])[worker.pk].runs == 0
