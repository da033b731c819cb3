"""What time alone brings about, and that a lost hint only costs time."""

import datetime

import dramatiq
import pytest
from django.core.management import call_command
from django.utils import timezone

from agent.protocol import AttemptFinished, EndReason
from profiles import storage
from tasks import attempts, services
from tasks.models import Attempt, Task
from tasks.sweeping import sweep
from tasks.tests.make import make_attempt, make_task, make_waiting_task, make_worker
from workers.models import Worker

pytestmark = pytest.mark.django_db

LONG_AGO = timezone.now() - datetime.timedelta(days=3)


@pytest.fixture
def messages(django_capture_on_commit_callbacks):
    """The queue's actors after running what was put off until commit."""
    broker = dramatiq.get_broker()
    broker.flush_all()

    def names() -> list[str]:
        found = []
        for name in ("dispatch", "profiles"):
            queue = broker.queues[name]
            while not queue.empty():
                found.append(dramatiq.Message.decode(queue.get()).actor_name)
        return found

    return names


def test_an_expired_lease_loses_the_attempt_and_queues_the_task_again():
    attempt = make_attempt()
    Attempt.objects.update(lease_expires_at=LONG_AGO)
    sweep()
    attempt.refresh_from_db()
    attempt.task.refresh_from_db()
    assert (attempt.end_reason, attempt.task.state) == ("lease_expired", "waiting")


def test_a_lease_that_holds_is_left_alone():
    attempt = make_attempt()
    sweep()
    attempt.refresh_from_db()
    assert attempt.ended_at is None


def test_an_upload_that_never_ends_is_abandoned_and_its_files_deleted(monkeypatch):
    task = make_task()
    Task.objects.update(upload_deadline_at=LONG_AGO)
    deleted: list[str] = []
    monkeypatch.setattr(storage, "delete", deleted.append)
    call_command("sweep", "--once")
    call_command("sweep", "--once")
    task.refresh_from_db()
    assert (task.status, task.reason) == ("cancelled", "upload_abandoned")
    assert sorted(deleted) == sorted(file.object_key for file in task.files.all())


def test_a_task_does_not_wait_for_ever():
    task = make_waiting_task()
    Task.objects.update(queue_deadline_at=LONG_AGO)
    sweep()
    task.refresh_from_db()
    assert (task.status, task.reason) == ("failed", "queue_timed_out")


def test_a_device_that_stays_away_fails_its_waiting_tasks_with_the_reason():
    task = make_waiting_task()
    Task.objects.update(submitted_at=LONG_AGO)
    sweep()
    task.refresh_from_db()
    assert task.state == "waiting"  # the device is there
    Worker.objects.update(last_seen_at=LONG_AGO)
    sweep()
    task.refresh_from_db()
    assert (task.status, task.reason) == ("failed", "worker_went_offline")


def test_a_version_that_the_device_lost_fails_the_waiting_task():
    task = make_waiting_task()
    Task.objects.update(submitted_at=LONG_AGO)
    task.worker.runtimes.update(problem="broken")
    sweep()
    task.refresh_from_db()
    assert task.reason == "runtime_went_away"


def test_lost_hints_are_given_again(messages, django_capture_on_commit_callbacks):
    make_waiting_task()
    processing = make_attempt(make_waiting_task(worker=make_worker()))
    report = AttemptFinished(attempt=processing.pk, at=0.0, reason=EndReason.EXITED, exit_code=0)
    attempts.attempt_finish(processing, report)
    Task.objects.filter(pk=processing.task_id).update(updated_at=LONG_AGO)
    with django_capture_on_commit_callbacks(execute=True):
        sweep()
    assert sorted(messages()) == ["build_profile", "dispatch_tasks"]


def test_an_idle_site_gives_no_hints(messages, django_capture_on_commit_callbacks):
    services.task_cancel(make_task())
    with django_capture_on_commit_callbacks(execute=True):
        sweep()
    assert messages() == []


def test_a_submitted_task_wakes_the_dispatcher(messages, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        make_waiting_task()
    assert messages() == ["dispatch_tasks"]
