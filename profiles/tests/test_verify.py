"""`manage.py verify`: it reports each kind of violation, and nothing on a consistent site."""

import datetime
import io
import uuid

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from profiles.imports.processing import purge_import
from profiles.integrity import broken_objects
from profiles.models import OpenedFile, Profile
from profiles.retention.deletion import delete_task
from profiles.retention.policy import POLICIES, purge
from profiles.tests.imports import make_import, stored_keys
from profiles.tests.make import SLOWER, make_paired_task, make_profile, put_files, to_json, verify
from profiles.tests.pages import make_result
from profiles.tests.traces import MLP
from tasks.lifecycle.attempts import lose_attempt
from tasks.models import Artifact, Attempt, Task, TaskFile, artifact_key
from tasks.tests.make import make_attempt, make_task, make_user, make_waiting_task, make_worker
from webprofile.storage import storage as object_store

pytestmark = [pytest.mark.django_db, pytest.mark.database, pytest.mark.object_storage]

LONG_AGO = datetime.timedelta(days=2)


def make_live_attempt(device: str) -> Attempt:
    """Return a live attempt on a device of its own."""
    attempt = make_attempt(make_waiting_task(worker=make_worker(device)))
    put_files(attempt.task)
    return attempt


@pytest.fixture
def profile(storage) -> Profile:
    """The profile of a succeeded task on a consistent site."""
    profile = make_result(to_json(make_profile({"1": 0.25})))
    assert profile.attempt is not None
    put_files(profile.attempt.task)
    return profile


def test_a_consistent_site_has_no_violations(profile):
    make_import(make_user("bob"), to_json(make_profile({"1": 0.5})))
    make_task()
    put_files(make_waiting_task())
    put_files(make_paired_task(SLOWER, owner=make_user("carol")))
    make_live_attempt("a")
    lose_attempt(make_live_attempt("b"), reason="lease_expired")
    assert verify() == []
    out = io.StringIO()
    call_command("verify", stdout=out)
    assert out.getvalue() == "All checks passed.\n"


@pytest.mark.parametrize(
    ("state", "deadline"),
    [
        ("initiated", "upload_deadline_at"),
        ("waiting", "queue_deadline_at"),
        ("processing", "processing_deadline_at"),
    ],
)
def test_a_task_past_its_deadline_is_reported(storage, state, deadline):
    task = make_task()
    changes = {"state": state, deadline: timezone.now() - LONG_AGO}
    Task.objects.filter(pk=task.pk).update(**changes)
    violations = [name for name, detail in verify() if f"task {task.pk} is {state}" in detail]
    assert violations == ["ends"]
    Task.objects.filter(pk=task.pk).update(**{deadline: timezone.now()})
    assert verify() == []


def test_a_task_without_a_deadline_is_reported(storage):
    task = make_task()
    ago = timezone.now() - LONG_AGO
    Task.objects.filter(pk=task.pk).update(upload_deadline_at=None, updated_at=ago)
    assert [promise for promise, _ in verify()] == ["ends"]


def test_attempts_that_contradict_task_states_are_reported(storage):
    idle, twice = make_live_attempt("a"), make_live_attempt("b")
    Attempt.objects.filter(pk=idle.pk).update(ended_at=timezone.now())
    Task.objects.filter(pk=twice.task_id).update(state="waiting")
    assert verify() == [
        ("one_attempt", f"task {idle.task_id} is assigned without a live attempt"),
        ("one_attempt", f"task {twice.task_id} is waiting with a live attempt"),
    ]


def test_an_expired_lease_is_reported(storage):
    attempt = make_live_attempt("a")
    Attempt.objects.filter(pk=attempt.pk).update(lease_expires_at=timezone.now() - LONG_AGO)
    assert [promise for promise, _ in verify()] == ["one_attempt"]
    assert verify("--patience-s", str(3 * 24 * 3600)) == []


def test_a_result_of_an_attempt_with_an_expired_lease_is_reported(profile):
    Attempt.objects.filter(pk=profile.attempt_id).update(end_reason="lease_expired")
    [(promise, detail)] = verify()
    assert promise == "result"
    assert str(profile.attempt_id) in detail
    assert "lease_expired" in detail


def test_a_result_of_an_earlier_attempt_is_reported(profile):
    first = profile.attempt
    later = Attempt.objects.create(
        task=first.task,
        worker=first.worker,
        number=2,
        slot=0,
        lease_expires_at=timezone.now(),
        ended_at=timezone.now(),
        end_reason="exited",
        exit_code=0,
    )
    assert verify() == [
        ("result", f"the profile of task {first.task_id} is not of its last attempt")
    ]
    second = Profile.objects.create(attempt=later, operators=1)
    object_store.write(second.derived_key, b"derived")
    assert ("result", f"task {first.task_id} has 2 profiles") in verify()


def test_a_paired_result_of_an_attempt_that_does_not_count_is_reported(storage):
    task = make_paired_task(SLOWER)
    put_files(task)
    Attempt.objects.update(end_reason="lease_expired")
    [(promise, detail)] = verify()
    assert promise == "result"
    assert f"paired result belongs to attempt {task.attempts.get().pk}" in detail


def test_missing_objects_of_all_kinds_are_reported(profile):
    upload = make_import(make_user("bob"), to_json(make_profile({"1": 0.5})))
    keys = {
        TaskFile.objects.first().object_key,
        Artifact.objects.get(name="log.txt").object_key,
        OpenedFile.objects.get(upload=upload).object_key,
        profile.derived_key,
    }
    for key in keys:
        object_store.delete(key)
    assert set(verify()) == {("artifact", f"{key} is not in storage") for key in keys}


def test_an_object_with_another_checksum_is_reported(profile):
    artifact = Artifact.objects.get(name="profile.json")
    object_store.write(artifact.object_key, b"x" * artifact.size_bytes)
    [(promise, detail)] = verify()
    assert promise == "artifact"
    assert artifact.object_key in detail
    assert artifact.md5 in detail


def test_old_objects_without_a_row_are_reported(profile):
    orphans = [
        "tasks/999/1",
        f"tasks/{profile.attempt.task_id}/999999",
        artifact_key(str(profile.attempt_id), "stray.bin"),
        artifact_key(str(uuid.uuid4()), "profile.json"),
        "attempts/none/x",
        "opened/7/derived.npz",
        f"opened/{'9' * 40}/profile.json",
        "else",
    ]
    for key in orphans:
        object_store.write(key, b"x")
    assert set(verify()) == {("orphan", f"{key} has no row (1 bytes)") for key in orphans}
    assert verify("--grace-hours", "1") == []


def test_objects_scheduled_for_removal_are_no_orphans(profile):
    task = profile.attempt.task
    other = make_waiting_task()
    put_files(other)
    delete_task(task, by=None)
    Task.objects.filter(pk=other.pk).update(
        state="finished", outcome="failed", finished_at=task.created_at
    )
    purge(POLICIES["files"], 0)
    assert verify() == []


def test_the_span_index_of_a_trace_is_no_orphan_and_is_removed_with_its_import(storage):
    upload = make_import(make_user(), MLP.read_bytes())
    assert upload.profile.spans_key in stored_keys(upload.pk)
    assert list(broken_objects(grace=datetime.timedelta(seconds=-60))) == []
    purge_import(upload)
    assert stored_keys(upload.pk) == []


@pytest.mark.parametrize(
    "arguments", [("--patience-s", "-1"), ("--grace-hours", "-1"), ("--grace-hours", "9999999")]
)
def test_invalid_arguments_are_refused(arguments):
    with pytest.raises(CommandError, match="Both times"):
        call_command("verify", *arguments)


def test_an_unreachable_storage_is_an_error(storage, settings):
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    with pytest.raises(CommandError, match="storage"):
        call_command("verify", stdout=io.StringIO())
