"""Totals and time outside of operators of each pass, on the page and in the API."""

import re
from typing import Any

import pytest
from rest_framework.test import APIClient

from accounts.models import User
from agent.protocol.artifacts import profile_name
from agent.protocol.measurement import Disturbance, PassRecord
from agent.protocol.plan import Plan
from profiles.analysis.durations import duration
from profiles.models import Profile
from profiles.services import build_attempt_profile
from profiles.tests.make import NODE, make_profile, measurement_json, profiled_pass, to_json
from profiles.tests.pages import ended_attempt, whole_page
from webprofile.tests.documented_api import caller

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage")]

PASSES = 5
PLAN = Plan(preset="custom", clean=True, profiled=PASSES)
#: share of the operators of each pass in the iteration of that pass
COVERED = 0.95

#: nine measured runs of three models: sum of the operators' medians, fastest and slowest pass,
#: median clean iteration, all in ms; share of time for which the device was busy in the first
#: pass; whether other load was seen; whether the sum lies below all passes
RUNS = {
    2: (17.15, 16.2, 50.8, 35.2, 0.73, True, False),
    3: (8.20, 21.0, 115.3, 29.4, 0.99, True, True),
    6: (13.81, 31.6, 87.5, 34.9, 0.98, True, True),
    7: (16.44, 20.4, 41.6, 25.5, 0.78, True, True),
    8: (10.25, 24.8, 83.4, 30.5, 0.92, True, True),
    9: (10.90, 19.9, 28.4, 49.1, 0.97, True, True),
    10: (13.92, 16.8, 24.7, 23.6, 0.78, True, True),
    11: (12.56, 14.9, 21.3, 19.4, 0.96, True, True),
    12: (9.181, 9.188, 11.9, 8.43, 0.93, False, True),
}


def pass_of(*times_ms: float, busy: float = 1.0) -> bytes:
    """Return a pass of operators in a row; the device is busy for the share `busy` of the time."""
    device, at = {}, 1.0
    for number, time_ms in enumerate(times_ms):
        end = at + time_ms / 1000
        device[str(number)] = {NODE: {"start": at, "kern": at, "end": end}}
        # no pause follows the last operator
        at = end + sum(times_ms) / 1000 * (1 / busy - 1) / (len(times_ms) - 1)
    return to_json(make_profile(device))


def passes_of(total_ms: float, low_ms: float, high_ms: float, busy: float) -> list[bytes]:
    """Return passes whose totals are spread evenly from `low_ms` to `high_ms`.

    Each pass differs from the medians at a single operator, each at another one.
    """
    passes = []
    for number in range(PASSES):
        times = [total_ms / PASSES] * PASSES
        times[number] += low_ms + (high_ms - low_ms) * number / (PASSES - 1) - total_ms
        passes.append(pass_of(*times, busy=busy))
    return passes


def make_profile_of(
    passes: list[bytes],
    iterations_ms: list[float],
    clean_ms: float,
    disturbed: bool,
    owner: User | None = None,
) -> Profile:
    names = [profile_name(number) for number in range(1, len(passes) + 1)]
    records = [PassRecord(number=1, kind="clean", e2e_ms=(clean_ms,) * 3, exit_code=0)]
    for name, iteration_ms in zip(names, iterations_ms, strict=True):
        # the profile holds the last iteration; the one before it has no effect
        records.append(
            profiled_pass(len(records) + 1, iteration_ms * 3, iteration_ms, profile=name)
        )
    load = (Disturbance(code="other_load"),) if disturbed else ()
    files = dict(zip(names, passes, strict=True)) | {
        "log.txt": b"",
        "measurement.json": measurement_json(*records, plan=PLAN, disturbances=load),
    }
    attempt = ended_attempt(files, owner, plan=PLAN)
    build_attempt_profile(attempt)
    return Profile.objects.get(attempt=attempt)


def make_run(number: int) -> Profile:
    total_ms, low_ms, high_ms, clean_ms, busy, disturbed, _ = RUNS[number]
    iterations_ms = [
        (low_ms + (high_ms - low_ms) * index / (PASSES - 1)) / COVERED for index in range(PASSES)
    ]
    passes = passes_of(total_ms, low_ms, high_ms, busy)
    return make_profile_of(passes, iterations_ms, clean_ms, disturbed)


def get_page(profile: Profile) -> str:
    client = APIClient()
    client.force_login(profile.attempt.task.owner)
    return whole_page(client, f"/tasks/{profile.attempt.task_id}/")


def get_statistics_and_advice(profile: Profile) -> tuple[dict[str, Any], dict[str, Any]]:
    client = caller(profile.attempt.task.owner)
    url = f"/api/v1/profiles/{profile.pk}"
    return client.get(f"{url}/statistics/").json(), client.get(f"{url}/advice/").json()


def finding_rules(advice: dict[str, Any]) -> set[str]:
    return {finding["rule"] for finding in advice["findings"]}


@pytest.mark.parametrize("number", RUNS)
def test_the_summary_shows_the_total_and_its_place_among_the_passes(number):
    total_ms, low_ms, high_ms, _, _, is_disturbed, is_below = RUNS[number]
    profile = make_run(number)
    text = get_page(profile)
    head = text.split('id="device-total"')[1].split("</div>")[0]

    value = re.match(r">([\d.]+) ms<", head)
    assert value is not None
    shown = [duration(time_ms / 1000).split()[0] for time_ms in (total_ms, low_ms, high_ms)]
    assert value[1] == shown[0]
    bounds = re.search(r"([\d.]+) ms to ([\d.]+) ms", head)
    assert bounds is not None
    assert list(bounds.groups()) == shown[1:]
    if is_disturbed:
        assert ">noisy</span>" in head
    assert ("below every pass (" if is_below else "passes ") in head
    assert ("Different operators are slow in different passes" in text) is is_below


@pytest.mark.parametrize("number", RUNS)
def test_coverage_compares_each_pass_with_its_own_iteration(number):
    total_ms, low_ms, high_ms, _, _, disturbed, is_below = RUNS[number]
    profile = make_run(number)
    statistics, advice = get_statistics_and_advice(profile)
    device = statistics["sides"][0]
    coverage = statistics["coverage"]

    assert "outside_operators" not in finding_rules(advice)
    assert [coverage["lowest_share"], coverage["highest_share"]] == pytest.approx([COVERED] * 2)
    for row in coverage["passes"]:
        assert row["outside_s"] == pytest.approx(row["operators_s"] * (1 / COVERED - 1))
    assert coverage["withheld"] == ("disturbed" if disturbed else "busy")
    assert [row["operators_s"] for row in coverage["passes"]] == pytest.approx(device["passes_s"])
    assert device["total_s"] == pytest.approx(total_ms / 1000)
    bounds_ms = [device["lowest_s"] * 1000, device["highest_s"] * 1000]
    assert bounds_ms == pytest.approx([low_ms, high_ms])
    assert device["place"] == ("below" if is_below else "among")


def test_a_disturbed_run_suppresses_advice_about_times():
    profile = make_run(6)
    text = get_page(profile)
    _, advice = get_statistics_and_advice(profile)

    assert text.count('id="advice-disturbed"') == 1
    details = text.split('id="advice"')[1]
    assert details.count("Recommendations that depend on times are left out.") == 1
    assert finding_rules(advice) == {"disturbed"}
    assert "Time not attributed to operators" in advice["suppressed"]
    assert "One operator dominates" not in advice["checked"]
    assert 'id="advice-none"' not in text
    assert "Not shown: the run was disturbed." in text


def test_a_calm_run_with_an_idle_device_shows_time_outside_of_operators():
    passes = [pass_of(2.0, 2.0, busy=0.5), pass_of(3.0, 3.0, busy=0.5), pass_of(2.0, 2.0, busy=0.5)]
    profile = make_profile_of(passes, [8.0, 10.0, 9.0], 7.0, disturbed=False)
    statistics, advice = get_statistics_and_advice(profile)
    text = get_page(profile)

    # 4 of 8, 6 of 10, 4 of 9 ms
    assert statistics["coverage"]["outside_s"] == pytest.approx(0.004)
    assert statistics["coverage"]["withheld"] is None
    names = [row["name"] for row in statistics["coverage"]["passes"]]
    assert names == ["profile.json", "profile-2.json", "profile-3.json"]
    savings_s = {finding["rule"]: finding["saves_s"] for finding in advice["findings"]}
    assert savings_s["outside_operators"] == pytest.approx(0.004)
    assert re.search(r'id="outside">4\.00 ms\s*</dd>\s*<dd[^>]*>passes 4\.00 ms to 5\.00 ms<', text)


def test_overlapping_savings_are_marked_on_the_page_and_in_the_api():
    passes = [pass_of(4.0, 3.0, 2.0), pass_of(4.1, 3.0, 2.0), pass_of(4.0, 3.1, 2.0)]
    profile = make_profile_of(passes, [10.0, 10.0, 10.0], 10.0, disturbed=False)
    text = get_page(profile)
    _, advice = get_statistics_and_advice(profile)

    overlaps = {finding["rule"]: finding["overlaps"] for finding in advice["findings"]}
    assert overlaps["dominant_type"] == ["dominant_operator"]
    assert overlaps["dominant_operator"] == ["dominant_type"]
    assert "Covers the same time as “One operator dominates”: only one of these savings" in text
    assert "Covers the same time as “One type dominates”: only one of these savings" in text


def test_figures_of_a_single_sample_have_a_badge():
    content = pass_of(4.0, 3.0, 2.0)
    one = make_profile_of([content], [10.0], 10.0, disturbed=False)
    owner = one.attempt.task.owner
    several = make_profile_of([content] * 3, [10.0] * 3, 10.0, disturbed=False, owner=owner)
    text, other = get_page(one), get_page(several)

    pattern = r"%s[^<]*(?:<[^>]*>)?[^<]*<span class=\"badge\">one sample</span>"
    head = text.split('id="summary"')[1].split('id="device-total"')[0]
    assert head.count(">one sample</span>") == 1
    assert re.search(pattern % 'id="coverage">', text)
    assert re.search(pattern % 'id="device-median-total">', text)
    assert "One sample: times are of the last iteration of one run." in text
    saves = re.findall(r'<p class="advice__saves">.*?</p>', text, re.DOTALL)
    assert saves
    assert all("one sample" in saving for saving in saves)
    assert "one sample</span>" not in other
    assert get_statistics_and_advice(one)[1]["one_sample"] is True
    assert get_statistics_and_advice(several)[1]["one_sample"] is False
    client = APIClient()
    client.force_login(owner)
    panel = client.get(f"/profiles/{one.pk}/operators/0/?part").text
    assert "one sample</span>" in panel
