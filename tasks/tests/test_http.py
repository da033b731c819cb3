"""What a browser does: ask for a task, upload, confirm, look, cancel; and what a stranger gets."""

import datetime
import hashlib
import json
from urllib.parse import quote

import httpx2
import pytest
from django.utils import timezone

from agent.protocol import AttemptStarted
from profiles.services import abandoned_uploads_purge
from tasks import services, submitting
from tasks.models import Attempt, Task
from tasks.tests.make import (
    data_file,
    make_attempt,
    make_task,
    make_user,
    make_waiting_task,
    make_worker,
    model_file,
    npy_bytes,
    reported,
    stored,
)
from webprofile.storage import storage as object_store

pytestmark = pytest.mark.django_db

FILES = {"net.mge": b"a model", "data.npy": npy_bytes()}


@pytest.fixture
def alice(client):
    user = make_user("alice")
    client.force_login(user)
    return user


def body(**changes):
    def file(kind, name, **more):
        content = FILES[name]
        digest = hashlib.md5(content).hexdigest()
        return {"kind": kind, "name": name, "size_bytes": len(content), "md5": digest} | more

    return {
        "worker": make_worker().pk,
        "runtime_version": "1.13.0",
        "options": {"iter": 3},
        "files": [file("model", "net.mge"), file("data", "data.npy", input="data")],
    } | changes


def post(client, url, data=None):
    text = data if isinstance(data, str) else json.dumps(data or {})
    return client.post(url, text, content_type="application/json")


def put(target, content):
    return httpx2.put(target["url"], content=content, headers=target["headers"])


def test_files_go_straight_to_storage_and_the_task_waits_when_they_are_confirmed(
    client, alice, storage
):
    answer = post(client, "/api/v1/tasks/", body())
    assert answer.status_code == 201, answer.content
    made = answer.json()
    assert post(client, f"/api/v1/tasks/{made['id']}/submit/").json()["code"] == "upload_missing"
    for target in made["uploads"]:
        assert put(target, FILES[target["name"]]).status_code == 200
    confirmed = post(client, f"/api/v1/tasks/{made['id']}/submit/")
    assert (confirmed.status_code, confirmed.json()["status"]) == (200, "waiting")
    again = post(client, f"/api/v1/tasks/{made['id']}/submit/")
    assert again.json()["status"] == "waiting"
    link = client.get(f"/tasks/{made['id']}/files/{made['uploads'][0]['file']}/")
    assert httpx2.get(link["Location"]).content == FILES["net.mge"]


def test_storage_refuses_more_than_was_announced_and_other_places(client, alice, storage):
    first, second = post(client, "/api/v1/tasks/", body()).json()["uploads"]
    assert put(first, b"a longer model").status_code == 403
    other = first["url"].replace(f"/{first['file']}?", f"/{second['file']}?")
    assert httpx2.put(other, content=b"a model", headers=first["headers"]).status_code == 403


def test_bytes_that_changed_in_storage_keep_the_task_from_waiting(client, alice, storage):
    made = post(client, "/api/v1/tasks/", body()).json()
    for target in made["uploads"]:
        put(target, FILES[target["name"]])
    task = Task.objects.get(pk=made["id"])
    object_store.write(task.files.last().object_key, b"AN ARRAY")
    answer = post(client, f"/api/v1/tasks/{made['id']}/submit/")
    assert (answer.status_code, answer.json()["code"]) == (409, "upload_damaged")
    assert "data.npy" in answer.json()["detail"]
    fresh = post(client, f"/api/v1/tasks/{made['id']}/uploads/").json()["uploads"]
    for target in fresh:
        put(target, FILES[target["name"]])
    assert post(client, f"/api/v1/tasks/{made['id']}/submit/").json()["status"] == "waiting"


def test_a_download_keeps_the_name_it_was_uploaded_with(client, alice, storage):
    files = body()["files"]
    files[0]["name"] = '模型 "quo" 😀.mge'
    made = post(client, "/api/v1/tasks/", body(files=files)).json()
    for target, content in zip(made["uploads"], FILES.values(), strict=True):
        put(target, content)
    post(client, f"/api/v1/tasks/{made['id']}/submit/")
    link = client.get(f"/tasks/{made['id']}/files/{made['uploads'][0]['file']}/")
    answer = httpx2.get(link["Location"])
    assert answer.content == FILES["net.mge"]
    assert quote('模型 "quo" 😀.mge') in answer.headers["content-disposition"]


def test_a_broken_upload_can_be_abandoned(client, alice, storage):
    made = post(client, "/api/v1/tasks/", body()).json()
    assert post(client, f"/api/v1/tasks/{made['id']}/cancel/").json()["status"] == "cancelled"
    assert post(client, f"/api/v1/tasks/{made['id']}/submit/").json()["code"] == "not_initiated"
    assert post(client, f"/api/v1/tasks/{made['id']}/uploads/").json()["code"] == "not_initiated"


def test_what_an_abandoned_upload_left_in_storage_is_deleted(client, alice, storage):
    made = post(client, "/api/v1/tasks/", body()).json()
    put(made["uploads"][0], FILES["net.mge"])
    key = Task.objects.get(pk=made["id"]).files.first().object_key
    assert object_store.head(key)
    post(client, f"/api/v1/tasks/{made['id']}/cancel/")
    assert abandoned_uploads_purge() == 2
    assert object_store.head(key) is None
    assert abandoned_uploads_purge() == 0


def test_storage_that_does_not_answer_is_named(client, alice, settings):
    settings.S3_ENDPOINT_URL = settings.S3_PUBLIC_ENDPOINT_URL = "http://127.0.0.1:9"
    made = post(client, "/api/v1/tasks/", body()).json()
    answer = post(client, f"/api/v1/tasks/{made['id']}/submit/")
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_unreachable")


@pytest.mark.parametrize(
    "wrong",
    [{"worker": True}, {"files": None}, {"extra": 1}, {"options": {"iter": [1]}}, {"seed": 1.5},
     {"inputs": [{"shape": [1]}]}, {"inputs": [{"name": "x", "shape": "a"}]}],
    ids=str,
)  # fmt: skip
def test_a_request_that_cannot_be_read_is_refused_and_makes_nothing(client, alice, wrong):
    answer = post(client, "/api/v1/tasks/", body(**wrong))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    (error,) = answer.json()["errors"]
    assert error["field"].partition(".")[0] == next(iter(wrong))
    assert not Task.objects.exists()


def test_a_refused_request_names_field_and_cause(client, alice):
    answer = post(client, "/api/v1/tasks/", body(options={"iter": 0}))
    assert answer.status_code == 422
    told = answer.json()
    assert (told["code"], told["field"]) == ("option_too_small", "iter")
    assert told["detail"] == "iter must be at least 1."
    assert post(client, "/api/v1/tasks/", body(worker=10**6)).json()["code"] == "worker_unknown"


def test_the_message_is_in_the_readers_language(client, alice):
    client.cookies["django_language"] = "zh-hans"
    answer = post(client, "/api/v1/tasks/", body(options={"iter": 0}))
    assert answer.json()["detail"] != "iter must be at least 1."


@pytest.mark.parametrize("path", ["", "status/", "result/", "result.txt", "artifacts/log.txt"])
def test_anothers_task_does_not_exist_for_a_stranger(client, path):
    task = make_task(make_user("bob"))
    client.force_login(make_user("carol"))
    assert client.get(f"/tasks/{task.pk}/{path}").status_code == 404
    for action in ("submit", "cancel", "uploads"):
        assert post(client, f"/api/v1/tasks/{task.pk}/{action}/").status_code == 404
    task.refresh_from_db()
    assert task.state == "initiated"


def test_an_administrator_sees_every_task(client):
    task = make_task(make_user("bob"))
    client.force_login(make_user("root", is_staff=True))
    assert client.get(f"/tasks/{task.pk}/").status_code == 200


@pytest.mark.parametrize("path", ["/tasks/", "/tasks/new/", "/tasks/1/", "/workers/", "/"])
def test_without_login_every_page_leads_to_the_login(client, path):
    answer = client.get(path, follow=True)
    assert answer.redirect_chain[-1][0].startswith("/accounts/login/")


def test_the_list_shows_the_columns_of_the_guide(client, alice):
    task = make_waiting_task(alice)
    page = client.get("/tasks/").content.decode()
    for text in (
        f"/tasks/{task.pk}/",
        "net.mge",
        "data.npy",
        task.worker.name,
        "1.13.0",
        "waiting",
    ):
        assert text in page


def test_a_failed_task_says_why_and_what_to_do(client, alice):
    task = make_task(alice)
    submitting.task_submit(task, stored(task))
    services.task_fail(task, reason="worker_went_offline")
    page = client.get(f"/tasks/{task.pk}/").content.decode()
    assert "went offline" in page
    assert "Choose another device" in page


def test_a_running_task_says_which_pass_runs_and_for_how_long(client, alice):
    attempt = make_attempt(make_waiting_task(alice))
    begun = AttemptStarted(attempt=attempt.pk, at=0.0, passes=7)
    reported(attempt, begun)
    reported(attempt, begun.model_copy(update={"passes_done": 2}))
    Attempt.objects.update(started_at=timezone.now() - datetime.timedelta(seconds=192))
    page = client.get(f"/tasks/{attempt.task_id}/").content.decode()
    assert ">Pass 3 of 7<" in page
    assert ">3 min 12 s<" in page
    answer = client.get(f"/api/v1/tasks/{attempt.task_id}/").json()
    (told,) = answer["attempts"]
    assert (told["passes"], told["passes_done"]) == (7, 2)


def test_an_agent_that_counts_no_passes_leaves_the_page_without_their_number(client, alice):
    attempt = make_attempt(make_waiting_task(alice))
    reported(attempt, AttemptStarted(attempt=attempt.pk, at=0.0))
    page = client.get(f"/tasks/{attempt.task_id}/").content.decode()
    assert "load_and_run is working" in page
    assert "Pass " not in page


def test_names_of_users_are_escaped(client, alice):
    make_task(alice, files=[model_file(name="<script>alert(1)<.mge"), data_file(input="<b>x")])
    for path in ("/tasks/", "/tasks/1/"):
        page = client.get(path).content.decode()
        assert "<script>alert" not in page
        assert "<b>x" not in page


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize(
    "path", ["/tasks/", "/tasks/new/", "/workers/", "/accounts/password/change/"]
)
def test_pages_have_no_inline_script_or_style_and_forbid_it(client, alice, path, language):
    client.cookies["django_language"] = language
    answer = client.get(path)
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert " style=" not in page
    assert "<style" not in page
    assert "javascript:" not in page
    assert f'lang="{language}"' in page
