"""Lifecycle of imports: processing, rename, deletion, deadlines, lost messages and files."""

import datetime

import httpx2
import pytest
from django.core.management import call_command
from django.utils import timezone

from profiles import readings
from profiles.actors import build_opened
from profiles.imports.processing import sweep_imports
from profiles.imports.uploads import delete_import
from profiles.models import Profile, ProfileUpload
from profiles.readings import sweep_readings
from profiles.tests.imports import (
    confirm_upload,
    make_import,
    make_upload,
    stored_keys,
)
from tasks.tests.make import make_user
from testdata import bad_profile, good_profile
from webprofile.errors import DomainError
from webprofile.storage import storage as object_store
from webprofile.storage.s3 import ObjectStorage

pytestmark = [pytest.mark.django_db, pytest.mark.database, pytest.mark.object_storage]

State = ProfileUpload.State


def test_deletion_hides_an_import_and_the_sweep_removes_its_files(client, alice):
    upload = make_import(alice, good_profile("tiny"))
    profile = upload.profile.pk
    response = client.post(f"/profiles/opened/{upload.pk}/delete/", follow=True)
    assert "was deleted" in response.text
    assert client.get(f"/profiles/opened/{upload.pk}/").status_code == 404
    assert client.get(f"/profiles/{profile}/").status_code == 404
    assert len(stored_keys(upload.pk)) == 2
    call_command("sweep", "--once")
    assert stored_keys(upload.pk) == []


def test_the_sweep_removes_a_file_that_arrives_after_deletion(storage, settings):
    alice = make_user()
    upload = make_upload(alice, good_profile("tiny"))
    key, size = upload.files.get().object_key, upload.size_bytes
    url, headers = object_store.presign_put(
        key, size_bytes=size, md5=upload.files.get().md5, is_browser=True
    )
    delete_import(upload)
    sweep_imports()
    assert stored_keys(upload.pk) == []
    assert httpx2.put(url, content=good_profile("tiny"), headers=headers).status_code == 200
    sweep_imports()
    assert stored_keys(upload.pk) == [key]  # its URL has not expired: another file may arrive
    sweep_after_presigned_urls_expire(upload, settings)
    assert stored_keys(upload.pk) == []
    assert not ProfileUpload.objects.exists()


def sweep_after_presigned_urls_expire(upload, settings) -> None:
    """Sweep as if all presigned URLs of the upload had expired."""
    elapsed = datetime.timedelta(seconds=2 * settings.PRESIGN_EXPIRY_S + 1)
    row = ProfileUpload.objects.filter(pk=upload.pk)
    assert row.get().deadline_at > timezone.now() + elapsed / 2
    row.update(deadline_at=row.get().deadline_at - elapsed)
    sweep_imports()


def test_delete_below_removes_only_keys_under_the_prefix(storage):
    for key in ("opened/1/a", "opened/1/b/c", "opened/10/a"):
        object_store.write(key, b"x")
    assert object_store.delete_below("opened/1/") == 2
    assert object_store.head("opened/10/a")
    for prefix in ("opened/1", "/", ""):
        with pytest.raises(ValueError, match=f"^{prefix}$"):
            object_store.delete_below(prefix)


def test_deletion_works_while_storage_is_unreachable(storage, settings):
    upload = make_import(make_user(), good_profile("tiny"))
    address = settings.S3_ENDPOINT_URL
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    delete_import(upload)
    sweep_imports()
    assert ProfileUpload.objects.get().state == State.DELETED
    settings.S3_ENDPOINT_URL = address
    sweep_imports()
    assert stored_keys(upload.pk) == []


def test_administrators_list_and_delete_imports(client, storage):
    upload = make_import(make_user(), bad_profile("not_json"), name="of alice")
    client.force_login(make_user("root", is_staff=True, is_superuser=True))
    pages = ("/admin/profiles/profileupload/", f"/admin/profiles/profileupload/{upload.pk}/change/")
    for page in pages:
        assert "of alice" in client.get(page).text
    client.post(f"/admin/profiles/profileupload/{upload.pk}/delete/", {"post": "yes"})
    upload.refresh_from_db()
    assert upload.state == State.DELETED
    client.get(pages[0])  # shows the message that it was deleted
    assert "of alice" not in client.get(pages[0]).text


def test_an_import_deleted_during_processing_leaves_no_files(storage, settings, monkeypatch):
    upload = make_upload(make_user(), good_profile("tiny"))
    confirm_upload(upload)
    write = object_store.write

    def write_late(key, data):
        delete_import(ProfileUpload.objects.get(pk=upload.pk))
        sweep_imports()
        write(key, data)

    monkeypatch.setattr(ObjectStorage, "write", staticmethod(write_late))
    build_opened(upload.pk)
    assert not Profile.objects.exists()
    sweep_after_presigned_urls_expire(upload, settings)
    assert stored_keys(upload.pk) == []


def test_rename_requires_a_name(client, alice):
    upload = make_import(alice, bad_profile("not_json"))
    url = f"/profiles/opened/{upload.pk}/rename/"
    assert client.post(url, {"name": " \n"}).status_code == 422
    client.post(url, {"name": " two\nlines "})
    upload.refresh_from_db()
    assert upload.name == "two lines"


def test_an_incomplete_upload_is_removed_after_its_deadline(storage, settings):
    upload = make_upload(make_user(), good_profile("tiny"))
    sweep_imports()
    assert ProfileUpload.objects.get().state == State.INITIATED
    ProfileUpload.objects.update(deadline_at=timezone.now())
    sweep_imports()
    assert stored_keys(upload.pk) == []
    sweep_after_presigned_urls_expire(upload, settings)
    assert not ProfileUpload.objects.exists()


def test_the_sweep_stops_at_an_unreachable_broker(storage, monkeypatch):
    for name in ("alice", "bob"):
        confirm_upload(make_upload(make_user(name), good_profile("tiny")))
    attempts = []

    def raise_connection_error(actor, upload, queue):
        attempts.append(upload)
        raise ConnectionError("no broker")

    long_ago = timezone.now() - datetime.timedelta(minutes=1)
    ProfileUpload.objects.update(hinted_at=long_ago)
    monkeypatch.setattr(readings, "enqueue", raise_connection_error)
    sweep_readings()
    assert len(attempts) == 1
    assert ProfileUpload.objects.filter(hinted_at=long_ago).count() == 2
    monkeypatch.setattr(readings, "enqueue", lambda _, upload, queue: attempts.append(upload))
    sweep_readings()
    assert len(attempts) == 3


def test_the_sweep_sends_a_lost_message_again(storage, monkeypatch):
    upload = make_upload(make_user(), good_profile("tiny"))
    confirm_upload(upload)
    messages = []
    monkeypatch.setattr(readings, "enqueue", lambda _, upload, queue: messages.append(upload))

    sweep_readings()
    assert messages == []
    ProfileUpload.objects.update(hinted_at=timezone.now() - datetime.timedelta(seconds=21))
    sweep_readings()
    sweep_readings()
    assert messages == [upload.pk]
    build_opened(upload.pk)
    build_opened(upload.pk)
    upload.refresh_from_db()
    assert (upload.state, Profile.objects.count()) == (State.READY, 1)


def test_an_import_that_times_out_can_be_retried(client, alice):
    upload = make_upload(alice, good_profile("tiny"))
    confirm_upload(upload)
    ProfileUpload.objects.update(deadline_at=timezone.now())
    sweep_imports()
    upload.refresh_from_db()
    assert (upload.state, upload.problem) == (State.FAILED, "timed_out")
    assert "Retry" in client.get(f"/profiles/opened/{upload.pk}/").text
    client.post(f"/profiles/opened/{upload.pk}/retry/")
    build_opened(upload.pk)
    upload.refresh_from_db()
    assert upload.state == State.READY


def test_processing_is_retried_while_storage_is_unreachable(storage, settings):
    upload = make_upload(make_user(), good_profile("tiny"))
    confirm_upload(upload)
    address = settings.S3_ENDPOINT_URL
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    with pytest.raises(DomainError, match="storage_unreachable"):
        build_opened(upload.pk)
    settings.S3_ENDPOINT_URL = address
    build_opened(upload.pk)
    upload.refresh_from_db()
    assert upload.state == State.READY


def test_an_internal_error_fails_the_import(storage, monkeypatch):
    monkeypatch.setattr("profiles.imports.processing.derive", lambda files: 1 / 0)
    upload = make_import(make_user(), good_profile("tiny"))
    assert (upload.state, upload.problem) == (State.FAILED, "broke")


def test_a_file_missing_from_storage_fails_the_import(storage):
    upload = make_upload(make_user(), good_profile("tiny"))
    confirm_upload(upload)
    object_store.delete(upload.files.get().object_key)
    build_opened(upload.pk)
    upload.refresh_from_db()
    assert upload.problem == "storage_lost"
