"""`manage.py purge`: which rows and objects are removed, and the dry run."""

import datetime
import io

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.utils import timezone
from rest_framework_simplejwt.token_blacklist.models import OutstandingToken

from accounts.models import AuditEntry
from accounts.tokens.refresh import RefreshJWT
from profiles.models import PairedResult, Profile, ProfileUpload, RemovedObjects
from profiles.retention import policy
from profiles.retention.deletion import delete_task, keep_task_files
from profiles.tests.imports import make_import
from profiles.tests.make import (
    SLOWER,
    make_paired_task,
    make_profile,
    remove_expired_objects,
    to_json,
)
from tasks.lifecycle.attempts import assign_attempt
from tasks.lifecycle.transitions import transition_if
from tasks.models import Artifact, IdempotencyKey, LogChunk, Purpose, Task, TaskFile, artifact_key
from tasks.states import TaskState
from tasks.tests.make import make_user, make_waiting_task, make_worker
from webprofile.storage import storage as object_store
from workers.models import HealthCheck

pytestmark = [pytest.mark.django_db, pytest.mark.database, pytest.mark.object_storage]
LONG_AGO = datetime.timedelta(days=100)


def purge(*arguments: str) -> str:
    out = io.StringIO()
    call_command("purge", "--older-than", "30", *arguments, stdout=out)
    return out.getvalue()


def make_ended_task(*, ago: datetime.timedelta = LONG_AGO, **changes) -> Task:
    """Return a task with files, an artifact, a profile and a log that ended `ago`."""
    task = make_waiting_task(**changes)
    attempt = task.attempts.first() or assign_attempt(task, slot=0)
    attempt.ended_at = timezone.now() - ago
    attempt.save()
    Artifact.objects.create(attempt=attempt, name="profile.json", size_bytes=5000, md5="0" * 32)
    Profile.objects.create(attempt=attempt, operators=3)
    LogChunk.objects.create(attempt=attempt, seq=1, offset=0, size=4, text="done")
    transition_if(task, TaskState.FINISHED, set(TaskState), outcome="succeeded")
    Task.objects.filter(pk=task.pk).update(finished_at=timezone.now() - ago)
    task.refresh_from_db()
    return task


def count_rows() -> tuple[int, ...]:
    stored = TaskFile.objects.filter(purged_at=None).count()
    rows = (Task, Artifact, Profile, LogChunk, RemovedObjects, AuditEntry)
    return (stored, *(model.objects.count() for model in rows))


def test_without_yes_nothing_is_removed():
    make_ended_task()
    before = count_rows()
    output = purge()
    assert count_rows() == before
    assert "Nothing was removed" in output
    files = next(line for line in output.splitlines() if line.startswith("files"))
    assert files.split()[-3:] == ["2", "27", "bytes"]
    assert files.startswith("files, 30 days ")
    assert Task.objects.get().owner.email in files
    assert "4.9" in next(line for line in output.splitlines() if line.startswith("profiles"))


def test_results_of_pairs_are_removed_with_their_files(storage):
    task = make_paired_task(SLOWER)
    Task.objects.update(finished_at=timezone.now() - LONG_AGO)
    purge("--yes")
    assert not PairedResult.objects.exists()
    assert not Artifact.objects.exists()
    assert list(Task.objects.all()) == [task]


def test_old_files_profiles_and_logs_are_removed_and_tasks_stay():
    old, recent = make_ended_task(), make_ended_task(ago=datetime.timedelta(days=29))
    purge("--yes")
    assert set(Task.objects.all()) == {old, recent}
    assert set(TaskFile.objects.filter(purged_at=None)) == set(recent.files.all())
    assert Profile.objects.get().attempt.task == recent
    assert LogChunk.objects.get().attempt.task == recent
    assert Artifact.objects.get().attempt.task == recent
    attempt = old.attempts.get()
    keys = {file.object_key for file in old.files.all()} | {f"attempts/{attempt.pk}/"}
    assert set(RemovedObjects.objects.values_list("prefix", flat=True)) == keys
    # a second purge removes nothing
    before = count_rows()
    purge("--yes")
    assert count_rows() == before


def test_objects_are_removed_once_storage_is_reachable_again(storage, settings):
    task = make_ended_task()
    keys = [file.object_key for file in task.files.all()]
    keys += [artifact_key(str(task.attempts.get().pk), name) for name in ("profile.json", "x.npz")]
    for key in keys:
        object_store.write(key, b"x")
    address, settings.S3_ENDPOINT_URL = settings.S3_ENDPOINT_URL, "http://127.0.0.1:9"
    assert "The sweep will delete 3 files and folders from storage" in purge("--yes")
    remove_expired_objects()
    assert not TaskFile.objects.filter(purged_at=None).exists()
    assert RemovedObjects.objects.filter(is_last=False).count() == 3
    settings.S3_ENDPOINT_URL = address
    assert all(object_store.head(key) for key in keys)
    remove_expired_objects()
    assert not any(object_store.head(key) for key in keys)


def test_expired_sessions_and_refresh_tokens_are_removed(client):
    alice = make_user()
    for _ in range(2):
        client.logout()
        client.force_login(alice)
        client.session.save()
    RefreshJWT.for_user(alice), RefreshJWT.for_user(alice)
    old = timezone.now() - LONG_AGO
    for model, field in ((Session, "expire_date"), (OutstandingToken, "expires_at")):
        model.objects.create(**{"pk" if model is Session else "jti": "old", field: old})
    UserSession.objects.create(user=alice, session_key="old", ip="127.0.0.1", user_agent="x")
    before = Session.objects.count(), OutstandingToken.objects.count()
    purge("--yes")
    assert Session.objects.count() == before[0] - 1
    assert OutstandingToken.objects.count() == before[1] - 1
    assert not UserSession.objects.filter(session_key="old").exists()


def test_waiting_and_running_tasks_are_never_purged():
    waiting, running = make_waiting_task(), make_waiting_task()
    assign_attempt(running, slot=0)
    Task.objects.update(created_at=timezone.now() - LONG_AGO, finished_at=timezone.now() - LONG_AGO)
    before = count_rows()
    purge("--yes", "--only", *policy.POLICIES)
    assert count_rows() == before
    assert set(Task.objects.all()) == {waiting, running}


def test_an_interrupted_purge_can_be_continued(monkeypatch):
    monkeypatch.setattr(policy, "PIECE", 2)
    owner, worker = make_user(), make_worker()
    for _ in range(3):
        make_ended_task(owner=owner, worker=worker)
    pieces = []

    def interrupt(rows: int) -> None:
        pieces.append(rows)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        policy.purge(policy.POLICIES["logs"], 30, interrupt)
    assert (pieces, LogChunk.objects.count()) == ([2], 1)
    assert AuditEntry.objects.get().after["rows"] == 2
    assert policy.purge(policy.POLICIES["logs"], 30) == 1


def test_the_last_health_check_of_a_device_stays():
    task = make_ended_task()
    Task.objects.update(purpose=Purpose.HEALTH)
    old = timezone.now() - LONG_AGO
    for result in ("passed", "failed"):
        HealthCheck.objects.create(
            worker=task.worker, result=result, ended_at=old, runtime_version="1", cause="asked"
        )
    IdempotencyKey.objects.create(user=task.owner, key="a", request_sha256="0" * 64)
    IdempotencyKey.objects.update(created_at=old)
    purge("--yes")
    assert not Task.objects.exists()
    assert not IdempotencyKey.objects.exists()
    assert HealthCheck.objects.get().result == "failed"


def test_tasks_and_imports_are_removed_only_with_only(storage):
    make_ended_task()
    upload = make_import(make_user("bob"), to_json(make_profile({"1": 1.0})))
    ProfileUpload.objects.update(created_at=timezone.now() - LONG_AGO)
    purge("--yes")
    upload.refresh_from_db()
    assert (Task.objects.count(), upload.state) == (1, "ready")
    purge("--yes", "--only", "tasks", "opened")
    upload.refresh_from_db()
    assert (Task.objects.count(), upload.state) == (0, "deleted")


def test_the_audit_log_records_removed_rows_and_bytes():
    make_ended_task()
    AuditEntry.objects.create(action="old", target_type="x")
    AuditEntry.objects.update(at=timezone.now() - LONG_AGO)
    purge("--yes")
    purges = AuditEntry.objects.filter(action="purge")
    entries = {entry.target_name: entry.after for entry in purges}
    assert entries["profiles"]["size_bytes"] == 5000
    assert entries["files"]["rows"] == 2
    assert AuditEntry.objects.filter(action="old").exists()


def test_kept_files_are_removed_only_with_their_task():
    task = make_ended_task()
    keep_task_files(task, keep=True)
    purge("--yes")
    assert (Profile.objects.count(), LogChunk.objects.count()) == (1, 1)
    assert task.files.filter(purged_at=None).count() == 2
    purge("--yes", "--only", "tasks")
    assert not Task.objects.exists()


def test_a_purged_task_can_be_deleted():
    task = make_ended_task()
    purge("--yes")
    delete_task(task, by=task.owner)
    assert not Task.objects.exists()


@pytest.mark.parametrize("days", ["0", "-1", "99999999999"])
def test_an_invalid_number_of_days_is_refused(days):
    with pytest.raises(CommandError) as caught:
        call_command("purge", f"--older-than={days}")
    assert caught.value.returncode == 2
