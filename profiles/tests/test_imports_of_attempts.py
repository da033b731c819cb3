"""Files of a failed attempt are imported as a profile without a download and an upload."""

import pytest

from agent.protocol import AttemptFinished, EndReason, Script
from profiles.actors import build_opened
from profiles.models import ProfileUpload
from profiles.services import build_attempt_profile
from profiles.tests.make import MEMORY, TIMELINE
from profiles.tests.pages import ended_attempt, store_artifacts
from tasks.models import Artifact
from tasks.tests.make import make_attempt, make_user, receive_report
from tasks.tests.scripts import make_script_task, make_script_worker, program_file
from webprofile.storage import storage as object_store

pytestmark = pytest.mark.django_db


def failed_attempt(files, owner):
    """Return an attempt of a script that wrote these files and then exceeded its time limit."""
    attempt = make_attempt(make_script_task(owner))
    store_artifacts(attempt, files)
    report = AttemptFinished(attempt=attempt.pk, at=0.0, reason=EndReason.TIMED_OUT)
    receive_report(attempt, report)
    attempt.refresh_from_db()
    assert attempt.task.status == "failed"
    return attempt


def address(attempt, number=1):
    return f"/tasks/{attempt.task_id}/attempts/{number}/open/"


def test_the_trace_and_memory_of_a_failed_script_open_as_one_profile(client, alice, script_files):
    attempt = failed_attempt(script_files | {"log.txt": b"step 0\n"}, alice)
    page = client.get(f"/tasks/{attempt.task_id}/").content.decode()
    assert address(attempt) in page
    response = client.post(address(attempt))
    upload = ProfileUpload.objects.get()
    assert response["Location"] == f"/profiles/opened/{upload.pk}/"
    assert upload.owner == alice
    assert [file.name for file in upload.files.all()] == [TIMELINE, MEMORY]
    assert upload.size_bytes == sum(map(len, script_files.values()))
    assert f"#{attempt.task_id}-1" in upload.name
    build_opened(upload.pk)
    page = client.get(response["Location"], follow=True).content.decode()
    assert 'id="trace-phases"' in page
    assert 'id="memory-flow"' in page
    # the artifacts remain
    assert client.get(f"/tasks/{attempt.task_id}/artifacts/{TIMELINE}").status_code == 302


def test_asking_again_leads_to_the_same_profile(client, alice, script_files):
    attempt = failed_attempt(script_files, alice)
    api = f"/api/v1/tasks/{attempt.task_id}/attempts/1/open/"
    first, again = client.post(api), client.post(api)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert first["Location"] == f"/api/v1/profiles/opened/{first.json()['id']}/"


def test_a_file_that_is_none_of_a_run_keeps_the_others_from_nothing(client, alice, script_files):
    attempt = failed_attempt({TIMELINE: script_files[TIMELINE], MEMORY: b" "}, alice)
    assert client.post(address(attempt)).status_code == 302
    assert [file.name for file in ProfileUpload.objects.get().files.all()] == [TIMELINE]
    alone = failed_attempt({MEMORY: b" "}, alice)
    response = client.post(f"/api/v1/tasks/{alone.task_id}/attempts/1/open/")
    assert (response.status_code, response.json()["code"]) == (422, "opened_empty")
    assert ProfileUpload.objects.count() == 1


def test_an_opened_attempt_counts_towards_the_limit_of_its_user(
    client, alice, script_files, settings
):
    settings.OPENED_PROFILES_LIMIT = 0
    attempt = failed_attempt(script_files, alice)
    response = client.post(f"/api/v1/tasks/{attempt.task_id}/attempts/1/open/")
    assert (response.status_code, response.json()["code"]) == (422, "opened_too_many")


def test_others_open_nothing_of_it_and_an_administrator_opens_it_for_himself(
    client, storage, script_files
):
    attempt = failed_attempt(script_files, make_user("alice"))
    client.force_login(make_user("carol"))
    assert client.post(address(attempt)).status_code == 404
    assert not ProfileUpload.objects.exists()
    root = make_user("root", is_staff=True)
    client.force_login(root)
    client.post(address(attempt))
    assert ProfileUpload.objects.get().owner == root


def test_an_attempt_with_a_result_or_without_files_has_no_button(client, alice, script_files):
    script = Script(formats=(TIMELINE,))
    task_fields = {"worker": make_script_worker(), "script": script, "files": [program_file()]}
    ended = ended_attempt({TIMELINE: script_files[TIMELINE]}, alice, **task_fields)
    # it is being read and may still become the result
    assert address(ended) not in client.get(f"/tasks/{ended.task_id}/").content.decode()
    response = client.post(f"/api/v1/tasks/{ended.task_id}/attempts/1/open/")
    assert (response.status_code, response.json()["code"]) == (409, "attempt_recorded_nothing")
    ended.task.refresh_from_db()
    build_attempt_profile(ended)
    assert address(ended) not in client.get(f"/tasks/{ended.task_id}/").content.decode()
    response = client.post(f"/api/v1/tasks/{ended.task_id}/attempts/1/open/")
    assert (response.status_code, response.json()["code"]) == (409, "attempt_has_result")
    empty = failed_attempt({"log.txt": b"x"}, alice)
    assert address(empty) not in client.get(f"/tasks/{empty.task_id}/").content.decode()
    assert client.post(address(empty, number=2)).status_code == 404


def test_a_file_that_was_lost_leaves_no_half_profile(client, alice, script_files):
    attempt = failed_attempt(script_files, alice)
    object_store.delete(Artifact.objects.get(name=MEMORY).object_key)
    response = client.post(f"/api/v1/tasks/{attempt.task_id}/attempts/1/open/")
    assert (response.status_code, response.json()["code"]) == (404, "object_missing")
    assert not ProfileUpload.objects.exclude(state="deleted").exists()
