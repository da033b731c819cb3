"""Measurements of attempts: the stored row, and the figures on pages."""

import json
import re

import pytest
from django.utils import translation

from agent.device.cores import oversubscription
from agent.protocol.artifacts import profile_name
from agent.protocol.measurement import Canary, CanaryReading, Disturbance, OtherLoad
from agent.protocol.notes import Note
from agent.protocol.plan import Plan
from profiles.models import AttemptMeasurement, Profile
from profiles.tests.make import (
    CLEAN,
    CLEAN_ONLY,
    LOG,
    STANDARD,
    measurement_json,
    process_attempt,
    profile_json,
    profiled_pass,
    put_files,
)
from profiles.tests.pages import ended_attempt, whole_page
from tasks.models import Attempt, Task
from webprofile.messages.notes import note_text

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


def get_page(client, task: Task, language: str = "en") -> str:
    client.force_login(task.owner)
    put_files(task)
    return whole_page(client, f"/tasks/{task.pk}/", language)


@pytest.fixture
def standard_attempt(storage) -> Attempt:
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
            disturbances=(
                Disturbance(
                    code="other_load",
                    details=(Note.of("named_processes", percent=80, names="<b>cc1plus</b>"),),
                ),
                Disturbance(code="moon_phase", details=(Note.of("full_moon"),)),
            ),
            notes=(Note(code="no_temperature"),),
        ),
        "manifest.json": b"{}",
    }
    return ended_attempt(files, plan=STANDARD)


def process_clean_run(measurement: bytes) -> Task:
    return process_attempt(ended_attempt({"measurement.json": measurement}, plan=CLEAN_ONLY))


def test_the_row_has_latency_overhead_totals_and_last_iterations(standard_attempt):
    assert process_attempt(standard_attempt).status == "succeeded"
    row = AttemptMeasurement.objects.get(attempt=standard_attempt)
    assert (row.iterations, row.median_ms, row.min_ms, row.max_ms) == (3, 11.0, 10.0, 12.0)
    assert row.overhead == pytest.approx(0.1)
    assert row.device_totals_s == [pytest.approx(0.010), pytest.approx(0.012), None]
    assert row.device_cv == pytest.approx(2**0.5 / 11)
    assert (row.start_s, row.load_ms) == (0.5, 25.0)
    # the last iteration of each profiled pass
    assert row.iterations_s == {
        "profile.json": pytest.approx(0.0132),
        "profile-2.json": pytest.approx(0.0121),
        "profile-3.json": pytest.approx(0.0121),
    }


def test_the_page_of_a_row_without_last_iterations_has_no_coverage(client, standard_attempt):
    task = process_attempt(standard_attempt)
    row = AttemptMeasurement.objects.get()
    for record in row.passes:
        del record["last_ms"], record["profile"]
    row.save()
    text = get_page(client, task)
    assert row.iterations_s == {}
    assert 'id="merged-passes"' in text
    assert 'id="coverage"' not in text


def test_the_profile_counts_iterations_of_profiled_passes_only(standard_attempt):
    process_attempt(standard_attempt)
    profile = Profile.objects.get(attempt=standard_attempt)
    assert (profile.iterations, profile.min_ms, profile.max_ms) == (4, 11.0, 13.2)


def test_the_page_shows_passes_latency_disturbances_and_device(client, standard_attempt):
    task = process_attempt(standard_attempt)
    text = get_page(client, task)
    for phrase in (
        "median 11.0 ms",
        "p90 11.8 ms",
        "10.0 %",
        "This run was disturbed",
        "other programs used the processor cores of the run",
        "&lt;b&gt;cc1plus&lt;/b&gt;",
        "moon_phase",
        "2400–3100 MHz",
        "performance",
        "41 °C",
        "3.0 GiB",
        "H200, 1980 MHz",
        "no_temperature",
        "manifest.json",
        "measurement.json",
        "Latency",
        "Profiled pass 2 of 3",
    ):
        assert phrase in text, phrase
    assert "secret" not in text
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_disturbance_messages_are_translated_to_chinese(client, standard_attempt):
    task = process_attempt(standard_attempt)
    text = get_page(client, task, "zh-hans")
    assert "other programs used the processor cores" not in text
    assert "其他程序占用了运行所用的处理器核心" in text


def test_a_plan_without_profiled_passes_succeeds_without_a_profile(client, storage):
    task = process_clean_run(measurement_json(CLEAN, plan=CLEAN_ONLY))
    assert (task.status, Profile.objects.count()) == ("succeeded", 0)
    text = get_page(client, task)
    assert 'id="iteration-median">11.0 ms' in text
    assert "no profiled pass" in text
    assert "profiler on" not in text


def test_a_run_that_was_ended_before_its_first_profiled_pass_has_a_latency(client, storage):
    measurement = measurement_json(CLEAN, plan=STANDARD, notes=(Note.of("ended_early"),))
    attempt = ended_attempt({"measurement.json": measurement}, plan=STANDARD)
    Attempt.objects.update(enough_at=attempt.ended_at)
    task = process_attempt(Attempt.objects.get())
    assert (task.status, Profile.objects.count()) == ("succeeded", 0)
    text = get_page(client, task)
    assert 'id="iteration-median">11.0 ms' in text
    assert "Ended early on request" in text
    assert "No profiled pass had ended" in text
    assert "no profiled pass" not in text
    answer = client.get(f"/api/v1/profiles/of-task/{task.pk}/measurement/").json()
    assert answer["latency_notes"][-1].startswith("Ended early on request")


def test_a_run_that_was_ended_early_keeps_its_profiles(client, storage):
    files = {
        "profile.json": profile_json(0.010),
        "measurement.json": measurement_json(
            CLEAN,
            profiled_pass(2, 12.0, profile="profile.json"),
            plan=STANDARD,
            notes=(Note.of("ended_early"),),
        ),
    }
    attempt = ended_attempt(files, plan=STANDARD)
    Attempt.objects.update(enough_at=attempt.ended_at)
    task = process_attempt(Attempt.objects.get())
    assert Profile.objects.get().device_total_s == pytest.approx(0.010)
    assert "Profiled pass 1 of 3" in get_page(client, task)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "measurement_missing"),
        ({"measurement.json": b"{}"}, "measurement_unreadable"),
        ({"measurement.json": b'{"passes": [{"number": 0}]}'}, "measurement_unreadable"),
    ],
)
def test_a_missing_or_damaged_measurement_fails_the_task(storage, files, reason):
    task = process_attempt(ended_attempt(files, plan=CLEAN_ONLY))
    assert (task.status, task.reason) == ("failed", reason)


def test_an_attempt_without_a_measurement_shows_times_of_the_log(client, storage):
    files = {"profile.json": profile_json(0.01), "log.txt": LOG.encode()}
    attempt = ended_attempt(files, plan=Plan())
    task = process_attempt(attempt)
    assert (task.status, AttemptMeasurement.objects.count()) == ("succeeded", 0)
    text = get_page(client, task)
    assert "9.17 ms" in text
    assert "profiler on" in text
    assert 'id="measurement"' not in text


def test_malformed_device_facts_do_not_break_the_page(client, storage):
    device = {"before": {"clocks": [None, 3, {"current_mhz": "x"}], "load_average": {}},
              "after": [1, 2]}  # fmt: skip
    data = measurement_json(CLEAN, plan=CLEAN_ONLY, device=device, gate={"waited_s": "long"})
    get_page(client, process_clean_run(data))


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
    "disturbances": [{"code": "\x00", "details": [{"code": "\x00", "values": {"a": "\x00"}}]}],
    "notes": [{"code": "\x00", "values": {"\x00": "\x00"}}],
}


def test_huge_numbers_and_nul_do_not_break_the_pages(client, storage):
    task = process_clean_run(json.dumps(HOSTILE).encode())
    assert task.status == "succeeded"
    row = AttemptMeasurement.objects.get()
    assert (row.iterations, row.min_ms, row.max_ms, row.mean_ms) == (2, 10.0, 12.0, 11.0)
    assert (row.start_s, row.load_ms, row.gate["waited_s"]) == (None, None, None)
    stored = json.dumps([row.passes, row.gate, row.device, row.disturbances, row.notes])
    assert "\\u0000" not in stored
    assert str(HUGE) not in stored
    get_page(client, task)
    assert client.get(f"/tasks/{task.pk}/status/").status_code == 200


def test_the_page_shows_a_stored_row_with_huge_numbers(client, storage):
    task = process_clean_run(measurement_json(CLEAN, plan=CLEAN_ONLY))
    # only SQLite can store a NUL
    before = json.loads(json.dumps(HOSTILE["device"]["before"]).replace("\\u0000", "x"))
    AttemptMeasurement.objects.update(gate={"waited_s": HUGE}, device={"before": before})
    get_page(client, task)


def test_peak_memory_is_shown_for_the_result_and_for_each_pass(client, storage):
    sizes = {"host_memory_bytes": 149 << 20, "memory_method": "exit"}
    clean = CLEAN.model_copy(update=sizes)
    profiled = profiled_pass(2, 11.0, profile="profile.json").model_copy(
        update=sizes | {"host_memory_bytes": 3 << 29, "gpu_memory_bytes": 5 << 29}
    )
    plan = Plan(preset="custom", clean=True, profiled=1)
    measurement = measurement_json(clean, profiled, plan=plan)
    files = {"profile.json": profile_json(0.010), "measurement.json": measurement}
    attempt = ended_attempt(files, plan=plan)
    Attempt.objects.update(host_memory_bytes=3 << 29, gpu_memory_bytes=5 << 29)
    text = get_page(client, process_attempt(attempt))
    assert 'id="peak-memory">1.50 GiB</dd>' in text
    assert '<dd class="summary__note">GPU 2.50 GiB</dd>' in text
    assert 'id="host-memory">1.50 GiB</dd>' in text
    cells = re.findall(r'<td class="table__number">([^<]* [MG]iB|not recorded)</td>', text)
    assert cells == ["149 MiB", "not recorded", "1.50 GiB", "2.50 GiB"]
    answer = client.get(f"/api/v1/profiles/of-task/{attempt.task_id}/measurement/").json()
    rows = [(row["host_memory_bytes"], row["memory_method"]) for row in answer["passes"]]
    assert rows == [(149 << 20, "exit"), (3 << 29, "exit")]


def test_a_peak_from_samples_may_miss_short_peaks(client, storage):
    sampled = CLEAN.model_copy(update={"host_memory_bytes": 8 << 20, "memory_method": "samples"})
    task = process_clean_run(measurement_json(sampled, plan=CLEAN_ONLY))
    assert "short peaks may be missing" in get_page(client, task)


@pytest.mark.parametrize("size", [None, -1, HUGE])
def test_a_result_of_an_older_agent_says_that_its_memory_is_not_recorded(client, storage, size):
    document = json.loads(measurement_json(CLEAN, plan=CLEAN_ONLY))
    if size is None:
        for name in ("host_memory_bytes", "memory_method", "gpu_memory_bytes"):
            del document["passes"][0][name]
    else:
        document["passes"][0]["host_memory_bytes"] = size
    text = get_page(client, process_clean_run(json.dumps(document).encode()))
    row = AttemptMeasurement.objects.get()
    assert row.passes[0]["host_memory_bytes"] is None
    # as rows that were stored before it existed
    del row.passes[0]["host_memory_bytes"], row.passes[0]["memory_method"]
    row.save()
    for page in (text, get_page(client, row.attempt.task)):
        assert '<dd class="summary__note">not recorded</dd>' in page
        assert 'id="host-memory">not recorded</dd>' in page


def test_a_missing_profile_leaves_a_gap_in_the_totals_of_passes(storage):
    files = {
        "profile.json": profile_json(0.010),
        "profile-3.json": profile_json(0.030),
        "measurement.json": measurement_json(CLEAN, plan=STANDARD),
    }
    process_attempt(ended_attempt(files, plan=STANDARD))
    totals = AttemptMeasurement.objects.get().device_totals_s
    assert totals == [pytest.approx(0.010), None, pytest.approx(0.030)]


def test_notes_of_agents_have_texts_in_both_languages():
    (note,) = oversubscription({"multithread": 4}, cores=(0, 1))
    stored = note.model_dump()
    assert note_text(stored).startswith("The options request 4 threads, but the run has 2 cores")
    with translation.override("zh-hans"):
        assert note_text(stored).startswith("选项要求 4 个线程，而运行只有 2 个核心")


@pytest.mark.parametrize("values", [{}, {"threads": 4}, None])
def test_a_note_that_the_site_cannot_word_is_its_code(values):
    assert note_text({"code": "oversubscribed", "values": values}) == "oversubscribed"
    assert note_text({"code": "<b>new</b>", "values": values}) == "<b>new</b>"


def test_what_an_agent_observed_is_shown_in_the_language_of_the_user(client, storage):
    load = Note.of("other_processes", percent=103)
    measurement = measurement_json(
        CLEAN,
        plan=CLEAN_ONLY,
        disturbances=(
            Disturbance(code="waited", details=(Note.of("waited", percent=22), load)),
            Disturbance(code="hot", details=(Note.of("hot", degrees=93),)),
        ),
        gate={"waited_s": 60.0, "passed": False, "reasons": [load.model_dump()]},
    )
    task = process_clean_run(measurement)
    page = get_page(client, task, "")
    assert "(threads waited for a core for 22 % of the time; other processes used 103 %" in page
    assert "was not idle: other processes used 103 % of a core." in page
    client.cookies["django_language"] = "zh-hans"
    page = get_page(client, task, "")
    assert "线程有 22 % 的时间在等待处理器核心；其他进程占用了 103 % 的单核时间" in page
    assert "CPU 温度达到 93 °C" in page
    assert "设备一直未空闲，运行在等待 60 秒后开始：其他进程占用了 103 % 的单核时间。" in page
    assert "other processes" not in page


def reading(share: float | None) -> CanaryReading:
    return CanaryReading(gemm_ms=0.4, copy_ms=0.8, small_ms=0.1, share=share)


def test_the_page_says_how_fast_the_device_was_compared_with_itself(client, storage):
    canary = Canary(before=reading(0.972), after=reading(0.9), low=0.96, high=1.05, repeated=True)
    task = process_clean_run(
        measurement_json(
            CLEAN,
            plan=CLEAN_ONLY,
            canary=canary,
            disturbances=(
                Disturbance(
                    code="not_itself", details=(Note.of("at_share_of_itself", percent=90.0),)
                ),
            ),
            notes=(Note.of("passes_repeated"),),
        )
    )
    page = get_page(client, task, "")
    assert (
        "97.2 % of its usual speed before the run, 90.0 % after it (usual range: 96.0 % to 105.0 %)"
    ) in page
    assert "at 93.6 % of its usual speed" in page
    assert "the speed of the device was outside its usual range" in page
    assert "90 % of its usual speed after the run" in page
    assert "All passes were run twice" in page
    speed = client.get(f"/api/v1/profiles/of-task/{task.pk}/measurement/").json()["device_speed"]
    assert (speed["before"], speed["after"], speed["repeated"]) == (0.972, 0.9, True)
    client.cookies["django_language"] = "zh-hans"
    assert "运行前为自身平常速度的 97.2 %，运行后为 90.0 %" in get_page(client, task, "")


def test_a_device_with_few_readings_does_not_know_its_speed(client, storage):
    canary = Canary(before=reading(None), after=reading(None))
    task = process_clean_run(measurement_json(CLEAN, plan=CLEAN_ONLY, canary=canary))
    text = "not known yet: 20 readings of the device are needed first"
    assert text in get_page(client, task, "")


def test_a_result_without_readings_does_not_mention_the_speed(client, storage):
    task = process_clean_run(measurement_json(CLEAN, plan=CLEAN_ONLY))
    assert "Speed of the device" not in get_page(client, task, "")
    assert (
        client.get(f"/api/v1/profiles/of-task/{task.pk}/measurement/").json()["device_speed"]
        is None
    )


def attempt_of_passes(disturbed: set[int], times_s: tuple[float, ...]) -> Attempt:
    """An attempt with a clean pass (number 1) and a profiled pass for each of `times_s`."""
    waited = Disturbance(code="waited", details=(Note.of("waited", percent=22),))
    plan = Plan(preset="custom", clean=True, profiled=len(times_s))
    names = [profile_name(number + 1) for number in range(len(times_s))]
    passes = [CLEAN, *(profiled_pass(2 + n, 12.0, profile=name) for n, name in enumerate(names))]
    passes = [
        record.model_copy(
            update={
                "waited_ms": 90.0 if record.number in disturbed else 1.0,
                "watched_ms": 400.0,
                "disturbances": (waited,) if record.number in disturbed else (),
            }
        )
        for record in passes
    ]
    load = OtherLoad(percent=31.0, most_percent=95.0, processes=("make (90 %)",))
    files = {name: profile_json(time_s) for name, time_s in zip(names, times_s, strict=True)}
    files["measurement.json"] = measurement_json(*passes, plan=plan, other_load=load)
    return ended_attempt(files, plan=plan)


def test_a_disturbed_pass_is_left_out_and_the_run_is_not_disturbed(client, storage):
    attempt = attempt_of_passes({3}, (0.010, 0.030, 0.012, 0.011))
    task = process_attempt(attempt)
    profile = Profile.objects.get(attempt=attempt)
    assert profile.device_total_s == pytest.approx(0.011)
    row = AttemptMeasurement.objects.get(attempt=attempt)
    assert row.disturbances == []
    assert row.device_totals_s == [
        pytest.approx(total_s) if total_s else None for total_s in (0.010, None, 0.012, 0.011)
    ]
    text = get_page(client, task)
    assert "The figures are from 3 of 4 profiled passes." in text
    assert "Other processes used 31 % of a core on average, at most 95 %." in text
    assert "make (90 %)" in text
    assert "(disturbed, left out)" in text


def test_a_run_with_too_few_undisturbed_passes_is_disturbed_and_uses_all(client, storage):
    attempt = attempt_of_passes({3, 4}, (0.010, 0.030, 0.031, 0.011))
    task = process_attempt(attempt)
    row = AttemptMeasurement.objects.get(attempt=attempt)
    assert [item["code"] for item in row.disturbances] == ["waited"]
    assert None not in row.device_totals_s
    assert "the run had to wait for a processor core" in get_page(client, task)


def test_a_disturbed_clean_pass_is_left_out_if_two_others_are_not(client, storage):
    waited = Disturbance(code="waited", details=(Note.of("waited", percent=22),))
    slow = {"e2e_ms": (30.0, 30.0), "disturbances": (waited,)}
    records = [
        CLEAN.model_copy(update={"number": number} | (slow if number == 2 else {}))
        for number in (1, 2, 3)
    ]
    plan = Plan(preset="custom", clean=True, clean_passes=3, profiled=0)
    files = {"measurement.json": measurement_json(*records, plan=plan)}
    task = process_attempt(ended_attempt(files, plan=plan))
    row = AttemptMeasurement.objects.get()
    assert (row.iterations, row.median_ms, row.max_ms, row.disturbances) == (6, 11.0, 12.0, [])
    assert row.interval["processes"] == 2
    text = get_page(client, task)
    assert "The latency is from 2 of 3 latency passes." in text
    assert "Latency pass 2 of 3" in text and "(disturbed, left out)" in text


def test_a_disturbed_clean_pass_disturbs_the_run(storage):
    attempt = attempt_of_passes({1}, (0.010, 0.010, 0.010))
    process_attempt(attempt)
    row = AttemptMeasurement.objects.get(attempt=attempt)
    assert [item["code"] for item in row.disturbances] == ["waited"]


@pytest.mark.parametrize(
    ("whole_waited_ms", "disturbances", "said"),
    [(48.0, (), True), (20.0, (), False), (48.0, ("waited",), False), (None, (), False)],
)
def test_waiting_that_only_the_median_leaves_out_is_told(
    client, storage, whole_waited_ms, disturbances, said
):
    waits = {
        "waited_ms": 1.0,
        "watched_ms": 200.0,
        "whole_waited_ms": whole_waited_ms,
        "whole_ms": 400.0,
        "disturbances": tuple(Disturbance(code=code) for code in disturbances),
    }
    plan = Plan(preset="custom", clean=True, profiled=0)
    record = CLEAN.model_copy(update=waits)
    files = {"measurement.json": measurement_json(record, plan=plan)}
    task = process_attempt(ended_attempt(files, plan=plan))
    text = (
        "for up to 12.0 % of the time of a pass, mostly in its slower iterations; this increases "
        "the mean, p90, p99 and the maximum, but not the median"
    )
    assert (text in get_page(client, task)) is said
    answer = client.get(f"/api/v1/profiles/of-task/{task.pk}/measurement/").json()
    assert (f"Waited for a core (all iterations): {text}" in answer["latency_notes"]) is said


def test_a_device_that_does_not_count_waiting_is_told(client, standard_attempt):
    task = process_attempt(standard_attempt)
    text = "The device does not measure how long a run waits for a core."
    assert text in get_page(client, task)
