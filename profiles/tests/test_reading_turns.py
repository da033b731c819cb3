"""Who waits for whom: results of runs, imports of several users, and rebuilds."""

import datetime
import threading

import dramatiq
import pytest
from django.utils import timezone

from profiles import actors
from profiles.actors import build_opened, build_profile
from profiles.imports.processing import sweep_imports
from profiles.ingest.loading import request_rebuild
from profiles.models import Profile, ProfileUpload, ReadingTurn
from profiles.readings import CLAIM, claimed_reading, sweep_readings
from profiles.tests.imports import confirm_upload, make_import, make_upload
from profiles.tests.make import finished_attempt, verify
from tasks.lifecycle.sweep import sweep
from tasks.models import Task
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.errors import DomainError

State = ProfileUpload.State
LONG = datetime.timedelta(hours=1)


def queue_import(owner):
    upload = make_upload(owner, good_profile("tiny"))
    confirm_upload(upload)
    return upload.pk


def ready():
    """Imports that have been read, in the order in which their profiles were made."""
    return list(Profile.objects.order_by("pk").values_list("upload", flat=True))


@pytest.mark.django_db
@pytest.mark.database
class TestTurns:
    def test_users_take_turns(self, storage):
        alice, bob = make_user("alice"), make_user("bob")
        first, second, third = [queue_import(alice) for _ in range(3)]
        bobs = queue_import(bob)
        for _ in range(4):
            build_opened(first)
        assert ready() == [first, bobs, second, third]

    def test_each_user_has_one_import_read_at_a_time(self, storage):
        alice, bob = make_user("alice"), make_user("bob")
        queue_import(alice)
        second = queue_import(alice)
        with claimed_reading():  # by another actor
            build_opened(second)
            assert ready() == []
            bobs = queue_import(bob)
            build_opened(bobs)
            assert ready() == [bobs]

    def test_a_reading_goes_on_after_its_actor_was_killed(self, storage):
        alice = make_user("alice")
        first = queue_import(alice)
        turn = ReadingTurn.objects.create(user=alice, until=timezone.now() + CLAIM)
        build_opened(first)
        sweep_readings()
        assert ready() == []
        ReadingTurn.objects.update(until=turn.until - CLAIM)
        ProfileUpload.objects.update(hinted_at=timezone.now() - LONG)
        sweep_readings()
        message = dramatiq.Message.decode(dramatiq.get_broker().queues["profiles"].get_nowait())
        assert (message.actor_name, message.args) == ("build_opened", (first,))
        build_opened(first)
        assert ready() == [first]

    def test_after_each_reading_a_message_is_sent_for_the_next_one(self, storage):
        alice = make_user("alice")
        queue_import(alice), queue_import(alice)
        dramatiq.get_broker().flush_all()
        build_opened()
        assert dramatiq.get_broker().queues["profiles"].qsize() == 1
        dramatiq.get_broker().flush_all()
        build_opened()
        assert dramatiq.get_broker().queues["profiles"].qsize() == 0

    def test_a_rebuild_waits_for_one_import_of_its_owner_at_most(self, storage):
        alice = make_user("alice")
        profile = make_import(alice, good_profile("tiny")).profile
        queue_import(alice), queue_import(alice)
        build_opened()
        request_rebuild(profile.pk)
        before = profile.built_at
        build_opened()
        profile.refresh_from_db()
        assert (profile.rebuild_hinted_at, len(ready())) == (None, 2)
        assert profile.built_at > before

    def test_the_sweep_repeats_a_lost_message_for_a_rebuild(self, storage):
        profile = make_import(make_user(), good_profile("tiny")).profile
        request_rebuild(profile.pk)
        dramatiq.get_broker().flush_all()
        sweep_readings()
        assert dramatiq.get_broker().queues["profiles"].qsize() == 0
        Profile.objects.update(rebuild_hinted_at=timezone.now() - LONG)
        sweep_readings()
        sweep_readings()
        assert dramatiq.get_broker().queues["profiles"].qsize() == 1


@pytest.mark.django_db
class TestDeadlines:
    def test_an_import_that_waits_long_is_read_and_then_has_a_deadline(self, storage, settings):
        upload = queue_import(make_user())
        assert ProfileUpload.objects.get().deadline_at is None
        sweep_imports()
        assert ProfileUpload.objects.get().state == State.PROCESSING
        settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
        with pytest.raises(DomainError, match="storage_unreachable"):
            build_opened(upload)
        assert ProfileUpload.objects.get().deadline_at > timezone.now()
        ProfileUpload.objects.update(deadline_at=timezone.now())
        sweep_imports()
        assert ProfileUpload.objects.get().problem == "timed_out"

    def test_an_interrupted_import_is_read_before_the_owners_others(self, storage):
        alice = make_user()
        queue_import(alice)
        interrupted = queue_import(alice)
        ProfileUpload.objects.filter(pk=interrupted).update(deadline_at=timezone.now() + LONG)
        build_opened()
        assert ready() == [interrupted]

    def test_the_deadline_of_a_result_counts_from_the_start_of_its_reading(self, storage, settings):
        attempt = finished_attempt(good_profile("tiny"))
        assert Task.objects.get().processing_deadline_at is None
        sweep()
        assert Task.objects.get().state == "processing"
        assert [row for row in verify() if row[0] == "ends"] == []
        settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
        with pytest.raises(DomainError, match="storage_unreachable"):
            build_profile(str(attempt.pk))
        deadline = Task.objects.get().processing_deadline_at
        assert deadline > timezone.now()
        Task.objects.update(processing_deadline_at=timezone.now())
        sweep()
        assert Task.objects.get().reason == "profile_timed_out"


@pytest.fixture
def two_threads():
    """A Dramatiq worker with two threads, as the site starts it; one with eight ran before."""
    earlier = dramatiq.Worker(dramatiq.get_broker(), worker_timeout=50)
    earlier.start()
    earlier.stop()
    worker = dramatiq.Worker(dramatiq.get_broker(), worker_timeout=50, worker_threads=2)
    worker.start()
    yield worker
    worker.stop()
    dramatiq.get_broker().flush_all()


def test_results_of_runs_do_not_wait_behind_imports(monkeypatch, two_threads):
    go_on, reading, built = threading.Event(), threading.Event(), threading.Event()

    class SlowReading:
        def __enter__(self):
            reading.set()
            go_on.wait(60)

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(actors, "claimed_reading", SlowReading)
    monkeypatch.setattr(actors, "waiting_owners", list)
    monkeypatch.setattr(build_profile, "fn", lambda attempt: built.set())
    for upload in range(6):
        build_opened.send(upload)
    assert reading.wait(30)
    build_profile.send("of another user")
    try:
        assert built.wait(30), "both threads read imports"
    finally:
        go_on.set()
