"""Tests of small bodies that expand: nested JSON and compressed bodies, at each endpoint."""

import gzip
import json

import pytest
from django.test import Client

from accounts.tokens.access import issue_token
from tasks.tests.make import make_user, make_worker
from workers.tokens import issue_code, redeem_code

pytestmark = pytest.mark.django_db
#: within the limits of length, far beyond sensible depth and width
DEEP = ["[" * 100_000, '{"a":' * 20_000, "[" * 50_000 + "]" * 50_000]
WIDE = [
    json.dumps([0] * 60_000),
    json.dumps({f"key {n}": n for n in range(12_000)}),
    json.dumps({"code": "x" * 200_000, "files": [{}] * 10_000, "ids": [1] * 10_000}),
    json.dumps({"running": ["x"] * 10_000, "sent_at": 1}),
    '{"sent_at": ' + "9" * 60_000 + "}",
    '{"a": 1, ' + ", ".join('"a": 1' for _ in range(20_000)) + "}",
]


def endpoints():
    """Return (client, headers) of each endpoint that takes JSON, by path."""
    alice, root = make_user("alice"), make_user("root", is_staff=True)
    page, script = Client(), Client()
    page.force_login(alice)
    _, token = redeem_code(issue_code(make_worker("box")))
    secret = issue_token(root, name="x", scopes=["read", "write", "admin"], days=1)[1]
    agent, bearer = {"Authorization": f"Bearer {token}"}, {"Authorization": f"Bearer {secret}"}
    return {
        "/api/v1/tasks/cancel/": (page, {}),
        "/api/v1/profiles/opened/": (page, {}),
        "/api/agent/enrol/": (Client(), {}),
        "/api/agent/heartbeat/": (Client(), agent),
        "/api/v1/tasks/": (script, bearer),
        "/api/v1/tasks/judge/": (script, bearer),
        "/api/v1/tasks/submit/": (script, bearer),
        "/api/v1/auth/token/": (Client(), {}),
    }


@pytest.mark.parametrize("body", [*DEEP, *WIDE], ids=lambda body: f"{body[:12]} {len(body)}")
def test_deep_or_wide_body_is_refused(body):
    for address, (client, headers) in endpoints().items():
        response = client.post(address, body, content_type="application/json", headers=headers)
        if address.endswith("/judge/") and response.status_code == 200:
            assert response.json()["problems"]  # it returns the errors of a request
            continue
        assert 400 <= response.status_code < 500, (address, response.status_code)


def test_compressed_body_is_not_decompressed():
    bomb = gzip.compress(bytes(50_000_000))
    for address, (client, headers) in endpoints().items():
        gzip_headers = {"Content-Encoding": "gzip", **headers}
        response = client.post(address, bomb, content_type="application/json", headers=gzip_headers)
        assert 400 <= response.status_code < 500, (address, response.status_code)


def test_form_with_too_many_fields_is_refused():
    client = Client()
    form = "&".join(f"field{n}=1" for n in range(5_000))
    response = client.post(
        "/accounts/login/", form, content_type="application/x-www-form-urlencoded"
    )
    assert response.status_code == 400
