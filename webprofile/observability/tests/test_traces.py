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

from agent.protocol import AttemptUploads, FileOffer, Phase
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

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


@pytest.fixture
def collected(settings, monkeypatch):
    """Traces are on; call it for the spans that arrived."""
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


def run_as_an_agent(attempt, **report):
    """What an agent says, and what it stores."""
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


@pytest.mark.django_db
def test_one_trace_goes_from_the_browser_to_the_agent(client, storage, collected):
    client.force_login(make_user("alice"))
    now_ms = int(time.time() * 1000)
    made = client.post(
        TASKS, json.dumps(task_request()), content_type="application/json", headers=PARENT
    ).json()
    upload_files(made)
    phases = f"hash;{now_ms - 5000};{now_ms - 4000},upload;{now_ms - 4000};{now_ms}"
    client.post(f"{TASKS}{made['id']}/submit/", headers=PARENT | {"x-trace-phases": phases})
    assign_waiting()
    attempt = Attempt.objects.get(task=made["id"])
    start = next(m for m in gateway.desired_state(attempt.worker_id) if m.type == "start")
    assert (start.traceparent, start.task) == (PARENT["traceparent"], made["id"])
    run_as_an_agent(attempt)
    build_profile.fn(str(attempt.pk))
    assert Task.objects.get().outcome == "succeeded"

    spans = collected()
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


@pytest.mark.django_db
def test_a_script_that_names_no_trace_begins_one_with_its_request(client, storage, collected):
    client.force_login(make_user("alice"))
    made = client.post(TASKS, task_request(), content_type="application/json").json()
    spans = collected()
    (root,) = spans
    assert (root.name, root.parent) == ("POST /api/v1/tasks/", "")
    task = Task.objects.get(pk=made["id"])
    assert task.traceparent == f"00-{root.trace}-{root.span}-01"


@pytest.mark.django_db
def test_a_failed_attempt_is_a_failed_span(client, storage, collected):
    client.force_login(make_user("alice"))
    made = client.post(
        TASKS, json.dumps(task_request()), content_type="application/json", headers=PARENT
    ).json()
    upload_files(made)
    client.post(f"{TASKS}{made['id']}/submit/", headers=PARENT)
    assign_waiting()
    attempt = Attempt.objects.get()
    gateway.handle(attempt.worker, finished_report(attempt, exit_code=134))
    (span,) = (span for span in collected() if span.name == "attempt")
    assert span.failed


@pytest.mark.django_db
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
def test_times_that_cannot_be_are_left_out(client, collected, phases):
    client.force_login(make_user("alice"))
    client.post("/tasks/cancel-all/", headers=PARENT | {"x-trace-phases": phases})
    assert [span.service for span in collected()] == ["mgw-server"]


@pytest.mark.django_db(transaction=True)
async def test_a_request_that_a_server_of_asgi_takes_is_a_span_too(async_client, collected, caplog):
    await async_client.post("/tasks/cancel-all/?key=of-somebody", headers=PARENT)
    (span,) = collected()
    assert (span.trace, span.parent, span.name) == (TRACE, SPAN, "POST /tasks/cancel-all/")
    assert not any("of-somebody" in value for value in span.attributes.values())
    assert [r for r in caplog.records if r.name.startswith("opentelemetry")] == []


@pytest.mark.django_db
def test_a_caller_that_keeps_no_trace_has_none_here(client, collected):
    client.force_login(make_user("alice"))
    client.post("/tasks/cancel-all/", headers={"traceparent": f"00-{TRACE}-{SPAN}-00"})
    assert collected() == []


@pytest.mark.django_db
def test_an_address_with_a_key_is_told_as_its_pattern(client, collected):
    client.post("/accounts/confirm-email/a-secret-key/?also=secret")
    (span,) = collected()
    assert "secret" not in str((span.name, span.attributes))
    assert not span.failed  # the answer is 404


@pytest.mark.django_db
def test_a_request_that_breaks_the_site_is_a_failed_span_without_its_exception(
    client, collected, monkeypatch
):
    monkeypatch.setattr("tasks.views.pages.cancel_task", lambda *_, **__: 1 / 0)
    client.raise_request_exception = False
    task = make_task()
    client.force_login(task.owner)
    assert client.post(f"/tasks/{task.pk}/cancel/").status_code == 500
    (span,) = collected()
    # the text of an exception may hold names of a user's files
    assert (span.failed, span.events) == (True, 0)


@pytest.mark.django_db
def test_reading_a_page_is_no_trace_of_its_own(client, collected):
    client.force_login(make_user("alice"))
    client.get("/tasks/")
    assert collected() == []


@pytest.mark.django_db
def test_without_traces_what_a_page_says_of_them_is_not_kept(client, storage):
    client.force_login(make_user("alice"))
    client.post(TASKS, json.dumps(task_request()), content_type="application/json", headers=PARENT)
    assert Task.objects.get().traceparent == ""


@pytest.mark.django_db
def test_the_form_makes_a_trace_only_where_traces_are_kept(client, settings):
    client.force_login(make_user("alice"))
    make_worker()
    assert b"data-traced" not in client.get("/tasks/new/").content
    settings.TRACING = True
    assert b"data-traced" in client.get("/tasks/new/").content


@pytest.mark.parametrize("text", ["", "00-1-1-01", f"00-{'0' * 32}-{SPAN}-01", f"ff-{TRACE}-x-01"])
def test_a_parent_that_is_none_is_none(text):
    assert tracing.place_of(text) is None


def test_processes_agree_on_the_span_of_a_thing():
    place = tracing.place_of(PARENT["traceparent"])
    assert (f"{place.trace_id:032x}", f"{place.span_id:016x}") == (TRACE, SPAN)
    a, again, b = (tracing.place_within(place, thing).span_id for thing in "aab")
    assert a == again != b


def modules_with(**environment):
    code = (
        "import django, sys; django.setup(); import webprofile.asgi, profiles.actors;"
        "from django.conf import settings;"
        # others import OpenTelemetry's interface where it is installed
        "ours = ('opentelemetry.exporter', 'opentelemetry.instrumentation');"
        "print(settings.TRACING, any(m.startswith(ours) for m in sys.modules))"
    )
    variables = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    variables |= {"DJANGO_SETTINGS_MODULE": "webprofile.settings.test", **environment}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=django_settings.BASE_DIR, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.exhaustive
def test_nothing_that_sends_traces_is_loaded_unless_it_is_asked_for():
    assert modules_with() == ["False", "False"]
    on = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}
    assert modules_with(**on, OTEL_SDK_DISABLED="true") == ["False", "False"]
    assert modules_with(**on) == ["True", "True"]


def test_traces_that_nothing_can_send_are_explained(settings, monkeypatch):
    settings.TRACING = True
    monkeypatch.setattr(trace_context, "is_installed", lambda: False)
    (warning,) = (check for check in run_checks() if check.id == "webprofile.W006")
    assert "requirements/tracing.txt" in warning.hint
    trace_context._is_usable.cache_clear()
    assert trace_context.current() == ""  # is no error
    trace_context._is_usable.cache_clear()
