"""The storage quota of a user: files as announced, and results, until they are removed."""

import pytest
from django.utils import timezone

from tasks.models import Artifact, Task, TaskFile
from tasks.submission.uploads import submit_task
from tasks.submission.validation import storage_quota_of
from tasks.tests.make import (
    FILES,
    MD5,
    TASKS,
    make_attempt,
    make_task,
    model_file,
    stored_objects,
    task_request,
    upload_files,
)
from webprofile.errors import DomainError
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = pytest.mark.django_db
SIZE = sum(map(len, FILES.values()))


def test_a_task_whose_files_do_not_fit_is_refused_before_the_upload(alice, settings, storage):
    settings.STORAGE_PER_USER_BYTES = 2 * SIZE
    client = caller(alice)
    for _ in range(2):
        task = client.post(TASKS, task_request()).json()
        upload_files(task)
        assert client.post(f"{TASKS}{task['id']}/submit/").json()["status"] == "waiting"
    problem = expect_problem(client.post(TASKS, task_request()), 409, "storage_full")
    assert "GiB" in problem["detail"]
    assert Task.objects.count() == 2
    # files that were removed, and a higher limit of the user, make room
    TaskFile.objects.filter(task=task["id"]).update(purged_at=timezone.now())
    assert client.post(TASKS, task_request()).status_code == 201
    expect_problem(client.post(TASKS, task_request()), 409, "storage_full")
    alice.storage_limit_gib = 1
    alice.save()
    assert client.post(TASKS, task_request()).status_code == 201


def test_results_count_and_the_submission_checks_again(alice, settings):
    task = make_task(alice, files=[model_file(size_bytes=100)])
    attempt = make_attempt()
    size = storage_quota_of(attempt.task.owner).used
    Artifact.objects.create(attempt=attempt, name="log.txt", size_bytes=500, md5=MD5)
    Artifact.objects.create(
        attempt=attempt, name="profile.json", size_bytes=900, md5=MD5, is_stored=False
    )
    assert storage_quota_of(attempt.task.owner).used == size + 500
    settings.STORAGE_PER_USER_BYTES = 50
    with pytest.raises(DomainError) as caught:
        submit_task(task, stored_objects(task))
    assert (caught.value.code, caught.value.status) == ("storage_full", 409)
    task.refresh_from_db()
    assert task.state == "initiated"


def test_the_settings_page_shows_the_quota(client, alice):
    make_task(alice, files=[model_file(size_bytes=3 << 20)])
    alice.storage_limit_gib = 2
    alice.save()
    client.force_login(alice)
    assert "3.0 MiB of 2.0 GiB" in client.get("/accounts/profile/").text
