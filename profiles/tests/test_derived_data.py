"""Derived data: cached in memory, and rebuilt when they are missing or outdated."""

import dataclasses
import datetime
import errno
import io
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import dramatiq
import pytest
from cachetools import LRUCache
from django.core.management import CommandError, call_command
from django.db.utils import OperationalError
from django.utils import timezone

from accounts.models import User
from agent.protocol.plan import Plan
from profiles import actors
from profiles.actors import rebuild_profile
from profiles.analysis.archive import VERSION, weight_bytes
from profiles.analysis.data import ProfileData
from profiles.ingest import loading, results
from profiles.ingest.loading import profile_data, request_rebuild
from profiles.models import AttemptMeasurement, Profile
from profiles.services import build_attempt_profile
from profiles.tests.make import CLEAN, CLEAN_ONLY, assert_same, finished_attempt, measurement_json
from profiles.tests.pages import ended_attempt, store_models, whole_page
from profiles.tests.passes import another_pass, change_operator
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.errors import DomainError
from webprofile.storage import storage as object_store

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage"), pytest.mark.database]


def build_profile(name: str = "lstm") -> Profile:
    attempt = finished_attempt(good_profile(name), owner=any_user())
    build_attempt_profile(attempt)
    return Profile.objects.get(attempt=attempt)


def any_user() -> User:
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
        if field.name not in ("load_graph", "load_intervals"):
            assert_same(getattr(left, field.name), getattr(right, field.name))
    for number in range(len(left.passes)):
        assert_same(left.graph_of_pass(number), right.graph_of_pass(number))
    return True


def test_cached_data_needs_no_storage(settings):
    profile = build_profile()
    data = profile_data(profile)
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    assert profile_data(Profile.objects.get(pk=profile.pk)) is data


@pytest.fixture
def limit_cache(monkeypatch):
    """Return a function that replaces the cache of profiles by one of a given size in bytes."""

    def limit(size_bytes: int) -> None:
        monkeypatch.setattr(loading, "_CACHE_BYTES", size_bytes)
        empty = LRUCache(size_bytes, getsizeof=loading._weight)
        monkeypatch.setattr(loading._read, "cache", empty)

    return limit


def test_the_cache_evicts_the_least_recently_used_profile(limit_cache):
    profiles = [build_profile(), build_profile(), build_profile()]
    archive = object_store.read(profiles[0].derived_key, limit_bytes=1 << 30)
    limit_cache(weight_bytes(archive) * 5 // 2)
    first, second = map(profile_data, profiles[:2])
    assert profile_data(profiles[0]) is first
    profile_data(profiles[2])
    assert profile_data(profiles[0]) is first
    again = profile_data(profiles[1])
    assert again is not second
    assert same(again, second)


def test_a_profile_larger_than_the_cache_stays_until_the_next_one(limit_cache):
    profiles = [build_profile(), build_profile()]
    limit_cache(1)
    first = profile_data(profiles[0])
    assert profile_data(profiles[0]) is first
    profile_data(profiles[1])
    assert profile_data(profiles[0]) is not first


def test_a_cache_of_zero_bytes_keeps_no_profile(limit_cache):
    profile = build_profile()
    limit_cache(0)
    assert profile_data(profile) is not profile_data(profile)


def test_concurrent_threads_get_the_same_data():
    profile = build_profile()
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(profile_data, [profile] * 8))
    assert all(same(data, loaded[0]) for data in loaded)


def test_the_page_of_an_outdated_result_queues_one_rebuild(
    client, alice, django_capture_on_commit_callbacks
):
    profile = build_profile()
    data = profile_data(profile)
    make_outdated(profile)
    address = f"/tasks/{profile.attempt.task_id}/"
    broker = dramatiq.get_broker()
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(3):
            assert "being recomputed" in client.get(address).text
    assert broker.queues["profiles"].qsize() == 1
    message = dramatiq.Message.decode(broker.queues["profiles"].get_nowait())
    assert (message.actor_name, message.args) == ("rebuild_profile", (profile.pk,))

    rebuild_profile(profile.pk)
    profile.refresh_from_db()
    assert (profile.derived_version, profile.operators) == (VERSION, len(data.columns))
    assert same(profile_data(profile), data)
    assert "being recomputed" not in client.get(address).text


def test_a_missing_archive_is_rebuilt():
    profile = build_profile()
    object_store.delete(profile.derived_key)
    with pytest.raises(DomainError, match="profile_outdated"):
        profile_data(profile)
    rebuild_profile(profile.pk)
    profile.refresh_from_db()
    assert len(profile_data(profile).columns) == profile.operators


def test_a_profile_whose_rebuild_fails_is_damaged():
    profile = build_profile()
    make_outdated(profile)
    object_store.write(profile.object_key("profile.json"), b"{")
    request_rebuild(profile.pk)
    rebuild_profile(profile.pk)
    profile.refresh_from_db()
    assert profile.problem == "profile_unreadable"
    with pytest.raises(DomainError, match="profile_damaged"):
        profile_data(profile)


def test_the_page_of_a_result_whose_rebuild_breaks_does_not_ask_to_wait(client, alice, monkeypatch):
    profile = build_profile()
    make_outdated(profile)
    request_rebuild(profile.pk)
    monkeypatch.setattr(actors, "rebuild_derived", lambda _: 1 / 0)
    rebuild_profile(profile.pk)
    text = client.get(f"/tasks/{profile.attempt.task_id}/").text
    assert "being recomputed" not in text
    assert "The stored profile is damaged" in text
    profile.refresh_from_db()
    assert profile.rebuild_hinted_at is None


@pytest.mark.parametrize(
    "error", [OperationalError("the connection is closed"), OSError(errno.ENOSPC, "No space left")]
)
def test_a_rebuild_during_an_outage_is_repeated(error, monkeypatch):
    profile = build_profile()
    make_outdated(profile)
    request_rebuild(profile.pk)
    with monkeypatch.context() as outage:
        outage.setattr(actors, "rebuild_derived", Mock(side_effect=error))
        with pytest.raises(type(error)):
            rebuild_profile(profile.pk)
    rebuild_profile(profile.pk)
    profile.refresh_from_db()
    assert profile.problem == ""
    assert profile_data(profile).has_operators


def test_a_run_whose_result_meets_a_locked_database_does_not_fail(monkeypatch):
    attempt = finished_attempt(good_profile("tiny"), owner=any_user())
    with monkeypatch.context() as outage:
        locked = Mock(side_effect=OperationalError("database is locked"))
        outage.setattr("profiles.services.complete_task", locked)
        with pytest.raises(OperationalError):
            actors.build_profile(str(attempt.pk))
    actors.build_profile(str(attempt.pk))
    attempt.task.refresh_from_db()
    assert attempt.task.outcome == "succeeded"


def test_a_profile_in_unreachable_storage_is_not_damaged(settings):
    profile = build_profile()
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    with pytest.raises(DomainError, match="storage_unreachable"):
        profile_data(profile)
    request_rebuild(profile.pk)
    with pytest.raises(DomainError, match="storage_unreachable"):
        rebuild_profile(profile.pk)
    profile.refresh_from_db()
    assert profile.problem == ""


def test_reprofile_rebuilds_only_outdated_profiles():
    old, new = build_profile(), build_profile("tiny")
    expected = profile_data(old)
    make_outdated(old)
    task = old.attempt.task_id
    assert reprofile("--outdated") == (
        0,
        f"profile {old.pk} (task {task}): done\n1 rebuilt, 0 failed\n",
    )
    old.refresh_from_db()
    assert same(profile_data(old), expected)
    assert (old.iterations, old.device_total_s) == (10, expected.columns.device.total_s())
    assert Profile.objects.get(pk=new.pk).built_at == new.built_at
    assert reprofile("--outdated") == (0, "0 rebuilt, 0 failed\n")


def test_reprofile_rebuilds_measurements_with_and_without_a_profile():
    plan = Plan(preset="standard", clean=True, profiled=2)
    first = good_profile("lstm")
    both = ended_attempt(
        {
            "profile.json": first,
            "profile-2.json": another_pass(first, 1),
            "measurement.json": measurement_json(CLEAN, plan=plan),
        },
        any_user(),
        plan=plan,
    )
    clean = {"measurement.json": measurement_json(CLEAN, plan=CLEAN_ONLY)}
    alone = ended_attempt(clean, any_user(), plan=CLEAN_ONLY)
    for attempt in (both, alone):
        build_attempt_profile(attempt)
    before = list(AttemptMeasurement.objects.order_by("pk").values())
    AttemptMeasurement.objects.update(histogram={}, median_ms=0.0, derived_version=0)
    code, out = reprofile("--all")
    assert (code, out.splitlines()[-1]) == (0, "2 rebuilt, 0 failed")
    after = list(AttemptMeasurement.objects.order_by("pk").values())
    assert len(after) == 2
    assert [{**row, "built_at": None} for row in after] == [
        {**row, "built_at": None} for row in before
    ]
    assert profile_data(Profile.objects.get()).passes == ("profile.json", "profile-2.json")
    AttemptMeasurement.objects.filter(attempt=alone).update(derived_version=0)
    assert reprofile("--outdated")[1].startswith("measurement ")


def test_reprofile_keeps_old_data_after_a_failed_rebuild():
    broken, good = build_profile(), build_profile("tiny")
    data = profile_data(broken)
    object_store.write(broken.object_key("profile.json"), b"{")
    code, out = reprofile("--all")
    assert code == 1
    lines = out.splitlines()
    assert lines[0].startswith(f"profile {broken.pk} (task ")
    assert "failed: profile_unreadable" in lines[0]
    assert lines[1].endswith(": done")
    assert lines[-1] == "1 rebuilt, 1 failed"
    broken.refresh_from_db()
    assert same(profile_data(broken), data)
    assert Profile.objects.get(pk=good.pk).problem == ""


def test_reprofile_words_errors_of_storage(monkeypatch):
    profile = build_profile()
    unreachable = DomainError("storage_unreachable", status=503)
    monkeypatch.setattr("profiles.ingest.results.derive", Mock(side_effect=unreachable))
    assert reprofile("--all")[1].startswith(
        f"profile {profile.pk} (task {profile.attempt.task_id}): failed: Object storage does not "
        "respond."
    )


def test_reprofile_continues_after_an_unexpected_exception(monkeypatch):
    broken, good = build_profile(), build_profile("tiny")
    derive = results.derive

    def derive_or_break(files, *more):
        if files[0][1] == broken.object_key("profile.json"):
            raise RuntimeError("the reader broke")
        return derive(files, *more)

    monkeypatch.setattr("profiles.ingest.results.derive", derive_or_break)
    code, out = reprofile("--all")
    assert (code, out.splitlines()[-1]) == (1, "1 rebuilt, 1 failed")
    assert f"profile {broken.pk} (task {broken.attempt.task_id}): failed: the reader broke" in out
    assert Profile.objects.get(pk=good.pk).built_at > good.built_at


def test_the_page_of_a_measurement_without_a_histogram_makes_no_false_claims(client, alice):
    clean = {"measurement.json": measurement_json(CLEAN, plan=CLEAN_ONLY)}
    attempt = ended_attempt(clean, alice, plan=CLEAN_ONLY)
    build_attempt_profile(attempt)
    store_models(attempt.task)
    AttemptMeasurement.objects.update(histogram={}, derived_version=0)
    text = whole_page(client, f"/tasks/{attempt.task_id}/")
    assert "there is no histogram" not in text
    assert "too few for a histogram" not in text
    assert "no latency pass" not in text


def test_the_page_of_an_outdated_result_does_not_say_that_its_log_is_empty(client, alice):
    profile = build_profile()
    make_outdated(profile)
    store_models(profile.attempt.task)
    text = whole_page(client, f"/tasks/{profile.attempt.task_id}/")
    assert "being recomputed" in text
    assert "no iteration times" not in text


def test_reprofile_accepts_tasks_and_profiles():
    one, _, other = build_profile(), build_profile("tiny"), build_profile("lstm")
    _, out = reprofile("--task", str(one.attempt.task_id), "--profile", str(other.pk))
    assert [line.split(" (")[0] for line in out.splitlines()[:-1]] == [
        f"profile {one.pk}",
        f"profile {other.pk}",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Give --task"),
        (("--task", "99999"), "no result"),
        (("--profile", "99999"), "Profile 99999 does not exist"),
    ],
)
def test_reprofile_refuses_invalid_arguments(arguments, message):
    with pytest.raises(CommandError, match=message) as caught:
        reprofile(*arguments)
    assert caught.value.returncode == 2


def test_reprofile_stops_on_ctrl_c_without_a_traceback(monkeypatch):
    build_profile()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("profiles.ingest.results.derive", interrupt)
    with pytest.raises(CommandError, match="Stopped") as caught:
        reprofile("--all")
    assert caught.value.returncode == 130


def test_the_page_names_passes_that_were_not_merged(client, alice):
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
    text = whole_page(client, f"/tasks/{attempt.task_id}/")
    for phrase in ("2 files could not be used", "operators differ", "profile-3.json"):
        assert phrase in text
