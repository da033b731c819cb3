"""Import of the files of a failed attempt without a download and an upload."""

import pytest

from agent.protocol.messages import AttemptFinished, EndReason, Script
from profiles.actors import build_opened
from profiles.models import ProfileUpload
from profiles.services import build_attempt_profile
from profiles.tests.make import MEMORY, TIMELINE
from profiles.tests.pages import ended_attempt, store_artifacts, whole_page
from tasks.lifecycle.attempts import assign_attempt, lose_attempt
from tasks.models import Artifact, Task
from tasks.tests.make import make_attempt, make_user, receive_report
from tasks.tests.scripts import make_script_task, make_script_worker, program_file
from webprofile.storage import storage as object_store
from webprofile.tests.documented_api import expect_problem

pytestmark = pytest.mark.django_db


def make_failed_attempt(files, owner):
    """Return an attempt of a script that wrote these files and exceeded its time limit."""
    attempt = make_attempt(make_script_task(owner))
    store_artifacts(attempt, files)
    report = AttemptFinished(attempt=attempt.pk, at=0.0, reason=EndReason.TIMED_OUT)
    receive_report(attempt, report)
    attempt.refresh_from_db()
    assert attempt.task.status == "failed"
    return attempt


def import_url(attempt, number=1):
    return f"/tasks/{attempt.task_id}/attempts/{number}/open/"


def api_url(attempt):
    return f"/api/v1{import_url(attempt)}"


def test_trace_and_memory_of_a_failed_script_are_imported_as_one_profile(
    client, alice, script_files
):
    attempt = make_failed_attempt(script_files | {"log.txt": b"step 0\n"}, alice)
    page = client.get(f"/tasks/{attempt.task_id}/").text
    assert import_url(attempt) in page
    response = client.post(import_url(attempt))
    upload = ProfileUpload.objects.get()
    assert response["Location"] == f"/profiles/opened/{upload.pk}/"
    assert upload.owner == alice
    assert [file.name for file in upload.files.all()] == [TIMELINE, MEMORY]
    assert upload.size_bytes == sum(map(len, script_files.values()))
    assert f"#{attempt.task_id}-1" in upload.name
    build_opened(upload.pk)
    page = whole_page(client, response["Location"])
    assert 'id="trace-phases"' in page
    assert 'id="memory-flow"' in page
    assert 'id="operator-table"' in page
    # the artifacts remain
    assert client.get(f"/tasks/{attempt.task_id}/artifacts/{TIMELINE}").status_code == 302


def test_a_second_request_returns_the_same_import(client, alice, script_files):
    attempt = make_failed_attempt(script_files, alice)
    first, second = client.post(api_url(attempt)), client.post(api_url(attempt))
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert first["Location"] == f"/api/v1/profiles/opened/{first.json()['id']}/"


def test_an_empty_file_is_skipped_and_refused_alone(client, alice, script_files):
    attempt = make_failed_attempt({TIMELINE: script_files[TIMELINE], MEMORY: b" "}, alice)
    assert client.post(import_url(attempt)).status_code == 302
    assert [file.name for file in ProfileUpload.objects.get().files.all()] == [TIMELINE]
    alone = make_failed_attempt({MEMORY: b" "}, alice)
    expect_problem(client.post(api_url(alone)), 422, "opened_empty")
    assert ProfileUpload.objects.count() == 1


def test_an_imported_attempt_counts_towards_the_user_limit(client, alice, script_files, settings):
    settings.OPENED_PROFILES_LIMIT = 0
    attempt = make_failed_attempt(script_files, alice)
    expect_problem(client.post(api_url(attempt)), 422, "opened_too_many")


def test_strangers_get_404_and_an_administrator_becomes_the_owner(client, storage, script_files):
    attempt = make_failed_attempt(script_files, make_user("alice"))
    client.force_login(make_user("carol"))
    assert client.post(import_url(attempt)).status_code == 404
    assert not ProfileUpload.objects.exists()
    root = make_user("root", is_staff=True)
    client.force_login(root)
    client.post(import_url(attempt))
    assert ProfileUpload.objects.get().owner == root


def test_a_lost_attempt_can_be_imported_while_its_task_waits_and_runs_again(
    client, alice, script_files
):
    attempt = make_attempt(make_script_task(alice))
    store_artifacts(attempt, script_files)
    lose_attempt(attempt, reason="lease_expired")
    assert import_url(attempt) in client.get(f"/tasks/{attempt.task_id}/files/").text
    task = Task.objects.get(pk=attempt.task_id)
    # where transactions commit, it was assigned already
    second = task.attempts.filter(number=2).first() or assign_attempt(task, slot=0)
    assert second.number == 2
    assert import_url(attempt) in client.get(f"/tasks/{attempt.task_id}/files/").text
    assert client.post(api_url(attempt)).status_code == 201


def test_only_attempts_with_files_and_without_a_result_have_the_button(client, alice, script_files):
    script = Script(formats=(TIMELINE,))
    task_fields = {"worker": make_script_worker(), "script": script, "files": [program_file()]}
    ended = ended_attempt({TIMELINE: script_files[TIMELINE]}, alice, **task_fields)
    # it is being processed and may still become the result
    assert import_url(ended) not in client.get(f"/tasks/{ended.task_id}/").text
    expect_problem(client.post(api_url(ended)), 409, "attempt_recorded_nothing")
    ended.task.refresh_from_db()
    build_attempt_profile(ended)
    assert import_url(ended) not in client.get(f"/tasks/{ended.task_id}/").text
    expect_problem(client.post(api_url(ended)), 409, "attempt_has_result")
    empty = make_failed_attempt({"log.txt": b"x"}, alice)
    assert import_url(empty) not in client.get(f"/tasks/{empty.task_id}/").text
    assert client.post(import_url(empty, number=2)).status_code == 404


def test_a_lost_artifact_leaves_no_partial_import(client, alice, script_files):
    attempt = make_failed_attempt(script_files, alice)
    object_store.delete(Artifact.objects.get(name=MEMORY).object_key)
    expect_problem(client.post(api_url(attempt)), 404, "object_missing")
    assert not ProfileUpload.objects.exclude(state="deleted").exists()
