"""Tests of `/metrics`: access, and values compared with the database."""

import datetime

import pytest
from django.db.models import F
from django.utils import timezone

from profiles.imports.uploads import delete_import
from profiles.retention.policy import POLICIES, purge
from profiles.tests.imports import make_upload
from tasks.lifecycle import attempts
from tasks.lifecycle.cancel import cancel_task
from tasks.lifecycle.counters import count_outcomes
from tasks.lifecycle.outcomes import begin_reading
from tasks.lifecycle.sweep import sweep
from tasks.models import Attempt, EndTally, Mark, Task
from tasks.tests.make import (
    fail_run,
    finished_report,
    go_offline,
    make_attempt,
    make_task,
    make_user,
    make_waiting_task,
    make_worker,
    receive_report,
    started_report,
)
from webprofile.errors import DomainError
from webprofile.observability.tests.parts import metric_value, redis_layers, samples
from webprofile.operations.metrics import rows
from webprofile.settings.environment import network
from webprofile.storage import storage as object_store

pytestmark = [pytest.mark.django_db, pytest.mark.database]
TOKEN = {"Authorization": "Bearer read-me"}


@pytest.fixture(autouse=True)
def token(settings):
    settings.METRICS_TOKENS = ["older", "read-me"]
    rows.forget()
    yield
    rows.forget()


@pytest.fixture
def read_metrics(client):
    def read_metrics():
        rows.forget()
        response = client.get("/metrics", headers=TOKEN)
        assert response.status_code == 200
        return samples(response.text)

    return read_metrics


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Basic read-me", "Bearer read-m"])
def test_metrics_without_a_valid_token_return_404(client, header):
    response = client.get("/metrics", headers={"Authorization": header})
    assert response.status_code == 404
    assert b"mgw_" not in response.content


@pytest.mark.parametrize("secret", ["older", "read-me"])
def test_old_and_new_token_are_accepted(client, secret):
    headers = {"Authorization": f"Bearer {secret}"}
    assert client.get("/metrics", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("10.1.2.3", {}, 200),
        ("10.2.2.3", {}, 404),
        ("::1", {}, 200),
        # a proxy in the network forwards requests of others
        ("10.1.2.3", {"X-Forwarded-For": "10.1.2.3"}, 404),
        ("10.1.2.3", {"Forwarded": "for=10.1.2.3"}, 404),
        ("", {}, 404),
    ],
)
def test_allowed_network_reads_metrics_only_without_a_proxy(
    client, settings, address, headers, status
):
    settings.METRICS_NETWORKS = [network("10.1.0.0/16"), network("::1/128")]
    assert client.get("/metrics", headers=headers, REMOTE_ADDR=address).status_code == status


def test_session_of_an_administrator_does_not_read_metrics(client):
    client.force_login(make_user("admin", is_staff=True))
    assert client.get("/metrics").status_code == 404


def test_queue_metrics_have_tier_and_age_of_the_oldest_task(read_metrics):
    make_task()
    assert read_metrics()['mgw_queue_tasks{tier="usual"}'] == 0
    make_waiting_task()
    old = make_waiting_task(priority=0)
    Task.objects.filter(pk=old.pk).update(
        submitted_at=timezone.now() - datetime.timedelta(seconds=90), priority=50
    )
    metrics = read_metrics()
    assert (
        metrics['mgw_queue_tasks{tier="usual"}'] == metrics['mgw_queue_tasks{tier="raised"}'] == 1
    )
    assert metrics['mgw_queue_tasks{tier="health"}'] == 0
    assert 90 <= metrics['mgw_queue_oldest_age_seconds{tier="raised"}'] < 120
    assert metrics['mgw_queue_oldest_age_seconds{tier="usual"}'] < 30
    assert metrics['mgw_tasks_live{state="waiting"}'] == 2
    assert metrics['mgw_tasks_live{state="initiated"}'] == 1


def test_workers_are_counted_by_their_last_heartbeat(read_metrics):
    make_worker("a")
    go_offline(make_worker("b"))
    make_worker("c", online=False)
    make_worker("d", is_enabled=False)
    metrics = read_metrics()
    beats = {
        beat: metrics[f'mgw_workers{{beat="{beat}"}}'] for beat in ("on_time", "lost", "never")
    }
    assert beats == {"on_time": 1, "lost": 1, "never": 1}
    assert metrics['mgw_workers_unavailable{why="drained"}'] == 1


def end_attempts(settle=True):
    """End three attempts: succeeded, failed and lost. `settle`: 20 s ago."""
    good, bad, silent = (make_attempt(make_waiting_task(worker=make_worker())) for _ in range(3))
    receive_report(good, finished_report(good))
    receive_report(bad, finished_report(bad, exit_code=134))
    attempts.lose_attempt(silent, reason="lease_expired")
    if settle:
        Attempt.objects.update(ended_at=timezone.now() - datetime.timedelta(seconds=20))


def test_outcomes_are_counted_once_and_outlive_their_rows(read_metrics):
    end_attempts()
    assert count_outcomes() == 3
    assert count_outcomes() == 0
    Task.objects.all().delete()
    metrics = read_metrics()
    name = "mgw_attempts_ended_total"
    assert metrics[f'{name}{{outcome="succeeded",reason="exited"}}'] == 1
    assert metrics[f'{name}{{outcome="failed",reason="exited"}}'] == 1
    assert metrics[f'{name}{{outcome="lost",reason="lease_expired"}}'] == 1


def test_recent_outcome_is_counted_later():
    end_attempts(settle=False)
    assert count_outcomes() == 0
    elapsed = datetime.timedelta(seconds=20)
    Mark.objects.update(at=F("at") - elapsed)
    Attempt.objects.update(ended_at=F("ended_at") - elapsed)
    assert count_outcomes() == 3


def test_purge_does_not_change_counted_outcomes(read_metrics):
    end_attempts()
    sweep()
    purge(POLICIES["tasks"], 0)
    sweep()
    assert sum(EndTally.objects.values_list("number", flat=True)) == 3


def test_sweep_age_grows_when_no_sweep_runs(read_metrics):
    assert "mgw_sweep_age_seconds" not in read_metrics()
    sweep()
    assert read_metrics()["mgw_sweep_age_seconds"] < 5
    Mark.objects.update(at=timezone.now() - datetime.timedelta(seconds=100))
    assert 80 < read_metrics()["mgw_sweep_age_seconds"] < 90


def test_results_that_no_actor_reads_are_overdue_however_often_the_sweep_repeats_them(
    read_metrics,
):
    attempt = make_attempt()
    receive_report(attempt, finished_report(attempt))
    assert read_metrics()["mgw_results_overdue"] == 0
    long_ago = timezone.now() - datetime.timedelta(minutes=2)
    Task.objects.update(updated_at=long_ago, hinted_at=long_ago)
    sweep()
    assert read_metrics()["mgw_results_overdue"] == 1
    begin_reading(Task.objects.get())
    assert read_metrics()["mgw_results_overdue"] == 0


def test_task_transitions_are_counted_and_timed():
    metrics = [
        ("mgw_dispatch_seconds_count", {"stage": "assigned"}),
        ("mgw_dispatch_seconds_count", {"stage": "started"}),
        ("mgw_task_moves_total", {"to": "running", "outcome": "", "reason": ""}),
        ("mgw_task_moves_total", {"to": "finished", "outcome": "failed", "reason": "crashed"}),
    ]
    before = [metric_value(name, **labels) for name, labels in metrics]
    attempt = make_attempt()
    receive_report(attempt, started_report(attempt))
    fail_run(attempt, exit_code=134)
    after = [metric_value(name, **labels) for name, labels in metrics]
    assert after == [value + 1 for value in before]


def test_storage_calls_are_timed_and_errors_counted(storage, settings):
    def counts():
        return (
            metric_value("mgw_storage_seconds_count", operation="HeadObject"),
            metric_value("mgw_storage_errors_total", operation="HeadObject", kind="unreachable"),
        )

    calls, errors = counts()
    assert object_store.head("nothing") is None
    assert counts() == (calls + 1, errors)
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    with pytest.raises(DomainError):
        object_store.head("nothing")
    assert counts()[1] == errors + 1


def test_lost_message_is_counted_and_the_task_continues(
    settings, django_capture_on_commit_callbacks
):
    settings.CHANNEL_LAYERS = redis_layers("redis://127.0.0.1:9/0")
    before = metric_value("mgw_messages_lost_total", hint="task.changed")
    # the first message fails, and the second is not sent in the pause that follows
    for count in (1, 2):
        with django_capture_on_commit_callbacks(execute=True):
            task = make_task()
        assert metric_value("mgw_messages_lost_total", hint="task.changed") == before + count
    cancel_task(task)
    assert task.status == "cancelled"


def test_deleted_imports_whose_files_remain_count_as_due_removals(read_metrics, storage):
    delete_import(make_upload(make_user(), b"{}"))
    assert read_metrics()["mgw_removals_due"] == 1


def test_sweep_counts_what_it_changed(read_metrics):
    before = metric_value("mgw_sweep_moved_total", what="devices_hinted")
    make_waiting_task()
    sweep()
    assert metric_value("mgw_sweep_moved_total", what="devices_hinted") == before + 1


def test_scrape_has_a_fixed_number_of_queries(client, django_assert_num_queries):
    for _ in range(3):
        make_waiting_task()
    client.get("/metrics", headers=TOKEN)
    rows.forget()
    with django_assert_num_queries(9):
        client.get("/metrics", headers=TOKEN)
    with django_assert_num_queries(0):  # the values are cached for some seconds
        client.get("/metrics", headers=TOKEN)


def test_each_metric_name_has_a_unit_or_is_a_count(read_metrics):
    units = ("seconds", "bytes", "total", "info", "bucket", "count", "sum", "created")
    counted = {
        "mgw_queue_tasks", "mgw_tasks_live", "mgw_results_overdue", "mgw_workers",
        "mgw_workers_unavailable", "mgw_removals_due", "mgw_imports_unread", "mgw_sockets_open",
        "mgw_database_readable", "mgw_database_pool",
    }  # fmt: skip
    names = {name.partition("{")[0] for name in read_metrics() if name.startswith("mgw_")}
    assert {n for n in names if not n.endswith(units)} <= counted
