"""Tests of `/readyz` and `/healthz` while the parts that a process needs fail and return."""

import asyncio
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import RequestFactory

from webprofile.observability import ready, requests
from webprofile.observability.ready import PATIENCE_S, NotReadyError, Readiness
from webprofile.observability.tests.parts import redis_server
from webprofile.operations import views
from webprofile.settings.connections import patient


@pytest.fixture
def fresh(monkeypatch):
    """Nothing was found yet."""

    def replace(checks):
        monkeypatch.setattr(views, "readiness", Readiness(checks))

    return replace


ALL = {
    "database": ready.check_database,
    "migrations": ready.CheckMigrations(),
    "channel_layer": ready.check_channel_layer,
    "broker": ready.check_broker,
    "storage": ready.check_storage,
}


def test_a_site_with_all_its_parts_is_ready(client, fresh, transactional_db, storage):
    fresh(ALL)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "missing": []})
    assert "no-cache" in answer["Cache-Control"]


def test_what_is_away_is_named_and_nothing_else_is_told(client, fresh, transactional_db, settings):
    settings.S3_ENDPOINT_URL = "http://storage.internal.example:9"
    settings.CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "webprofile.realtime.layer.PatientLayer",
            "CONFIG": {"hosts": ["redis://:hush@127.0.0.1:9/0"]},
        }
    }
    fresh(ALL)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "missing": ["channel_layer", "storage"]}


def recorded(act):
    """Change what is recorded as applied, by a connection as another process has one."""

    def change():
        (newest,) = MigrationLoader(None).graph.leaf_nodes("tasks")
        act(MigrationRecorder(connection), *newest)
        connection.close()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(change).result()


def test_a_migration_that_is_missing_keeps_requests_away(client, fresh, transactional_db):
    recorded(MigrationRecorder.record_unapplied)
    try:
        fresh({"migrations": ready.CheckMigrations()})
        assert client.get("/readyz").json()["missing"] == ["migrations"]
    finally:
        recorded(MigrationRecorder.record_applied)


def test_a_redis_that_stops_and_comes_back_is_seen(client, fresh, settings, tmp_path):
    with redis_server(tmp_path) as (address, server):
        settings.CHANNEL_LAYERS = {
            "default": {
                "BACKEND": "webprofile.realtime.layer.PatientLayer",
                "CONFIG": {"hosts": [{"address": patient(address)}]},
            }
        }
        checks = {"channel_layer": ready.check_channel_layer}
        fresh(checks)
        assert client.get("/readyz").status_code == 200
        server.send_signal(signal.SIGSTOP)
        fresh(checks)
        assert client.get("/readyz").json()["missing"] == ["channel_layer"]
        server.send_signal(signal.SIGCONT)
        # the layer rests for a moment before it tries again
        for _ in range(20):
            fresh(checks)
            if client.get("/readyz").status_code == 200:
                return
        raise AssertionError("it is not seen that Redis is back")


def test_a_part_that_hangs_costs_one_thread_and_little_time_however_often_it_is_asked(client):
    release, tried = threading.Event(), []

    def hang():
        tried.append(1)
        release.wait()

    readiness = Readiness({"slow": hang, "good": lambda: None})
    began = time.monotonic()
    assert readiness.missing() == ["slow"]
    assert time.monotonic() - began < PATIENCE_S + 1
    readiness._found_at = float("-inf")  # what was found is old
    assert readiness.missing() == ["slow"]
    assert tried == [1]
    release.set()


def test_many_probes_at_once_are_one_look():
    looks = []

    def look():
        looks.append(1)
        time.sleep(0.05)

    readiness = Readiness({"part": look})
    asking = [threading.Thread(target=readiness.missing) for _ in range(20)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert looks == [1]


def test_whatever_a_check_raises_says_not_ready():
    def fail():
        raise NotReadyError("a secret address")

    assert Readiness({"part": fail}).missing() == ["part"]


def test_health_touches_nothing(client, settings):
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    answer = client.get("/healthz")  # a test without a database
    assert (answer.status_code, answer.text) == (200, "ok\n")


async def test_after_term_a_process_says_that_it_drains_and_ends_later(
    client, fresh, settings, monkeypatch
):
    monkeypatch.setattr(requests, "_draining", threading.Event())
    monkeypatch.setattr(requests, "_heard_term", [])
    settings.DRAIN_S = 0.2
    ended = asyncio.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        requests.listen_for_term()
        fresh({})
        assert views.readyz(_get()).status_code == 200
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        answer = views.readyz(_get())
        assert answer.status_code == 503
        assert b"draining" in answer.content
        assert views.readyz(_get("/readyz?own")).status_code == 503
        assert not ended.is_set()
        await asyncio.wait_for(ended.wait(), 5)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_proxy_passes_no_server_over_for_a_part_that_all_share(fresh):
    def away():
        raise OSError

    fresh({"storage": away})
    assert views.readyz(_get()).status_code == 503
    assert views.readyz(_get("/readyz?own")).status_code == 200


def _get(address="/readyz"):
    return RequestFactory().get(address)
