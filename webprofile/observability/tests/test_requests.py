"""Tests of the outermost ASGI layer: request ids, access log, counters and WebSockets."""

import asyncio
import uuid

import pytest
from channels.testing import ApplicationCommunicator, WebsocketCommunicator
from prometheus_client import REGISTRY

from accounts.tokens.access import issue_token
from accounts.tokens.refresh import issue_token_pair
from tasks.tests.make import make_task, make_user
from webprofile.asgi import application
from webprofile.observability import requests
from webprofile.observability.requests import loggable, route_class, socket_kind
from webprofile.observability.tests.parts import json_lines
from webprofile.operations import views

pytestmark = pytest.mark.django_db(transaction=True)


async def ask(path, query="", **headers):
    """(status, headers) of a GET."""
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


def of(name, **labels):
    return REGISTRY.get_sample_value(name, labels) or 0


async def test_an_answer_names_its_request_and_the_log_says_the_same():
    with json_lines() as lines:
        status, headers = await ask("/docs/options/", "token=mwp_hush")
    (line,) = lines.of("request_answered")
    assert (status, line["status"]) == (200, 200)
    assert line["request_id"].encode() == headers[b"x-request-id"]
    assert (line["method"], line["path"]) == ("GET", "/docs/options/")
    assert line["ms"] > 0
    assert "hush" not in "".join(lines.texts)


async def test_a_proxys_id_is_kept_and_nonsense_is_not():
    given = uuid.uuid4().hex
    _, headers = await ask("/docs/options/", x_request_id=given)
    assert headers[b"x-request-id"].decode() == given
    for bad in ("short", "x" * 65, "a b c d e f g h", 'line"; drop'):
        _, headers = await ask("/docs/options/", x_request_id=bad)
        assert headers[b"x-request-id"].decode() != bad


async def test_requests_are_counted_by_class_and_status():
    before = [
        of("mgw_http_responses_total", route="tasks", status="302"),
        of("mgw_http_responses_total", route="other", status="404"),
        of("mgw_http_request_seconds_count", route="tasks"),
    ]
    await ask("/tasks/")
    await ask("/wp-login.php")
    after = [
        of("mgw_http_responses_total", route="tasks", status="302"),
        of("mgw_http_responses_total", route="other", status="404"),
        of("mgw_http_request_seconds_count", route="tasks"),
    ]
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1, 1]


async def test_probes_are_not_in_the_log_unless_they_fail():
    with json_lines() as lines:
        await ask("/healthz")
        await ask("/metrics")
    assert [(line["path"], line["status"]) for line in lines.of("request_answered")] == [
        ("/metrics", 404)
    ]


async def test_a_part_that_is_away_is_no_bug(monkeypatch):
    monkeypatch.setattr(views.readiness, "missing", lambda: ["storage"])
    with json_lines() as lines:
        status, _ = await ask("/readyz")
    assert status == 503
    assert {line["level"] for line in lines.facts} == {"info"}


async def test_a_socket_is_counted_while_it_is_open_and_told_when_it_ends():
    before = of("mgw_socket_closes_total", kind="agent", code="4401")
    with json_lines() as lines:
        socket = WebsocketCommunicator(application, "/ws/agent/")
        await socket.connect(timeout=10)
        assert await socket.receive_output(10) == {"type": "websocket.close", "code": 4401}
        assert of("mgw_sockets_open", kind="agent") == 1
        await socket.disconnect(timeout=10)
    assert of("mgw_sockets_open", kind="agent") == 0
    assert of("mgw_socket_closes_total", kind="agent", code="4401") == before + 1
    (line,) = lines.of("socket_closed")
    assert line["path"] == "/ws/agent/"
    assert line["request_id"]


async def test_the_loops_lag_is_measured(monkeypatch):
    monkeypatch.setattr(requests, "LOOP_EVERY_S", 0.01)
    before = of("mgw_event_loop_lag_seconds_count")
    watching = asyncio.create_task(requests._measure_loop())
    await asyncio.sleep(0.1)
    watching.cancel()
    assert of("mgw_event_loop_lag_seconds_count") > before


async def test_a_server_with_a_lifespan_starts_and_stops():
    server = ApplicationCommunicator(application, {"type": "lifespan"})
    for word in ("startup", "shutdown"):
        await server.send_input({"type": f"lifespan.{word}"})
        assert await server.receive_output(10) == {"type": f"lifespan.{word}.complete"}
    await server.wait(10)


def test_lines_of_a_request_name_the_user_and_the_task_but_no_mail(client):
    user = make_user("alice")
    task = make_task(user)
    client.force_login(user)
    with json_lines() as lines:
        client.post(f"/tasks/{task.pk}/cancel/")
    (line,) = lines.of("task_moved")
    assert (line["task"], line["user"], line["state"]) == (task.pk, user.pk, "finished")
    assert user.email not in "".join(lines.texts)


@pytest.mark.django_db
def test_a_request_with_a_token_names_the_user_too(client, monkeypatch):
    user = make_user("alice")
    secrets = (
        issue_token_pair(user).access,
        issue_token(user, name="script", scopes=["read"], days=1)[1],
    )
    noted = []
    monkeypatch.setattr(
        "webprofile.api.authentication.note", lambda request, **facts: noted.append(facts)
    )
    for secret in secrets:
        answer = client.get("/api/v1/problems/", headers={"authorization": f"Bearer {secret}"})
        assert answer.status_code == 200
    assert noted == [{"user": user.pk}] * 2


@pytest.mark.parametrize(
    ("path", "word"),
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
def test_every_path_has_a_class(path, word):
    assert route_class(path) == word


def test_a_socket_has_a_kind():
    kinds = [socket_kind(path) for path in ("/ws/agent/", "/ws/tasks/7/", "/ws/x", "/", "")]
    assert kinds == ["agent", "browser", "other", "other", "other"]


def test_keys_of_mails_are_not_logged():
    path = "/accounts/password/reset/key/3-cxp1bn-4f8e0ab6a1d7e2d3b2a9/"
    assert loggable(path) == "/accounts/password/reset/key/*/"
    assert len(loggable("/x" * 5000)) == 200
