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
from webprofile.observability.ready import Readiness
from webprofile.observability.tests.parts import redis_layers, redis_server
from webprofile.operations import views


@pytest.fixture
def set_checks(monkeypatch):
    """Function that replaces the checks and forgets their results."""

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


def test_readyz_returns_200_with_all_parts(client, set_checks, transactional_db, storage):
    set_checks(ALL)
    response = client.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"ready": True, "missing": []})
    assert "no-store" in response["Cache-Control"]


def test_readyz_names_only_the_missing_parts(client, set_checks, transactional_db, settings):
    settings.S3_ENDPOINT_URL = "http://storage.internal.example:9"
    settings.CHANNEL_LAYERS = redis_layers("redis://:hush@127.0.0.1:9/0")
    set_checks(ALL)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json() == {"ready": False, "missing": ["channel_layer", "storage"]}


def record(change):
    """Change the recorded state of the last migration over another database connection."""

    def run():
        (newest,) = MigrationLoader(None).graph.leaf_nodes("tasks")
        change(MigrationRecorder(connection), *newest)
        connection.close()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(run).result()


def test_unapplied_migration_is_not_ready(client, set_checks, transactional_db):
    record(MigrationRecorder.record_unapplied)
    try:
        set_checks({"migrations": ready.CheckMigrations()})
        assert client.get("/readyz").json()["missing"] == ["migrations"]
    finally:
        record(MigrationRecorder.record_applied)


def test_readyz_follows_a_redis_that_hangs_and_returns(
    client, set_checks, settings, tmp_path, monkeypatch
):
    monkeypatch.setattr(ready, "GOOD_FOR_S", 0.0)
    with redis_server(tmp_path) as (redis_url, server):
        settings.CHANNEL_LAYERS = redis_layers(redis_url)
        set_checks({"channel_layer": ready.check_channel_layer})
        assert client.get("/readyz").status_code == 200
        server.send_signal(signal.SIGSTOP)
        assert client.get("/readyz").json()["missing"] == ["channel_layer"]
        server.send_signal(signal.SIGCONT)
        # the layer pauses for a moment before it tries again
        deadline = time.monotonic() + 60
        while client.get("/readyz").status_code != 200:
            assert time.monotonic() < deadline, "still not ready after Redis is back"


@pytest.mark.exhaustive
def test_hanging_part_occupies_one_thread():
    release, calls = threading.Event(), []

    def hang():
        calls.append(1)
        release.wait()

    readiness = Readiness({"slow": hang, "good": lambda: None})
    assert readiness.missing() == ["slow"]
    readiness._tested_at = float("-inf")  # the result is out of date
    assert readiness.missing() == ["slow"]
    assert calls == [1]
    release.set()


def test_concurrent_probes_run_one_check():
    calls = []

    def check():
        calls.append(1)
        time.sleep(0.05)

    readiness = Readiness({"part": check})
    with ThreadPoolExecutor(20) as threads:
        for _ in range(20):
            threads.submit(readiness.missing)
    assert calls == [1]


def test_healthz_uses_neither_database_nor_storage(client, settings):
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    response = client.get("/healthz")  # a test without a database
    assert (response.status_code, response.text) == (200, "ok\n")


async def test_process_drains_after_sigterm(client, set_checks, settings, monkeypatch):
    monkeypatch.setattr(requests, "_draining", threading.Event())
    monkeypatch.setattr(requests, "_heard_term", [])
    settings.DRAIN_S = 0.2
    ended = asyncio.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        requests.listen_for_term()
        set_checks({})
        assert views.readyz(_get()).status_code == 200
        os.kill(os.getpid(), signal.SIGTERM)
        response = views.readyz(_get())
        assert response.status_code == 503
        assert b"draining" in response.content
        assert views.readyz(_get("/readyz?own")).status_code == 503
        # the server's handler runs in the event loop, which has not run since
        assert not ended.is_set()
        await asyncio.wait_for(ended.wait(), 60)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_readyz_own_ignores_shared_parts(set_checks):
    def fail():
        raise OSError

    set_checks({"storage": fail})
    assert views.readyz(_get()).status_code == 503
    assert views.readyz(_get("/readyz?own")).status_code == 200


def _get(path="/readyz"):
    return RequestFactory().get(path)
