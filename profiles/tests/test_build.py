"""Building a profile from an attempt's files in real storage, up to the result page."""

import pytest

from profiles.actors import build_profile
from profiles.analysis.numbers import percent, short
from profiles.analysis.query import Query
from profiles.analysis.select import select
from profiles.analysis.table import rows
from profiles.ingest.loading import profile_data
from profiles.models import Profile
from profiles.services import build_attempt_profile
from profiles.tests.make import LOG, finished_attempt
from tasks.models import Attempt, artifact_key
from tasks.tests.make import make_user
from testdata import bad_profile
from webprofile.errors import DomainError

pytestmark = [pytest.mark.django_db, pytest.mark.database]


@pytest.fixture
def resnet(testdata) -> bytes:
    return (testdata / "profiles" / "resnet18.json").read_bytes()


def test_a_profile_is_built_and_shown_as_the_tool_prints_it(client, storage, resnet, testdata):
    alice = make_user()
    attempt = finished_attempt(resnet, owner=alice)
    build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    assert attempt.task.status == "succeeded"
    profile = Profile.objects.get(attempt=attempt)
    assert (profile.operators, profile.iterations, profile.mean_ms) == (173, 10, 9.167)

    client.force_login(alice)
    page = client.get(f"/tasks/{attempt.task_id}/result/?rows=10")
    text = client.get(f"/api/v1/profiles/{profile.pk}/text/?rows=10").getvalue().decode()
    columns = profile_data(profile).columns
    (top,) = rows(columns, select(columns, Query()), 0, 1)
    for line in ("ConvolutionForward", "#0", short(top.self_s), percent(top.ratio)):
        assert line in page.content.decode()
        assert line in text
    download = client.get(f"/tasks/{attempt.task_id}/artifacts/profile.json")
    assert artifact_key(str(attempt.pk), "profile.json") in download["Location"]


def test_building_twice_changes_nothing_the_second_time(storage, resnet):
    attempt = finished_attempt(resnet)
    build_attempt_profile(attempt)
    events = attempt.task.events.count()
    build_attempt_profile(Attempt.objects.get(pk=attempt.pk))
    assert (attempt.task.events.count(), Profile.objects.count()) == (events, 1)


@pytest.mark.parametrize("bad", ["truncated_last_byte", "not_json", "deep", "no_profiler", "list"])
def test_a_profile_that_cannot_be_read_fails_the_task_with_the_reason(storage, testdata, bad):
    data = (testdata / "bad" / "profiles" / f"{bad}.json").read_bytes()
    attempt = finished_attempt(data)
    build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    assert (attempt.task.status, attempt.task.reason) == ("failed", "profile_unreadable")
    assert attempt.task.detail
    assert not Profile.objects.exists()


def test_a_profile_that_never_arrived_fails_the_task(storage):
    attempt = finished_attempt(None)
    build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    assert (attempt.task.status, attempt.task.reason) == ("failed", "profile_missing")


@pytest.mark.parametrize("count", ["99999999999999999999", "9" * 5000])
def test_a_log_that_lies_about_its_iterations_breaks_nothing(storage, resnet, count):
    attempt = finished_attempt(resnet, log=LOG.replace("0/10", f"0/{count}"))
    build_profile(str(attempt.pk))
    attempt.task.refresh_from_db()
    assert attempt.task.status == "succeeded"


def test_a_file_that_breaks_our_own_code_does_not_leave_its_task_behind(
    storage, resnet, monkeypatch
):
    attempt = finished_attempt(resnet)
    monkeypatch.setattr("profiles.ingest.results.derive", lambda files: 1 / 0)
    build_profile(str(attempt.pk))
    attempt.task.refresh_from_db()
    assert (attempt.task.status, attempt.task.reason) == ("failed", "profile_unreadable")


def test_a_profile_over_the_limit_is_called_that(storage, resnet, settings):
    settings.PROFILE_SIZE_LIMIT_BYTES = 1000
    attempt = finished_attempt(resnet)
    build_profile(str(attempt.pk))
    attempt.task.refresh_from_db()
    assert attempt.task.reason == "profile_too_large"


def test_storage_that_is_away_is_waited_for(storage, resnet, settings):
    attempt = finished_attempt(resnet)
    address = settings.S3_ENDPOINT_URL
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    with pytest.raises(DomainError, match="storage_unreachable"):
        build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    assert attempt.task.state == "processing"
    settings.S3_ENDPOINT_URL = address
    build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    assert attempt.task.status == "succeeded"


def test_what_load_and_run_warned_of_stands_on_the_result_page(client, alice, resnet):
    log = '[20 22:51:34 a@b.py:1][WARN] input "mask" <b>is</b> not given\n' + LOG
    attempt = finished_attempt(resnet, log=log, owner=alice)
    build_attempt_profile(attempt)
    page = client.get(f"/tasks/{attempt.task_id}/result/").content.decode()
    assert "input &quot;mask&quot; &lt;b&gt;is&lt;/b&gt; not given" in page


def test_a_run_below_the_clock_s_resolution_succeeds_with_its_latency_and_a_note(client, storage):
    alice = make_user()
    attempt = finished_attempt(bad_profile("time_all_zero"), owner=alice)
    build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    assert attempt.task.status == "succeeded"
    profile = Profile.objects.get()
    assert (profile.device_total_s, profile.operators) == (0.0, 24)
    assert profile.mean_ms is not None
    client.force_login(alice)
    page = client.get(f"/tasks/{attempt.task_id}/result/").content.decode()
    assert 'id="below-clock"' in page
    assert "nan%" not in page


def test_a_run_with_times_has_no_note_about_the_clock(client, alice, resnet):
    attempt = finished_attempt(resnet, owner=alice)
    build_attempt_profile(attempt)
    assert "below-clock" not in client.get(f"/tasks/{attempt.task_id}/result/").content.decode()


def test_opencl_that_took_no_times_fails_and_says_what_to_call(storage):
    attempt = finished_attempt(bad_profile("time_all_zero_opencl"))
    build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    assert (attempt.task.status, attempt.task.reason) == ("failed", "nothing_timed")
    assert "enable_opencl_profile" in attempt.task.detail


def test_a_log_of_another_version_leaves_out_the_iteration_time(storage, resnet):
    attempt = finished_attempt(resnet, log="nothing that is known\n")
    build_attempt_profile(attempt)
    assert Profile.objects.get().mean_ms is None
