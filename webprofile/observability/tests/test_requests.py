"""Tests of the outermost ASGI layer: request ids, access log, counters and WebSockets."""

import asyncio
import uuid

import pytest
from channels.testing import ApplicationCommunicator, WebsocketCommunicator

from accounts.tokens.access import issue_token
from accounts.tokens.refresh import issue_token_pair
from tasks.tests.make import make_task, make_user
from webprofile.asgi import application
from webprofile.observability import requests
from webprofile.observability.requests import loggable, route_class, socket_kind
from webprofile.observability.tests.parts import json_lines, metric_value
from webprofile.operations import views

in_transactions = pytest.mark.django_db(transaction=True)


async def get(path, query="", **headers):
    """Send a GET request through the ASGI application; return status and headers."""
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"host", b"testserver")]
        + [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()],
        "client": ("127.0.0.1", 1),
    }
    communicator = ApplicationCommunicator(application, scope)
    await communicator.send_input({"type": "http.request", "body": b""})
    start = await communicator.receive_output(10)
    while (await communicator.receive_output(10)).get("more_body"):
        pass
    await communicator.wait(10)
    return start["status"], dict(start["headers"])


async def test_response_and_log_have_the_request_id():
    with json_lines() as lines:
        status, headers = await get("/docs/options/", "token=mwp_hush")
    (line,) = lines.of("request_answered")
    assert (status, line["status"]) == (200, 200)
    assert line["request_id"].encode() == headers[b"x-request-id"]
    assert (line["method"], line["path"]) == ("GET", "/docs/options/")
    assert line["ms"] > 0
    assert "hush" not in "".join(lines.texts)


async def test_valid_request_id_of_a_proxy_is_kept():
    request_id = uuid.uuid4().hex
    _, headers = await get("/docs/options/", x_request_id=request_id)
    assert headers[b"x-request-id"].decode() == request_id
    for invalid in ("short", "x" * 65, "a b c d e f g h", 'line"; drop'):
        _, headers = await get("/docs/options/", x_request_id=invalid)
        assert headers[b"x-request-id"].decode() != invalid


@in_transactions
async def test_requests_are_counted_by_route_class_and_status():
    def counts():
        return [
            metric_value("mgw_http_responses_total", route="tasks", status="302"),
            metric_value("mgw_http_responses_total", route="other", status="404"),
            metric_value("mgw_http_request_seconds_count", route="tasks"),
        ]

    before = counts()
    await get("/tasks/")
    await get("/wp-login.php")
    assert counts() == [value + 1 for value in before]


async def test_only_failed_probes_are_logged():
    with json_lines() as lines:
        await get("/healthz")
        await get("/metrics")
    assert [(line["path"], line["status"]) for line in lines.of("request_answered")] == [
        ("/metrics", 404)
    ]


async def test_missing_part_is_logged_at_level_info(monkeypatch):
    monkeypatch.setattr(views.readiness, "missing", lambda: ["storage"])
    with json_lines() as lines:
        status, _ = await get("/readyz")
    assert status == 503
    assert {line["level"] for line in lines.records} == {"info"}


@in_transactions
async def test_open_sockets_are_counted_and_their_end_is_logged():
    before = metric_value("mgw_socket_closes_total", kind="agent", code="4401")
    with json_lines() as lines:
        socket = WebsocketCommunicator(application, "/ws/agent/")
        await socket.connect(timeout=10)
        assert await socket.receive_output(10) == {"type": "websocket.close", "code": 4401}
        assert metric_value("mgw_sockets_open", kind="agent") == 1
        await socket.disconnect(timeout=10)
    assert metric_value("mgw_sockets_open", kind="agent") == 0
    assert metric_value("mgw_socket_closes_total", kind="agent", code="4401") == before + 1
    (line,) = lines.of("socket_closed")
    assert line["path"] == "/ws/agent/"
    assert line["request_id"]


async def test_event_loop_lag_is_measured(monkeypatch):
    monkeypatch.setattr(requests, "LOOP_EVERY_S", 0.01)
    before = metric_value("mgw_event_loop_lag_seconds_count")
    measurement = asyncio.create_task(requests._measure_loop())
    async with asyncio.timeout(60):
        while metric_value("mgw_event_loop_lag_seconds_count") == before:
            await asyncio.sleep(0.01)
    measurement.cancel()


async def test_lifespan_completes_startup_and_shutdown():
    server = ApplicationCommunicator(application, {"type": "lifespan"})
    for event in ("startup", "shutdown"):
        await server.send_input({"type": f"lifespan.{event}"})
        assert await server.receive_output(10) == {"type": f"lifespan.{event}.complete"}
    await server.wait(10)


@in_transactions
def test_log_lines_of_a_request_have_user_and_task_but_no_email(client):
    user = make_user("alice")
    task = make_task(user)
    client.force_login(user)
    with json_lines() as lines:
        client.post(f"/tasks/{task.pk}/cancel/")
    (line,) = lines.of("task_state_changed")
    assert (line["task"], line["user"], line["state"]) == (task.pk, user.pk, "finished")
    assert user.email not in "".join(lines.texts)


@pytest.mark.django_db
def test_request_with_a_token_notes_its_user(client, monkeypatch):
    user = make_user("alice")
    secrets = (
        issue_token_pair(user).access,
        issue_token(user, name="script", scopes=["read"], days=1)[1],
    )
    notes = []
    monkeypatch.setattr(
        "webprofile.api.authentication.note", lambda request, **facts: notes.append(facts)
    )
    for secret in secrets:
        response = client.get("/api/v1/problems/", headers={"authorization": f"Bearer {secret}"})
        assert response.status_code == 200
    assert notes == [{"user": user.pk}] * 2


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/", "pages"),
        ("/tasks/7/", "tasks"),
        ("/api/v1/tasks/", "api"),
        ("/api/agent/heartbeat/", "heartbeats"),
        ("/api/agent/enrol/", "api_agent"),
        ("/readyz", "probes"),
        ("/../etc", "other"),
        ("", "other"),
        ("*", "other"),
    ],
)
def test_route_class_of_a_path(path, route):
    assert route_class(path) == route


def test_kind_of_a_socket():
    kinds = [socket_kind(path) for path in ("/ws/agent/", "/ws/tasks/7/", "/ws/x", "/", "")]
    assert kinds == ["agent", "browser", "other", "other", "other"]


def test_keys_in_paths_are_not_logged():
    path = "/accounts/password/reset/key/3-cxp1bn-4f8e0ab6a1d7e2d3b2a9/"
    assert loggable(path) == "/accounts/password/reset/key/*/"
    assert len(loggable("/x" * 5000)) == 200
