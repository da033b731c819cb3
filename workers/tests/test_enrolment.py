"""Exchange an enrolment code for a token, by the agent's HTTP requests."""

import datetime
import json

import pytest
from django.utils import timezone

from tasks.tests.make import make_worker
from workers.models import WorkerSecret
from workers.services import revoke_worker
from workers.tokens import issue_code

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def enrol(client, code):
    return client.post(
        "/api/agent/enrol/", json.dumps({"code": code}), content_type="application/json"
    )


def check(client, token):
    return client.get("/api/agent/check/", headers={"Authorization": f"Bearer {token}"})


def test_a_code_is_exchanged_for_a_token_that_is_stored_as_a_digest(client):
    worker = make_worker("box")
    answer = enrol(client, issue_code(worker)).json()
    assert answer["worker"] == "box"
    assert answer["token"].startswith("mgw_")
    assert not WorkerSecret.objects.filter(sha256__contains=answer["token"]).exists()
    checked = check(client, answer["token"]).json()
    assert checked["worker"] == "box"
    assert abs(checked["server_time"] - timezone.now().timestamp()) < 60


def test_a_code_works_once(client):
    code = issue_code(make_worker())
    assert enrol(client, code).status_code == 200
    again = enrol(client, code)
    assert (again.status_code, again.json()["error"]) == (403, "code_used")
    assert "administrator" in again.json()["message"]


def test_a_new_code_revokes_the_previous_one(client):
    worker = make_worker()
    first, second = issue_code(worker), issue_code(worker)
    assert enrol(client, first).json()["error"] == "code_used"
    assert enrol(client, second).status_code == 200


def test_an_expired_or_unknown_code_is_rejected(client):
    code = issue_code(make_worker())
    WorkerSecret.objects.update(expires_at=timezone.now() - datetime.timedelta(seconds=1))
    assert enrol(client, code).json()["error"] == "code_expired"
    assert enrol(client, "mge_guess").json()["error"] == "code_unknown"


def test_enrolling_again_revokes_the_old_token(client):
    worker = make_worker()
    old = enrol(client, issue_code(worker)).json()["token"]
    new = enrol(client, issue_code(worker)).json()["token"]
    assert check(client, old).status_code == 403
    assert check(client, new).status_code == 200


def test_unknown_and_revoked_tokens_have_different_errors(client):
    worker = make_worker()
    token = enrol(client, issue_code(worker)).json()["token"]
    revoke_worker(worker, by=None)
    assert (check(client, token).status_code, check(client, "mgw_x").status_code) == (403, 401)
    assert client.get("/api/agent/check/").status_code == 401


@pytest.mark.parametrize("body", ["", "[]", "no json", "{}", '{"code": null}'])
def test_an_invalid_body_is_rejected(client, body):
    answer = client.post("/api/agent/enrol/", body, content_type="application/json")
    assert answer.status_code in (400, 403)
    assert answer.json()["message"]
