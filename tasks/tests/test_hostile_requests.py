"""Tests of malformed requests: they are rejected and cause no server error."""

import json

import pytest

from tasks.models import Task, TaskFile
from tasks.tests.make import make_user, task_request

pytestmark = [pytest.mark.django_db, pytest.mark.database]


HOSTILE = [
    {"worker": 10**30},
    {"worker": -1},
    {"runtime_version": "1.13\x00"},
    {"runtime_version": "\ud800"},
    {"seed": "\ud800"},
    {"copied_from": 10**30},
    {"options": {"workspace_limit": "\ud800"}},
    {"options": {"layout_transform_target": "cpu\x00"}},
    {"plan": {"preset": "\ud800"}},
    {"inputs": [{"name": "\ud800"}]},
    {"inputs": [{"name": "a\x00"}]},
    {"inputs": [{"name": "a", "dtype": "\x00"}]},
    {"inputs": [{"name": "a", "shape": [10**400]}]},
    {"inputs": [None]},
    {"pairing": {"arms": [None]}},
    {"pairing": {"arms": [{"inputs": [None]}]}},
]


@pytest.mark.parametrize("changes", HOSTILE, ids=lambda changes: next(iter(changes)))
@pytest.mark.parametrize("address", ["/api/v1/tasks/", "/api/v1/tasks/judge/"])
def test_values_that_no_database_can_store_are_rejected(client, changes, address):
    client.force_login(make_user())
    body = task_request() | changes
    answer = client.post(address, json.dumps(body), content_type="application/json")
    assert answer.status_code in (200, 400, 422)
    if address == "/api/v1/tasks/":
        assert answer.status_code != 200
        assert not Task.objects.exists()


@pytest.mark.parametrize("text", ["\ud800", "\x00"])
@pytest.mark.parametrize("field", ["name", "input", "option", "md5"])
@pytest.mark.parametrize("kind", ["model", "data"])
def test_file_text_that_cannot_be_stored_is_not_stored(client, kind, field, text):
    client.force_login(make_user())
    body = task_request()
    for file in body["files"]:
        if file["kind"] == kind:
            file[field] = text + file.get(field, "")
    answer = client.post("/api/v1/tasks/", json.dumps(body), content_type="application/json")
    assert answer.status_code in (201, 400, 422)
    for file in TaskFile.objects.all():
        assert text not in file.name + file.input + file.option
