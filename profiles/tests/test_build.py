"""Building a profile from an attempt's files in real storage, up to the result page."""

import pytest

from profiles.actors import build_profile
from profiles.analysis.numbers import percent, short
from profiles.analysis.select import Query, select
from profiles.analysis.table import rows
from profiles.ingest.loading import profile_data
from profiles.models import Profile
from profiles.services import build_attempt_profile
from profiles.tests.make import LOG, finished_attempt
from profiles.tests.pages import whole_page
from tasks.models import Attempt, Task, artifact_key
from testdata import bad_profile, good_profile
from webprofile.errors import DomainError

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage"), pytest.mark.database]


RESNET = good_profile("resnet18")


def build(attempt: Attempt) -> Task:
    """Build the profile of an attempt with the actor; return the task."""
    build_profile(str(attempt.pk))
    attempt.task.refresh_from_db()
    return attempt.task


def test_the_page_and_the_text_show_the_largest_operator_of_a_built_profile(client, alice):
    attempt = finished_attempt(RESNET, owner=alice)
    assert build(attempt).status == "succeeded"
    profile = Profile.objects.get(attempt=attempt)
    assert (profile.operators, profile.iterations, profile.mean_ms) == (173, 10, 9.167)

    page = client.get(f"/tasks/{attempt.task_id}/?rows=10")
    text = client.get(f"/api/v1/profiles/{profile.pk}/text/?rows=10").getvalue().decode()
    columns = profile_data(profile).columns
    (top,) = rows(columns, select(columns, Query()), 0, 1)
    for value in ("ConvolutionForward", short(top.self_s), percent(top.ratio)):
        assert value in page.text
        assert value in text
    download = client.get(f"/tasks/{attempt.task_id}/artifacts/profile.json")
    assert artifact_key(str(attempt.pk), "profile.json") in download["Location"]


def test_a_second_build_changes_nothing():
    attempt = finished_attempt(RESNET)
    events = build(attempt).events.count()
    build(attempt)
    assert (attempt.task.events.count(), Profile.objects.count()) == (events, 1)


@pytest.mark.parametrize("bad", ["truncated_last_byte", "not_json", "deep", "no_profiler", "list"])
def test_an_unreadable_profile_fails_the_task_with_the_reason(bad):
    task = build(finished_attempt(bad_profile(bad)))
    assert (task.status, task.reason) == ("failed", "profile_unreadable")
    assert task.detail
    assert not Profile.objects.exists()


def test_a_missing_profile_fails_the_task():
    task = build(finished_attempt(None))
    assert (task.status, task.reason) == ("failed", "profile_missing")


@pytest.mark.parametrize("count", ["99999999999999999999", "9" * 5000])
def test_a_huge_number_of_iterations_in_the_log_does_not_fail_the_task(count):
    attempt = finished_attempt(RESNET, log=LOG.replace("0/10", f"0/{count}"))
    assert build(attempt).status == "succeeded"


def test_an_unexpected_exception_fails_the_task(monkeypatch):
    attempt = finished_attempt(RESNET)
    monkeypatch.setattr("profiles.ingest.results.derive", lambda files: 1 / 0)
    task = build(attempt)
    assert (task.status, task.reason) == ("failed", "profile_unreadable")


def test_a_profile_over_the_size_limit_has_its_own_reason(settings):
    settings.PROFILE_SIZE_LIMIT_BYTES = 1000
    assert build(finished_attempt(RESNET)).reason == "profile_too_large"


def test_the_task_waits_for_unreachable_storage(settings):
    attempt = finished_attempt(RESNET)
    address = settings.S3_ENDPOINT_URL
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    with pytest.raises(DomainError, match="storage_unreachable"):
        build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    assert attempt.task.state == "processing"
    settings.S3_ENDPOINT_URL = address
    assert build(attempt).status == "succeeded"


def test_the_result_page_shows_warnings_of_load_and_run(client, alice):
    log = '[20 22:51:34 a@b.py:1][WARN] input "mask" <b>is</b> not given\n' + LOG
    task = build(finished_attempt(RESNET, log=log, owner=alice))
    page = whole_page(client, f"/tasks/{task.pk}/")
    assert "input &quot;mask&quot; &lt;b&gt;is&lt;/b&gt; not given" in page


def test_a_run_below_the_resolution_of_the_clock_succeeds_with_a_note(client, alice):
    task = build(finished_attempt(bad_profile("time_all_zero"), owner=alice))
    assert task.status == "succeeded"
    profile = Profile.objects.get()
    assert (profile.device_total_s, profile.operators) == (0.0, 24)
    assert profile.mean_ms is not None
    page = whole_page(client, f"/tasks/{task.pk}/")
    assert 'id="below-clock"' in page
    assert "nan%" not in page


def test_a_run_with_times_has_no_note_about_the_clock(client, alice):
    task = build(finished_attempt(RESNET, owner=alice))
    assert "below-clock" not in whole_page(client, f"/tasks/{task.pk}/")


def test_a_run_on_opencl_without_times_fails_with_the_function_to_call():
    task = build(finished_attempt(bad_profile("time_all_zero_opencl")))
    assert (task.status, task.reason) == ("failed", "nothing_timed")
    assert "enable_opencl_profile" in task.detail


def test_a_log_in_an_unknown_format_gives_no_iteration_time():
    build(finished_attempt(RESNET, log="unknown format\n"))
    assert Profile.objects.get().mean_ms is None
