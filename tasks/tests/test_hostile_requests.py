"""Tests of malformed requests: each is refused with a message, and none causes a server error."""

import json
from typing import Any

import pytest

from tasks.models import Task, TaskFile
from tasks.tests.make import MD5, make_user, make_worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def request_body() -> dict[str, Any]:
    def file(kind: str, name: str, **more: str) -> dict[str, Any]:
        return {"kind": kind, "name": name, "size_bytes": 7, "md5": MD5} | more

    return {
        "worker": make_worker().pk,
        "runtime_version": "1.13.0",
        "files": [file("model", "net.mge"), file("data", "data.npy", input="data")],
    }


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
]


@pytest.mark.parametrize("changes", HOSTILE, ids=lambda changes: next(iter(changes)))
@pytest.mark.parametrize("address", ["/api/v1/tasks/", "/api/v1/tasks/judge/"])
def test_values_that_no_database_can_store_are_rejected(client, changes, address):
    client.force_login(make_user())
    body = request_body() | changes
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
    body = request_body()
    for file in body["files"]:
        if file["kind"] == kind:
            file[field] = text + file.get(field, "")
    answer = client.post("/api/v1/tasks/", json.dumps(body), content_type="application/json")
    assert answer.status_code in (201, 400, 422)
    kept = [(f.name, f.input, f.option) for f in TaskFile.objects.all()]
    assert text not in "".join("".join(texts) for texts in kept)
