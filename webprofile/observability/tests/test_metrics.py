"""Tests of `/metrics`: access, and values compared with the database."""

import datetime

import pytest
from django.db.models import F
from django.utils import timezone
from prometheus_client import REGISTRY

from profiles.retention.policy import POLICIES, purge
from tasks.lifecycle import attempts
from tasks.lifecycle.cancel import cancel_task
from tasks.lifecycle.counters import count_outcomes
from tasks.lifecycle.sweep import sweep
from tasks.models import Attempt, EndTally, Mark, Task
from tasks.tests.make import (
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
from webprofile.observability.exposition import FORMER_NAMES, registry, text_of
from webprofile.observability.tests.parts import samples
from webprofile.operations.metrics import rows
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
def read(client):
    def read():
        rows.forget()
        answer = client.get("/metrics", headers=TOKEN)
        assert answer.status_code == 200
        return samples(answer.text)

    return read


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Basic read-me", "Bearer read-m"])
def test_metrics_do_not_exist_for_who_brings_no_token(client, header):
    answer = client.get("/metrics", headers={"Authorization": header})
    assert answer.status_code == 404
    assert b"mgw_" not in answer.content


@pytest.mark.parametrize("known", ["older", "read-me"])
def test_while_a_token_is_changed_both_are_good(client, known):
    headers = {"Authorization": f"Bearer {known}"}
    assert client.get("/metrics", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("10.1.2.3", {}, 200),
        ("10.2.2.3", {}, 404),
        ("::1", {}, 200),
        # a proxy in the network asks for anybody
        ("10.1.2.3", {"X-Forwarded-For": "10.1.2.3"}, 404),
        ("10.1.2.3", {"Forwarded": "for=10.1.2.3"}, 404),
        ("", {}, 404),
    ],
)
def test_a_network_may_read_only_what_it_asks_for_directly(
    client, settings, address, headers, status
):
    settings.METRICS_NETWORKS = ["10.1.0.0/16", "::1/128"]
    assert client.get("/metrics", headers=headers, REMOTE_ADDR=address).status_code == status


def test_an_administrators_session_reads_no_metrics(client):
    client.force_login(make_user("admin", is_staff=True))
    assert client.get("/metrics").status_code == 404


def test_the_queue_is_told_by_tier_with_the_age_of_its_oldest(read):
    make_task()
    assert read()['mgw_queue_tasks{tier="usual"}'] == 0
    make_waiting_task()
    old = make_waiting_task(priority=0)
    Task.objects.filter(pk=old.pk).update(
        submitted_at=timezone.now() - datetime.timedelta(seconds=90), priority=50
    )
    metrics = read()
    assert (
        metrics['mgw_queue_tasks{tier="usual"}'] == metrics['mgw_queue_tasks{tier="raised"}'] == 1
    )
    assert metrics['mgw_queue_tasks{tier="health"}'] == 0
    assert 90 <= metrics['mgw_queue_oldest_age_seconds{tier="raised"}'] < 120
    assert metrics['mgw_queue_oldest_age_seconds{tier="usual"}'] < 30
    assert metrics['mgw_tasks_live{state="waiting"}'] == 2
    assert metrics['mgw_tasks_live{state="initiated"}'] == 1


def test_renamed_metrics_keep_their_former_names_for_a_release(read):
    make_worker("d", is_enabled=False)
    metrics = read()
    for former in ("mgw_workers_out", "mgw_workers_unavailable"):
        assert metrics[former + '{why="drained"}'] == 1
    assert metrics["mgw_opened_unread"] == metrics["mgw_imports_unread"] == 0
    text = text_of(registry()).decode()
    assert "# TYPE mgw_hints_lost_total counter" in text
    assert "# TYPE mgw_ingest_seconds histogram" in text


def test_devices_are_told_by_their_last_heartbeat(read):
    make_worker("a")
    go_offline(make_worker("b"))
    make_worker("c", online=False)
    make_worker("d", is_enabled=False)
    metrics = read()
    beats = {
        beat: metrics[f'mgw_workers{{beat="{beat}"}}'] for beat in ("on_time", "lost", "never")
    }
    assert beats == {"on_time": 1, "lost": 1, "never": 1}
    assert metrics['mgw_workers_unavailable{why="drained"}'] == 1


def end_some(settle=True):
    """One attempt that succeeded, one that failed, one that was lost."""
    well, badly, silent = (make_attempt(make_waiting_task(worker=make_worker())) for _ in range(3))
    receive_report(well, finished_report(well))
    receive_report(badly, finished_report(badly, exit_code=134))
    attempts.lose_attempt(silent, reason="lease_expired")
    if settle:
        Attempt.objects.update(ended_at=timezone.now() - datetime.timedelta(seconds=20))


def test_ends_of_attempts_are_counted_once_and_outlive_their_rows(read):
    end_some()
    assert count_outcomes() == 3
    assert count_outcomes() == 0
    Task.objects.all().delete()
    metrics = read()
    name = "mgw_attempts_ended_total"
    assert metrics[f'{name}{{outcome="succeeded",reason="exited"}}'] == 1
    assert metrics[f'{name}{{outcome="failed",reason="exited"}}'] == 1
    assert metrics[f'{name}{{outcome="lost",reason="lease_expired"}}'] == 1


def test_an_end_that_may_not_be_committed_yet_is_counted_later():
    end_some(settle=False)
    assert count_outcomes() == 0
    # some seconds pass
    passed = datetime.timedelta(seconds=20)
    Mark.objects.update(at=F("at") - passed)
    Attempt.objects.update(ended_at=F("ended_at") - passed)
    assert count_outcomes() == 3


def test_what_is_purged_before_it_was_counted_does_not_disturb(read):
    end_some()
    sweep()
    purge(POLICIES["tasks"], 0)
    sweep()
    assert sum(EndTally.objects.values_list("number", flat=True)) == 3


def test_a_sweep_that_stopped_is_seen_by_its_age(read):
    assert "mgw_sweep_age_seconds" not in read()
    sweep()
    assert read()["mgw_sweep_age_seconds"] < 5
    Mark.objects.update(at=timezone.now() - datetime.timedelta(seconds=100))
    assert 80 < read()["mgw_sweep_age_seconds"] < 90


def grown(name, before, **labels):
    return (REGISTRY.get_sample_value(name, labels) or 0) - before.get((name, *labels.values()), 0)


def test_the_way_of_a_task_is_counted_and_timed():
    names = [
        ("mgw_dispatch_seconds_count", {"stage": "assigned"}),
        ("mgw_dispatch_seconds_count", {"stage": "started"}),
        ("mgw_task_moves_total", {"to": "running", "outcome": "", "reason": ""}),
        ("mgw_task_moves_total", {"to": "finished", "outcome": "failed", "reason": "crashed"}),
    ]
    before = {(n, *at.values()): REGISTRY.get_sample_value(n, at) or 0 for n, at in names}
    attempt = make_attempt()
    receive_report(attempt, started_report(attempt))
    receive_report(attempt, finished_report(attempt, exit_code=134))
    assert [grown(name, before, **labels) for name, labels in names] == [1, 1, 1, 1]


def test_storage_is_timed_and_its_errors_counted(storage, settings):
    def of(name, **labels):
        return REGISTRY.get_sample_value(name, labels) or 0

    heads, errors = (
        of("mgw_storage_seconds_count", operation="HeadObject"),
        of("mgw_storage_errors_total", operation="HeadObject", kind="unreachable"),
    )
    assert object_store.head("nothing") is None
    assert of("mgw_storage_seconds_count", operation="HeadObject") == heads + 1
    assert of("mgw_storage_errors_total", operation="HeadObject", kind="unreachable") == errors
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    with pytest.raises(DomainError):
        object_store.head("nothing")
    assert of("mgw_storage_errors_total", operation="HeadObject", kind="unreachable") == errors + 1


def test_a_lost_hint_is_counted_and_the_task_goes_on(
    settings, django_capture_on_commit_callbacks, monkeypatch, caplog
):
    def of():
        return REGISTRY.get_sample_value("mgw_messages_lost_total", {"hint": "task.changed"}) or 0

    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "no.such.layer"}}
    before = of()
    with django_capture_on_commit_callbacks(execute=True):
        task = make_task()
    assert of() == before + 1
    cancel_task(task)
    assert task.status == "cancelled"


def test_the_sweep_says_what_it_moved(read):
    def of(what):
        return REGISTRY.get_sample_value("mgw_sweep_moved_total", {"what": what}) or 0

    before = of("devices_hinted")
    make_waiting_task()
    sweep()
    assert of("devices_hinted") == before + 1


def test_a_scrape_makes_few_queries_however_many_rows_there_are(client, django_assert_num_queries):
    for _ in range(3):
        make_waiting_task()
    client.get("/metrics", headers=TOKEN)
    rows.forget()
    with django_assert_num_queries(9):
        client.get("/metrics", headers=TOKEN)
    with django_assert_num_queries(0):  # for some seconds nobody is asked again
        client.get("/metrics", headers=TOKEN)


def test_a_metric_has_a_unit_or_counts_something(read):
    units = ("seconds", "bytes", "total", "info", "bucket", "count", "sum", "created")
    counted = {
        "mgw_queue_tasks", "mgw_tasks_live", "mgw_results_overdue", "mgw_workers",
        "mgw_workers_unavailable", "mgw_removals_due", "mgw_imports_unread", "mgw_sockets_open",
        "mgw_database_readable", "mgw_database_pool",
    }  # fmt: skip
    names = {name.partition("{")[0] for name in read() if name.startswith("mgw_")}
    assert {n for n in names if not n.endswith(units)} <= counted | {*FORMER_NAMES.values()}
