"""Derived data: cached in memory, and rebuilt when they are missing or outdated."""

import dataclasses
import datetime
import io
import threading

import dramatiq
import pytest
from cachetools import LRUCache
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.utils import timezone

from accounts.models import User
from agent.protocol import Plan
from profiles.actors import rebuild_profile
from profiles.analysis.archive import VERSION, weight_bytes
from profiles.analysis.data import ProfileData
from profiles.ingest import loading, results
from profiles.ingest.loading import profile_data
from profiles.models import AttemptMeasurement, Profile
from profiles.services import build_attempt_profile
from profiles.tests.make import CLEAN, CLEAN_ONLY, assert_same, finished_attempt, measurement_json
from profiles.tests.pages import ended_attempt
from profiles.tests.passes import another_pass, change_operator
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.errors import DomainError
from webprofile.storage import storage as object_store

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage"), pytest.mark.database]


@pytest.fixture(autouse=True)
def _nothing_was_asked_for_yet():
    cache.clear()
    yield
    cache.clear()


def built_profile(name: str = "lstm", owner=None) -> Profile:
    attempt = finished_attempt(good_profile(name), owner=owner or somebody())
    build_attempt_profile(attempt)
    return Profile.objects.get(attempt=attempt)


def somebody() -> User:
    return User.objects.first() or make_user()


def make_outdated(profile: Profile) -> None:
    """Change the row and the objects of a profile to what an earlier version left."""
    Profile.objects.filter(pk=profile.pk).update(
        derived_version=0,
        operators=1,
        device_total_s=99.0,
        iterations=None,
        built_at=timezone.now() - datetime.timedelta(days=99),
    )
    object_store.delete(profile.derived_key)
    object_store.write(profile.object_key("columns.npz"), b"former")
    profile.refresh_from_db()


def reprofile(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    try:
        call_command("reprofile", *arguments, stdout=out)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()


def same(left: ProfileData, right: ProfileData) -> bool:
    for field in dataclasses.fields(ProfileData):
        if field.name != "load_graph":
            assert_same(getattr(left, field.name), getattr(right, field.name))
    assert_same(left.graph, right.graph)
    return True


def test_the_second_question_needs_no_storage(settings):
    profile = built_profile()
    data = profile_data(profile)
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    assert profile_data(Profile.objects.get(pk=profile.pk)) is data


@pytest.fixture
def limited(monkeypatch):
    """Return a function that replaces the cache of profiles by one of a given size in bytes."""

    def limit(size_bytes: int) -> None:
        monkeypatch.setattr(loading, "_CACHE_BYTES", size_bytes)
        empty = LRUCache(size_bytes, getsizeof=loading._weight)
        monkeypatch.setattr(loading._read, "cache", empty)

    return limit


def test_what_is_kept_in_memory_is_bounded_and_the_last_used_stays(limited):
    profiles = [built_profile(), built_profile(), built_profile()]
    archive = object_store.read(profiles[0].derived_key, limit_bytes=1 << 30)
    limited(weight_bytes(archive) * 5 // 2)
    first, second = map(profile_data, profiles[:2])
    assert profile_data(profiles[0]) is first
    profile_data(profiles[2])
    assert profile_data(profiles[0]) is first
    again = profile_data(profiles[1])
    assert again is not second
    assert same(again, second)


def test_a_profile_larger_than_the_whole_cache_stays_until_another_is_read(limited):
    profiles = [built_profile(), built_profile()]
    limited(1)
    first = profile_data(profiles[0])
    assert profile_data(profiles[0]) is first
    profile_data(profiles[1])
    assert profile_data(profiles[0]) is not first


def test_a_cache_of_no_bytes_keeps_no_profile(limited):
    profile = built_profile()
    limited(0)
    assert profile_data(profile) is not profile_data(profile)


def test_threads_that_ask_at_once_all_get_the_profile():
    profile = built_profile()
    loaded = []
    threads = [
        threading.Thread(target=lambda: loaded.append(profile_data(profile))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loaded) == 8
    assert all(same(data, loaded[0]) for data in loaded)


def test_a_result_of_a_former_version_says_so_and_is_made_anew(
    client, alice, django_capture_on_commit_callbacks
):
    profile = built_profile(owner=alice)
    data = profile_data(profile)
    make_outdated(profile)
    address = f"/tasks/{profile.attempt.task_id}/result/"
    broker = dramatiq.get_broker()
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(3):
            assert "being made anew" in client.get(address).content.decode()
    assert broker.queues["profiles"].qsize() == 1
    message = dramatiq.Message.decode(broker.queues["profiles"].get_nowait())
    assert (message.actor_name, message.args) == ("rebuild_profile", (profile.pk,))

    rebuild_profile(profile.pk)
    profile.refresh_from_db()
    assert (profile.derived_version, profile.operators) == (VERSION, len(data.columns))
    assert same(profile_data(profile), data)
    assert "being made anew" not in client.get(address).content.decode()


def test_a_lost_archive_is_made_anew_too():
    profile = built_profile()
    object_store.delete(profile.derived_key)
    with pytest.raises(DomainError, match="profile_outdated"):
        profile_data(profile)
    rebuild_profile(profile.pk)
    profile.refresh_from_db()
    assert len(profile_data(profile).columns) == profile.operators


def test_what_cannot_be_made_anew_is_called_damaged_and_not_asked_for_for_ever():
    profile = built_profile()
    make_outdated(profile)
    object_store.write(profile.object_key("profile.json"), b"{")
    rebuild_profile(profile.pk)
    profile.refresh_from_db()
    assert profile.problem == "profile_unreadable"
    with pytest.raises(DomainError, match="profile_damaged"):
        profile_data(profile)


def test_storage_that_is_away_is_not_taken_for_damage(settings):
    profile = built_profile()
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    for act in (lambda: profile_data(profile), lambda: rebuild_profile(profile.pk)):
        with pytest.raises(DomainError, match="storage_unreachable"):
            act()
    profile.refresh_from_db()
    assert profile.problem == ""


def test_reprofile_makes_what_is_outdated_anew_and_nothing_else():
    old, new = built_profile(), built_profile("tiny")
    expected = profile_data(old)
    make_outdated(old)
    task = old.attempt.task_id
    assert reprofile("--outdated") == (
        0,
        f"profile {old.pk} (task {task}): done\n1 made anew, 0 failed\n",
    )
    old.refresh_from_db()
    assert same(profile_data(old), expected)
    assert (old.iterations, old.device_total_s) == (10, expected.columns.device.total_s())
    assert object_store.head(old.object_key("columns.npz")) is None
    assert Profile.objects.get(pk=new.pk).built_at == new.built_at
    assert reprofile("--outdated") == (0, "0 made anew, 0 failed\n")


def test_reprofile_makes_a_measurement_anew_with_and_without_a_profile():
    plan = Plan(preset="standard", clean=True, profiled=2)
    first = good_profile("lstm")
    both = ended_attempt(
        {
            "profile.json": first,
            "profile-2.json": another_pass(first, 1),
            "measurement.json": measurement_json(CLEAN, plan=plan),
        },
        somebody(),
        plan=plan,
    )
    clean = {"measurement.json": measurement_json(CLEAN, plan=CLEAN_ONLY)}
    alone = ended_attempt(clean, somebody(), plan=CLEAN_ONLY)
    for attempt in (both, alone):
        build_attempt_profile(attempt)
    before = [
        AttemptMeasurement.objects.filter(attempt=attempt).values().get()
        for attempt in (both, alone)
    ]
    AttemptMeasurement.objects.update(histogram={}, median_ms=0.0, derived_version=0)
    code, out = reprofile("--all")
    assert (code, out.splitlines()[-1]) == (0, "2 made anew, 0 failed")
    after = [
        AttemptMeasurement.objects.filter(attempt=attempt).values().get()
        for attempt in (both, alone)
    ]
    for left, right in zip(before, after, strict=True):
        assert {**left, "built_at": None} == {**right, "built_at": None}
    assert profile_data(Profile.objects.get()).passes == ("profile.json", "profile-2.json")
    AttemptMeasurement.objects.filter(attempt=alone).update(derived_version=0)
    assert reprofile("--outdated")[1].startswith("measurement ")


def test_reprofile_keeps_the_old_data_of_what_it_cannot_make_and_says_so():
    broken, good = built_profile(), built_profile("tiny")
    data = profile_data(broken)
    object_store.write(broken.object_key("profile.json"), b"{")
    code, out = reprofile("--all")
    assert code == 1
    lines = out.splitlines()
    assert lines[0].startswith(f"profile {broken.pk} (task ")
    assert "failed: profile_unreadable" in lines[0]
    assert lines[1].endswith(": done")
    assert lines[-1] == "1 made anew, 1 failed"
    broken.refresh_from_db()
    assert same(profile_data(broken), data)
    assert Profile.objects.get(pk=good.pk).problem == ""


def test_reprofile_goes_on_after_a_file_that_breaks_our_own_code(monkeypatch):
    broken, good = built_profile(), built_profile("tiny")
    derive = results.derive

    def derive_or_break(files, *more):
        if files[0][1] == broken.object_key("profile.json"):
            raise RuntimeError("the reader broke")
        return derive(files, *more)

    monkeypatch.setattr("profiles.ingest.results.derive", derive_or_break)
    code, out = reprofile("--all")
    assert (code, out.splitlines()[-1]) == (1, "1 made anew, 1 failed")
    assert f"profile {broken.pk} (task {broken.attempt.task_id}): failed: the reader broke" in out
    assert Profile.objects.get(pk=good.pk).built_at > good.built_at


def test_a_measurement_of_before_histograms_says_nothing_wrong_of_its_iterations(client, alice):
    clean = {"measurement.json": measurement_json(CLEAN, plan=CLEAN_ONLY)}
    attempt = ended_attempt(clean, alice, plan=CLEAN_ONLY)
    build_attempt_profile(attempt)
    AttemptMeasurement.objects.update(histogram={}, derived_version=0)
    text = client.get(f"/tasks/{attempt.task_id}/result/").content.decode()
    assert "there is no histogram" not in text
    assert "too few for a histogram" not in text
    assert "no clean pass" not in text


def test_an_outdated_result_does_not_say_that_its_log_was_empty(client):
    profile = built_profile()
    make_outdated(profile)
    client.force_login(profile.attempt.task.owner)
    text = client.get(f"/tasks/{profile.attempt.task_id}/result/").content.decode()
    assert "made anew" in text
    assert "no times of iterations" not in text


def test_reprofile_takes_single_tasks_and_profiles():
    one, two, three = built_profile(), built_profile("tiny"), built_profile("lstm")
    _, out = reprofile("--task", str(one.attempt.task_id), "--profile", str(three.pk))
    assert [line.split(" (")[0] for line in out.splitlines()[:-1]] == [
        f"profile {one.pk}",
        f"profile {three.pk}",
    ]
    assert str(two.pk) not in [line.split()[1] for line in out.splitlines()[:-1]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Say which"),
        (("--task", "99999"), "no result"),
        (("--profile", "99999"), "no profile"),
    ],
)
def test_reprofile_says_what_is_wrong_with_a_question(arguments, message):
    with pytest.raises(CommandError, match=message):
        reprofile(*arguments)


def test_a_pass_that_was_not_merged_is_named_on_the_page(client):
    alice = make_user()
    first = good_profile("lstm")
    plan = Plan(preset="standard", clean=False, profiled=3)
    files = {
        "profile.json": first,
        "profile-2.json": change_operator(first, name="<b>another</b>"),
        "profile-3.json": b"{",
        "measurement.json": measurement_json(plan=plan),
    }
    attempt = ended_attempt(files, alice, plan=plan)
    build_attempt_profile(attempt)
    client.force_login(alice)
    text = client.get(f"/tasks/{attempt.task_id}/result/").content.decode()
    for phrase in ("2 files could not be used", "other operators", "profile-3.json"):
        assert phrase in text
