"""While storage is unreachable, a round of the sweep stops after the first failed request."""

import datetime

import pytest
from django.utils import timezone

from profiles.health import run_health_checks
from profiles.imports.sweep import sweep_imports
from profiles.imports.uploads import delete_import
from profiles.models import PartedUpload, ProfileUpload
from profiles.parts import sweep_parts
from profiles.retention.deletion import schedule_removal, sweep_removed_files
from profiles.tests.imports import make_upload
from tasks.tests.make import make_user, make_worker
from testdata import good_profile
from webprofile.errors import DomainError
from webprofile.storage.s3 import ObjectStorage
from workers.models import HealthCheck, Worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def break_storage(storage, monkeypatch):
    """Return a function that makes storage unreachable and returns the list of later requests.

    A request to an unreachable storage may take 15 s.
    """
    questions = []

    def away(*question, **more):
        questions.append(question[0])
        raise DomainError("storage_unreachable", status=503)

    def break_it():
        for name in ("delete_below", "abort_parts", "write", "write_from"):
            monkeypatch.setattr(ObjectStorage, name, staticmethod(away))
        return questions

    return break_it


def test_removals_stop_at_the_first_and_begin_with_another_one_next_time(break_storage):
    questions = break_storage()
    schedule_removal(["tasks/1/", "tasks/2/"])
    sweep_removed_files()
    sweep_removed_files()
    assert questions == ["tasks/1/", "tasks/2/"]


def test_uploads_in_parts_are_given_up_until_the_first_fails(break_storage):
    questions = break_storage()
    for number in range(3):
        PartedUpload.objects.create(object_key=f"tasks/{number}/1", upload_id="x")
    sweep_parts()
    assert len(questions) == 1
    assert PartedUpload.objects.count() == 3


def test_deleted_profiles_are_removed_until_the_first_fails(break_storage):
    alice = make_user()
    for _ in range(3):
        delete_import(make_upload(alice, good_profile("tiny")))
    ProfileUpload.objects.update(deadline_at=None)
    questions = break_storage()
    sweep_imports()
    assert len(questions) == 1
    assert ProfileUpload.objects.count() == 3


def test_health_checks_begin_until_the_first_cannot(break_storage):
    questions = break_storage()
    for name in ("a", "b", "c"):
        make_worker(name)
    Worker.objects.update(created_at=timezone.now() - datetime.timedelta(hours=7))
    run_health_checks()
    assert len(questions) == 1
    assert HealthCheck.objects.count() == 1
