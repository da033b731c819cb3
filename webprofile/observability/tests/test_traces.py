"""Tests of tracing: off by default; the trace of a whole task, received by an OTLP server."""

import hashlib
import json
import os
import subprocess
import sys
import time

import httpx2
import pytest
from django.conf import settings as django_settings
from django.core.checks import run_checks

from agent.protocol.messages import AttemptUploads, FileOffer, Phase
from profiles.actors import build_profile
from profiles.tests.make import make_profile, to_json
from tasks.dispatch import gateway
from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting
from tasks.tests.make import (
    TASKS,
    finished_report,
    make_task,
    make_user,
    make_worker,
    started_report,
    task_request,
    upload_files,
)
from webprofile.observability import request_traces, trace_context, tracing
from webprofile.observability.tests.collector import collector

pytestmark = pytest.mark.django_db

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


@pytest.fixture
def client(client):
    """A client that is logged in as alice."""
    client.force_login(make_user("alice"))
    return client


@pytest.fixture
def collect_spans(settings, monkeypatch):
    """Function that returns the collected spans. Tracing is on."""
    with collector() as server:
        settings.TRACING = True
        settings.MIDDLEWARE = list(settings.MIDDLEWARE)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.address)
        request_traces.begin()

        def spans():
            tracing.processor().force_flush()
            return server.spans

        yield spans
        request_traces.end()
        tracing.processor().shutdown()
    tracing.processor.cache_clear()
    tracing.provider.cache_clear()


def create_task(client):
    """Create a task as a page does that has started a trace."""
    body = json.dumps(task_request())
    return client.post(TASKS, body, content_type="application/json", headers=PARENT).json()


def run_attempt(attempt, **report):
    """Report and upload a finished attempt as its agent."""
    worker, content = attempt.worker, to_json(make_profile({"1": 0.25}))
    gateway.handle(worker, started_report(attempt))
    offer = FileOffer(
        name="profile.json", size_bytes=len(content), md5=hashlib.md5(content).hexdigest()
    )
    (answer,) = gateway.handle(worker, AttemptUploads(attempt=attempt.pk, files=(offer,)))
    (target,) = answer.targets
    httpx2.put(target.url, content=content, headers=target.headers).raise_for_status()
    now = time.time()
    phases = (
        Phase(name="download", started_at=now - 3, ended_at=now - 2),
        Phase(name="pass profiled", started_at=now - 2, ended_at=now - 1),
        Phase(name="upload", started_at=now - 1, ended_at=now),
    )
    gateway.handle(worker, finished_report(attempt, files=(offer,), phases=phases, **report))


def test_trace_spans_browser_server_and_agent(client, storage, collect_spans):
    now_ms = int(time.time() * 1000)
    created = create_task(client)
    upload_files(created)
    phases = f"hash;{now_ms - 5000};{now_ms - 4000},upload;{now_ms - 4000};{now_ms}"
    client.post(f"{TASKS}{created['id']}/submit/", headers=PARENT | {"x-trace-phases": phases})
    assign_waiting()
    attempt = Attempt.objects.get(task=created["id"])
    start = next(m for m in gateway.desired_state(attempt.worker_id) if m.type == "start")
    assert (start.traceparent, start.task) == (PARENT["traceparent"], created["id"])
    run_attempt(attempt)
    build_profile.fn(str(attempt.pk))
    assert Task.objects.get().outcome == "succeeded"

    spans = collect_spans()
    assert {span.trace for span in spans} == {TRACE}
    names = {span.span: span.name for span in spans}
    assert len(names) == len(spans)
    tree = sorted((span.service, span.name, names.get(span.parent, "")) for span in spans)
    assert tree == [
        ("mgw-actor", "build_profile", "attempt"),
        ("mgw-agent", "download", "attempt"),
        ("mgw-agent", "pass profiled", "attempt"),
        ("mgw-agent", "upload", "attempt"),
        ("mgw-browser", "hash", "submit"),
        ("mgw-browser", "submit", ""),
        ("mgw-browser", "upload", "submit"),
        ("mgw-server", "POST /api/v1/tasks/", "submit"),
        ("mgw-server", "POST /api/v1/tasks/<int:task_id>/submit/", "submit"),
        ("mgw-server", "attempt", "submit"),
        ("mgw-server", "queue", "submit"),
    ]
    root = next(span for span in spans if span.name == "submit")
    assert (root.span, root.parent, root.started_ns) == (SPAN, "", (now_ms - 5000) * 1_000_000)
    assert all(span.started_ns <= span.ended_ns and not span.failed for span in spans)
    (of_attempt,) = (span for span in spans if span.name == "attempt")
    assert of_attempt.attributes["mgw.attempt"] == str(attempt.pk)


def test_request_without_a_trace_starts_one(client, storage, collect_spans):
    created = client.post(TASKS, task_request(), content_type="application/json").json()
    spans = collect_spans()
    (root,) = spans
    assert (root.name, root.parent) == ("POST /api/v1/tasks/", "")
    task = Task.objects.get(pk=created["id"])
    assert task.traceparent == f"00-{root.trace}-{root.span}-01"


def test_failed_attempt_is_a_failed_span(client, storage, collect_spans):
    created = create_task(client)
    upload_files(created)
    client.post(f"{TASKS}{created['id']}/submit/", headers=PARENT)
    assign_waiting()
    attempt = Attempt.objects.get()
    gateway.handle(attempt.worker, finished_report(attempt, exit_code=134))
    (span,) = (span for span in collect_spans() if span.name == "attempt")
    assert span.failed


@pytest.mark.parametrize(
    "phases",
    [
        "nonsense",
        "hash;1;2",
        "hash;9;99999999999999",
        "hash;-1;5",
        "HASH;1;2",
        ";;",
        "a;1;2," * 999,
    ],
)
def test_invalid_phases_are_dropped(client, collect_spans, phases):
    client.post("/tasks/cancel-all/", headers=PARENT | {"x-trace-phases": phases})
    assert [span.service for span in collect_spans()] == ["mgw-server"]


@pytest.mark.django_db(transaction=True)
async def test_asgi_request_is_a_span(async_client, collect_spans, caplog):
    await async_client.post("/tasks/cancel-all/?key=of-somebody", headers=PARENT)
    (span,) = collect_spans()
    assert (span.trace, span.parent, span.name) == (TRACE, SPAN, "POST /tasks/cancel-all/")
    assert not any("of-somebody" in value for value in span.attributes.values())
    assert [r for r in caplog.records if r.name.startswith("opentelemetry")] == []


def test_unsampled_trace_is_not_recorded(client, collect_spans):
    client.post("/tasks/cancel-all/", headers={"traceparent": f"00-{TRACE}-{SPAN}-00"})
    assert collect_spans() == []


def test_span_has_the_route_pattern_instead_of_the_path(client, collect_spans):
    client.post("/accounts/confirm-email/a-secret-key/?also=secret")
    (span,) = collect_spans()
    assert "secret" not in str((span.name, span.attributes))
    assert not span.failed  # the answer is 404


def test_server_error_is_a_failed_span_without_its_exception(client, collect_spans, monkeypatch):
    monkeypatch.setattr("tasks.views.pages.cancel_task", lambda *_, **__: 1 / 0)
    client.raise_request_exception = False
    task = make_task(make_user("bob"))
    client.force_login(task.owner)
    assert client.post(f"/tasks/{task.pk}/cancel/").status_code == 500
    (span,) = collect_spans()
    # the text of an exception may contain names of files of the user
    assert (span.failed, span.events) == (True, 0)


def test_get_request_starts_no_trace(client, collect_spans):
    client.get("/tasks/")
    assert collect_spans() == []


def test_traceparent_is_not_stored_without_tracing(client, storage):
    create_task(client)
    assert Task.objects.get().traceparent == ""


def test_form_starts_a_trace_only_with_tracing(client, settings):
    make_worker()
    assert b"data-traced" not in client.get("/tasks/new/").content
    settings.TRACING = True
    assert b"data-traced" in client.get("/tasks/new/").content


@pytest.mark.parametrize("text", ["", "00-1-1-01", f"00-{'0' * 32}-{SPAN}-01", f"ff-{TRACE}-x-01"])
def test_invalid_traceparent_is_ignored(text):
    assert tracing.place_of(text) is None


def test_span_id_is_derived_from_its_subject():
    place = tracing.place_of(PARENT["traceparent"])
    assert (f"{place.trace_id:032x}", f"{place.span_id:016x}") == (TRACE, SPAN)
    a, again, b = (tracing.place_within(place, thing).span_id for thing in "aab")
    assert a == again != b


def modules_with(**environment):
    code = (
        "import django, sys; django.setup(); import webprofile.asgi, profiles.actors;"
        "from django.conf import settings;"
        # other packages import the interface of OpenTelemetry
        "ours = ('opentelemetry.exporter', 'opentelemetry.instrumentation');"
        "print(settings.TRACING, any(m.startswith(ours) for m in sys.modules))"
    )
    variables = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    variables |= {"DJANGO_SETTINGS_MODULE": "webprofile.settings.test", **environment}
    command = [sys.executable, "-c", code]
    result = subprocess.run(
        command, cwd=django_settings.BASE_DIR, env=variables, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


@pytest.mark.exhaustive
def test_trace_exporter_is_loaded_only_with_an_endpoint():
    assert modules_with() == ["False", "False"]
    on = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}
    assert modules_with(**on, OTEL_SDK_DISABLED="true") == ["False", "False"]
    assert modules_with(**on) == ["True", "True"]


def test_check_warns_of_tracing_without_its_packages(settings, monkeypatch):
    settings.TRACING = True
    monkeypatch.setattr(trace_context, "is_installed", lambda: False)
    (warning,) = (check for check in run_checks() if check.id == "webprofile.W006")
    assert "requirements/tracing.txt" in warning.hint
    trace_context._is_usable.cache_clear()
    assert trace_context.current() == ""  # no error
    trace_context._is_usable.cache_clear()
