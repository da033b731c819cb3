"""Measurements of attempts: building the row, and the figures on pages."""

import json
import re

import pytest
from django.utils import translation

from agent.device.cores import oversubscription
from agent.protocol import Plan
from agent.protocol.measurement import Contamination
from profiles.models import AttemptMeasurement, Profile
from profiles.presenters.attempt_messages import note_words
from profiles.services import build_attempt_profile
from profiles.tests.make import (
    CLEAN,
    CLEAN_ONLY,
    STANDARD,
    measurement_json,
    profile_json,
    profiled_pass,
)
from profiles.tests.pages import ended_attempt
from tasks.models import Attempt

pytestmark = pytest.mark.django_db

DEVICE = {
    "before": {
        "cpu_percent": 3.2,
        "clocks": [{"current_mhz": 2400.0}, {"current_mhz": 3100.0}],
        "governor": "performance",
        "temperature_c": 41.0,
        "memory_available_bytes": 3 << 30,
        "gpus": [{"name": "H200", "sm_clock_mhz": 1980}],
        "processes": [{"name": "secret"}],
    },
    "during": [{}],
    "after": {"cpu_percent": float("inf"), "governor": 7, "clocks": "fast", "gpus": [3]},
}


def built(attempt: Attempt):
    build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    return attempt.task


@pytest.fixture
def standard(storage) -> Attempt:
    """An attempt with a clean pass and three profiled passes; the last profile is damaged."""
    files = {
        "profile.json": profile_json(0.010),
        "profile-2.json": profile_json(0.012),
        "profile-3.json": b"{",
        "log.txt": b"iter 0/1: e2e=99.000 ms (host=0.224 ms)\n",
        "measurement.json": measurement_json(
            CLEAN,
            profiled_pass(2, 11.0, 13.2, profile="profile.json"),
            profiled_pass(3, 12.1, profile="profile-2.json"),
            profiled_pass(4, 12.1, profile="profile-3.json"),
            plan=STANDARD,
            device=DEVICE,
            gate={"waited_s": 4.5, "passed": True},
            contaminations=(
                Contamination(code="other_load", detail="<b>cc1plus</b> 80 %"),
                Contamination(code="moon_phase", detail="full"),
            ),
            notes=("no temperature on this device",),
        ),
        "manifest.json": b"{}",
    }
    return ended_attempt(files, plan=STANDARD)


def test_latency_overhead_and_the_totals_of_all_passes_are_kept(standard):
    assert built(standard).status == "succeeded"
    row = AttemptMeasurement.objects.get(attempt=standard)
    assert (row.iterations, row.median_ms, row.min_ms, row.max_ms) == (3, 11.0, 10.0, 12.0)
    assert row.overhead == pytest.approx(0.1)
    assert row.device_totals_s == [pytest.approx(0.010), pytest.approx(0.012), None]
    assert row.device_cv == pytest.approx(2**0.5 / 11)
    assert (row.start_s, row.load_ms) == (0.5, 25.0)


def test_the_last_iteration_of_each_profiled_pass_is_kept_as_that_of_its_file(standard):
    built(standard)
    row = AttemptMeasurement.objects.get(attempt=standard)
    assert row.iterations_s == {
        "profile.json": pytest.approx(0.0132),
        "profile-2.json": pytest.approx(0.0121),
        "profile-3.json": pytest.approx(0.0121),
    }


def test_a_row_of_an_earlier_version_has_no_iteration_to_compare_with(client, standard):
    task = built(standard)
    row = AttemptMeasurement.objects.get(attempt=standard)
    for record in row.passes:
        del record["last_ms"], record["profile"]
    row.save()
    client.force_login(task.owner)
    text = client.get(f"/tasks/{task.pk}/result/").content.decode()
    assert row.iterations_s == {}
    assert 'id="merged-passes"' in text
    assert 'id="coverage"' not in text


def test_a_profiles_iterations_are_those_of_profiled_passes_not_of_the_whole_log(standard):
    built(standard)
    profile = Profile.objects.get(attempt=standard)
    assert (profile.iterations, profile.min_ms, profile.max_ms) == (4, 11.0, 13.2)


@pytest.mark.parametrize("page", ["", "result/"])
def test_both_pages_show_passes_latency_disturbances_and_the_device(client, standard, page):
    task = built(standard)
    client.force_login(task.owner)
    text = client.get(f"/tasks/{task.pk}/{page}").content.decode()
    for phrase in (
        "median 11.00 ms",
        "p90 11.80 ms",
        "10.0 %",
        "This attempt was contaminated",
        "other programs used the processor",
        "&lt;b&gt;cc1plus&lt;/b&gt;",
        "moon_phase",
        "2400–3100 MHz",
        "performance",
        "41 °C",
        "3.0 GiB",
        "H200, 1980 MHz",
        "no temperature on this device",
        "manifest.json",
        "measurement.json",
        "without profiling",
    ):
        assert phrase in text, phrase
    assert "secret" not in text
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_the_words_come_in_chinese_too(client, standard):
    task = built(standard)
    client.force_login(task.owner)
    text = client.get(f"/tasks/{task.pk}/", headers={"accept-language": "zh-hans"}).content.decode()
    assert "other programs used the processor" not in text
    assert "其他程序占用了处理器" in text


def test_a_plan_without_profiled_passes_ends_well_without_a_profile(client, storage):
    files = {"measurement.json": measurement_json(CLEAN, plan=CLEAN_ONLY), "log.txt": b""}
    attempt = ended_attempt(files, plan=CLEAN_ONLY)
    task = built(attempt)
    assert (task.status, Profile.objects.count()) == ("succeeded", 0)
    client.force_login(task.owner)
    text = client.get(f"/tasks/{task.pk}/result/").content.decode()
    assert 'id="iteration-median">11.00 ms' in text
    assert "no profiled pass" in text
    assert "while profiling" not in text


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "measurement_missing"),
        ({"measurement.json": b"{}"}, "measurement_unreadable"),
        (
            {"measurement.json": b'{"plan": {}, "passes": [{"number": 0}]}'},
            "measurement_unreadable",
        ),
    ],
)
def test_a_measurement_that_is_missing_or_damaged_fails_the_task(storage, files, reason):
    task = built(ended_attempt(files, plan=CLEAN_ONLY))
    assert (task.status, task.reason) == ("failed", reason)


def test_an_agent_that_measures_nothing_beside_the_profile_is_still_understood(client, storage):
    log = (
        b"iter 0/10: e2e=7.697 ms (host=0.224 ms)\n"
        b"=== finished test #0: time=91.673 ms avg_time=9.167 ms "
        b"standard_deviation=0.771 ms min=7.697 ms max=9.750 ms\n"
    )
    attempt = ended_attempt({"profile.json": profile_json(0.01), "log.txt": log}, plan=Plan())
    task = built(attempt)
    assert (task.status, AttemptMeasurement.objects.count()) == ("succeeded", 0)
    client.force_login(task.owner)
    text = client.get(f"/tasks/{task.pk}/result/").content.decode()
    assert "9.167 ms" in text
    assert "while profiling" in text
    assert 'id="measurement"' not in text


def test_a_device_cannot_break_the_page_with_what_it_says_of_itself(client, storage):
    device = {"before": {"clocks": [None, 3, {"current_mhz": "x"}], "load_average": {}},
              "after": [1, 2]}  # fmt: skip
    data = measurement_json(CLEAN, plan=CLEAN_ONLY, device=device, gate={"waited_s": "long"})
    task = built(ended_attempt({"measurement.json": data}, plan=CLEAN_ONLY))
    client.force_login(task.owner)
    assert client.get(f"/tasks/{task.pk}/result/").status_code == 200


HUGE = 10**400
HOSTILE = {
    "format": 1,
    "plan": {"preset": "custom", "clean": True, "profiled": 0},
    "passes": [
        {
            "number": HUGE,
            "kind": "clean",
            "e2e_ms": [1e308, 1e308, -5.0, 10.0, 12.0, 2e9],
            "exit_code": HUGE,
            "run_s": 1e308,
            "start_s": -3.0,
            "load_ms": 1e300,
        }
    ],
    "gate": {"waited_s": HUGE, "a\x00b": {"c\x00": "d\x00"}, "reasons": [HUGE]},
    "device": {
        "before": {
            "cpu_percent": HUGE,
            "temperature_c": -HUGE,
            "load_average": [HUGE],
            "memory_available_bytes": HUGE,
            "clocks": [{"current_mhz": HUGE, "\x00": 1}],
            "gpus": [{"name": "\x00", "sm_clock_mhz": HUGE, "memory_used_bytes": -HUGE}],
        },
        "after": {"cpu_percent": 1e308, "gpus": [{"utilisation_percent": HUGE}]},
    },
    "contaminations": [{"code": "\x00", "detail": "\x00"}],
    "notes": ["\x00"],
}


def test_numbers_without_bounds_and_keys_with_nul_leave_the_pages_whole(client, storage):
    data = json.dumps(HOSTILE).encode()
    task = built(ended_attempt({"measurement.json": data}, plan=CLEAN_ONLY))
    assert task.status == "succeeded"
    row = AttemptMeasurement.objects.get()
    assert (row.iterations, row.min_ms, row.max_ms, row.mean_ms) == (2, 10.0, 12.0, 11.0)
    assert (row.start_s, row.load_ms, row.gate["waited_s"]) == (None, None, None)
    kept = json.dumps([row.passes, row.gate, row.device, row.contaminations, row.notes])
    assert "\\u0000" not in kept
    assert str(HUGE) not in kept
    client.force_login(task.owner)
    for page in ("", "status/", "result/"):
        assert client.get(f"/tasks/{task.pk}/{page}").status_code == 200, page


def test_a_row_from_before_these_rules_is_shown_too(client, storage):
    data = measurement_json(CLEAN, plan=CLEAN_ONLY)
    task = built(ended_attempt({"measurement.json": data}, plan=CLEAN_ONLY))
    # only SQLite can store a NUL
    before = json.loads(json.dumps(HOSTILE["device"]["before"]).replace("\\u0000", "x"))
    AttemptMeasurement.objects.update(gate={"waited_s": HUGE}, device={"before": before})
    client.force_login(task.owner)
    assert client.get(f"/tasks/{task.pk}/").status_code == 200


def test_totals_keep_the_place_of_their_pass_when_a_profile_is_missing(storage):
    files = {
        "profile.json": profile_json(0.010),
        "profile-3.json": profile_json(0.030),
        "measurement.json": measurement_json(CLEAN, plan=STANDARD),
    }
    built(ended_attempt(files, plan=STANDARD))
    totals = AttemptMeasurement.objects.get().device_totals_s
    assert totals == [pytest.approx(0.010), None, pytest.approx(0.030)]


def test_notes_that_are_known_are_in_the_readers_language_and_others_as_they_are():
    (note,) = oversubscription({"multithread": 4}, cores=(0, 1))
    assert note_words(note) == note
    assert note_words("<b>of another agent</b>") == "<b>of another agent</b>"
    with translation.override("zh-hans"):
        assert note_words(note).startswith("选项要求 4 个线程，而运行只有 2 个核心")
