"""Heartbeats by HTTP, from agents that do not use their socket while they measure."""

import datetime
import json
import time
import uuid

import pytest
from django.test import Client
from django.utils import timezone

from tasks.lifecycle.attempts import lose_attempt
from tasks.lifecycle.cancel import cancel_task
from tasks.models import Attempt
from tasks.tests.make import make_attempt, make_waiting_task, make_worker, set_last_heartbeat
from workers.services import revoke_worker
from workers.tokens import issue_code, redeem_code

pytestmark = pytest.mark.django_db

LONG_AGO = timezone.now() - datetime.timedelta(hours=1)


def token_of(worker):
    return redeem_code(issue_code(worker))[1]


def make_running_attempt(worker):
    return make_attempt(make_waiting_task(worker=worker))


def send_heartbeat(client, token, running=(), **changes):
    body = {"running": [str(attempt) for attempt in running], "sent_at": time.time(), **changes}
    return post(client, token, json.dumps(body))


def post(client, token, body):
    headers = {"Authorization": f"Bearer {token}"}
    return client.post(
        "/api/agent/heartbeat/", body, content_type="application/json", headers=headers
    )


def test_a_heartbeat_renews_the_leases_of_its_attempts_and_the_device_is_online():
    worker = make_worker()
    attempt = make_running_attempt(worker)
    Attempt.objects.update(lease_expires_at=LONG_AGO)
    set_last_heartbeat(LONG_AGO)
    # no cookie and no CSRF token: an agent has neither
    answer = send_heartbeat(Client(enforce_csrf_checks=True), token_of(worker), [attempt.pk])
    assert answer.status_code == 200
    assert abs(answer.json()["server_time"] - time.time()) < 60
    attempt.refresh_from_db()
    worker.refresh_from_db()
    assert attempt.lease_expires_at > timezone.now()
    assert worker.is_online


def test_a_heartbeat_renews_no_other_leases(client):
    worker, other = make_worker("one"), make_worker("two")
    own, foreign = make_running_attempt(worker), make_running_attempt(other)
    Attempt.objects.update(lease_expires_at=LONG_AGO)
    assert send_heartbeat(client, token_of(worker), [foreign.pk, uuid.uuid4()]).status_code == 200
    for attempt in (own, foreign):
        attempt.refresh_from_db()
        assert attempt.lease_expires_at == LONG_AGO


def test_the_response_says_whether_the_device_has_orders(client):
    worker = make_worker()
    token, attempt = token_of(worker), make_running_attempt(worker)
    assert send_heartbeat(client, token, [attempt.pk]).json()["has_orders"] is False
    # the message that wakes the device's socket is lost, for example because Redis is away
    cancel_task(attempt.task)
    assert send_heartbeat(client, token, [attempt.pk]).json()["has_orders"] is True


def test_a_device_that_runs_an_ended_attempt_has_orders(client):
    worker = make_worker()
    token, attempt = token_of(worker), make_running_attempt(worker)
    lose_attempt(attempt, reason="agent_error")
    assert send_heartbeat(client, token, [attempt.pk]).json()["has_orders"] is True


def test_an_invalid_token_has_the_same_error_as_the_token_check(client):
    worker = make_worker()
    token = token_of(worker)
    revoke_worker(worker, by=None)
    set_last_heartbeat(None)
    assert send_heartbeat(client, token).status_code == 403
    assert send_heartbeat(client, "mgw_x").status_code == 401
    assert client.post("/api/agent/heartbeat/").status_code == 401
    worker.refresh_from_db()
    assert worker.last_seen_at is None


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "no json",
        "{}",
        '{"sent_at": 1, "running": "all"}',
        '{"sent_at": 1, "running": [1]}',
    ],
)
def test_an_invalid_body_is_rejected(client, body):
    answer = post(client, token_of(make_worker()), body)
    assert answer.status_code == 400
    assert answer.json()["error"] == "bad_request"


def test_a_body_that_is_too_large_is_rejected(client):
    answer = send_heartbeat(client, token_of(make_worker()), [uuid.uuid4() for _ in range(2000)])
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("length", "status"), [("abc", 400), ("-1", 400), ("²", 400), ("9" * 5000, 413)]
)
def test_an_invalid_content_length_is_rejected(length, status):
    answer = Client().post(
        "/api/agent/heartbeat/", "{}", content_type="application/json", CONTENT_LENGTH=length
    )
    assert answer.status_code == status
