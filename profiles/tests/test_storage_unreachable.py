"""If storage is unreachable, a round of the sweep stops after the first failed request."""

import datetime

import pytest
from django.utils import timezone

from profiles.health import run_health_checks
from profiles.imports.processing import sweep_imports
from profiles.imports.uploads import delete_import
from profiles.models import PartedUpload, ProfileUpload, RemovedObjects
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
def disconnect_storage(storage, monkeypatch):
    """Return a function that makes storage unreachable and returns the list of later requests.

    A request to an unreachable storage may take 15 s.
    """
    requests = []

    def refuse(*arguments, **more):
        requests.append(arguments[0])
        raise DomainError("storage_unreachable", status=503)

    def disconnect():
        for name in ("delete_below", "abort_parts", "write", "write_from"):
            monkeypatch.setattr(ObjectStorage, name, staticmethod(refuse))
        return requests

    return disconnect


def test_removals_stop_at_the_first_failure_and_rotate(disconnect_storage):
    requests = disconnect_storage()
    schedule_removal(["tasks/1/", "tasks/2/"])
    sweep_removed_files()
    sweep_removed_files()
    assert requests == ["tasks/1/", "tasks/2/"]


def test_an_object_that_storage_refuses_to_delete_blocks_no_other(storage, monkeypatch):
    monkeypatch.setattr(ObjectStorage, "delete_all", lambda self, keys: {"tasks/1/1"})
    schedule_removal(["tasks/1/1", "tasks/1/2"])
    sweep_removed_files()
    rows = dict(RemovedObjects.objects.values_list("prefix", "is_last"))
    assert rows == {"tasks/1/1": False, "tasks/1/2": True}


def test_the_sweep_of_multipart_uploads_stops_at_the_first_failure(disconnect_storage):
    requests = disconnect_storage()
    for number in range(3):
        PartedUpload.objects.create(object_key=f"tasks/{number}/1", upload_id="x")
    sweep_parts()
    assert len(requests) == 1
    assert PartedUpload.objects.count() == 3


def test_the_sweep_of_imports_stops_at_the_first_failure(disconnect_storage):
    alice = make_user()
    for _ in range(3):
        delete_import(make_upload(alice, good_profile("tiny")))
    ProfileUpload.objects.update(deadline_at=None)
    requests = disconnect_storage()
    sweep_imports()
    assert len(requests) == 1
    assert ProfileUpload.objects.count() == 3


def test_health_checks_stop_at_the_first_failure(disconnect_storage):
    requests = disconnect_storage()
    for name in ("a", "b", "c"):
        make_worker(name)
    Worker.objects.update(created_at=timezone.now() - datetime.timedelta(hours=7))
    run_health_checks()
    assert len(requests) == 1
    assert HealthCheck.objects.count() == 1


def test_a_run_that_measures_a_device_is_not_repeated_in_each_round(disconnect_storage, settings):
    settings.AA_RUN_S = 20
    requests = disconnect_storage()
    make_worker()
    for _ in range(3):
        run_health_checks()
    assert len(requests) == 1
    assert HealthCheck.objects.get().result == "abandoned"
