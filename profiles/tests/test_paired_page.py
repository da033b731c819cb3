"""Result of a paired comparison: from the device's file to the page."""

import json
import math

import pytest
from django.utils import timezone

from agent.protocol.measurement import Disturbance, Measurement
from agent.protocol.notes import Note
from agent.protocol.pairs import (
    ArmRecord,
    ArmVerdict,
    OutputDifference,
    PairedMeasurement,
    Pairing,
    PairRecord,
    Turn,
)
from profiles.models import PairedResult
from profiles.services import build_attempt_profile
from profiles.tests.pages import ended_attempt, make_result, store_models, whole_page
from tasks.models import Task, TaskFile
from tasks.submission.pairing import PLAN
from tasks.submission.request import ArmRequest, PairingRequest
from tasks.tests.make import model_file
from testdata import good_profile

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage")]

EQUAL = OutputDifference(name="out", max_abs=0.0, max_rel=0.0, cosine=1.0)
WAITED = Disturbance(code="waited", details=(Note.of("waited", percent=20),))


def pair(ratio: float, *disturbances: Disturbance) -> PairRecord:
    turns = [Turn(arm=arm, ms=10 * (ratio if arm else 1)) for arm in (0, 1, 1, 0)]
    return PairRecord(turns=tuple(turns), run_s=1.0, disturbances=disturbances)


def measured(*, pairs=None, output=EQUAL, used=None, **verdict) -> PairedMeasurement:
    """Return a result; `used` is the number of undisturbed pairs until the verdict, if not all."""
    pairs = [pair(1.05)] * 12 if pairs is None else pairs
    known = {"arm": 1, "verdict": "slower", "effect": 0.05, "low": 0.0412, "high": 0.0588}
    known |= {"smallest": 0.011, "more_s": 0.0, "pairs": used or len(pairs)}
    arms = [
        ArmRecord(runtime="1.13.0", iterations=5, usual_ms=10.0),
        ArmRecord(runtime="1.13.0", iterations=5, usual_ms=10.5, outputs=(output,)),
    ]
    return PairedMeasurement(
        pairing=Pairing(),
        seed=7,
        arms=tuple(arms),
        pairs=tuple(pairs),
        verdicts=(ArmVerdict(**known | verdict),),
        measuring_s=14.2,
    )


def make_paired(result: PairedMeasurement | bytes, owner=None) -> Task:
    """Return a task in state processing of which a device has sent this result."""
    content = result if isinstance(result, bytes) else result.model_dump_json().encode()
    files = {"paired.json": content}
    files["measurement.json"] = Measurement(plan=PLAN).model_dump_json().encode()
    attempt = ended_attempt(
        files,
        owner,
        files=[model_file(name="old.mge"), model_file(name="new.mge", arm=1)],
        pairing=PairingRequest(Pairing(), (ArmRequest(),)),
    )
    store_models(attempt.task)
    attempt.task.refresh_from_db()
    build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    return attempt.task


@pytest.fixture
def page(client, alice):
    """Return the page of a task with this result, without tags."""
    client.force_login(alice)

    def get(result: PairedMeasurement, language: str = "en") -> str:
        task = make_paired(result, alice)
        return whole_page(client, f"/tasks/{task.pk}/", language)

    return get


def test_page_begins_with_the_verdict_and_names_the_arms(page):
    text = page(measured())
    assert "B is 5.00 % slower than A (95 % interval +4.12 % to +5.88 %)." in text
    assert "12 of 12 pairs of processes count. Measuring took 14.2 s." in text
    assert "with this scatter, 12 pairs can show differences of 1.10 % or more" in text
    assert "old.mge" in text
    assert "new.mge" in text
    assert text.count('<line class="paired__dot"') == 12


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"verdict": "faster", "effect": -0.1234, "low": -0.13, "high": -0.11},
            "B is 12.3 % faster than A (95 % interval −13.0 % to −11.0 %).",
        ),
        (
            {"verdict": "same", "effect": 0.0, "low": -0.004, "high": 0.003},
            "B is as fast as A, within ±1.00 % (95 % interval −0.40 % to +0.30 %).",
        ),
        (
            {"verdict": "not_enough", "effect": 0.008, "low": -0.002, "high": 0.02, "more_s": 33.0},
            "B: iteration time +0.80 % compared with A so far (95 % interval −0.20 % to +2.00 %). "
            "A verdict probably needs about 40 s more.",
        ),
        (
            {"verdict": "not_enough", "effect": 0.0, "low": -0.1, "high": 0.1, "more_s": None},
            "More pairs would probably not lead to a verdict.",
        ),
        (
            {"verdict": "not_enough", "effect": 0.0, "low": -0.1, "high": 0.1, "more_s": 301.0},
            "A verdict probably needs about 6 min more.",
        ),
        (
            {"verdict": "not_enough", "effect": 0.0, "low": -0.1, "high": 0.1, "more_s": 5700.0},
            "A verdict would need more than the longest measuring time (30 min): use a larger "
            "margin or a quieter device.",
        ),
        (
            {"verdict": "not_enough", "effect": None, "low": None, "high": None, "smallest": None},
            "B and A: too few undisturbed pairs for an estimate.",
        ),
    ],
)
def test_verdict_is_a_sentence(page, changes, sentence):
    assert sentence in page(measured(**changes))


def test_pairs_after_the_verdict_are_counted_apart(page):
    pairs = [pair(1.05), pair(1.05, WAITED), *[pair(1.05)] * 18]
    text = page(measured(pairs=pairs, used=7))
    assert "7 of 8 pairs of processes count. Measuring took 14.2 s." in text
    words = "After the verdict, 12 more pairs were measured only to find the operators that differ."
    assert words in text
    assert text.count('<line class="paired__dot') == 8


def test_pairs_without_a_clear_verdict_all_belong_to_it(page):
    undecided = {"verdict": "not_enough", "effect": 0.008, "low": -0.002, "high": 0.02}
    text = page(measured(pairs=[pair(1.05)] * 9, **undecided))
    assert "9 of 9 pairs of processes count." in text
    assert "less busy" not in text
    assert "After the verdict" not in text


def test_a_verdict_that_needs_more_than_the_longest_time_says_so(page):
    undecided = {"verdict": "not_enough", "effect": 0.0, "low": -0.1, "high": 0.1, "more_s": 900.0}
    result = measured(**undecided)
    assert "A verdict probably needs about 15 min more." in page(result)
    result = result.model_copy(update={"measuring_s": 1200.0})
    assert "A verdict would need more than the longest measuring time (30 min)" in page(result)


def test_too_few_pairs_do_not_tell_how_many_more_are_needed(page):
    nothing = dict.fromkeys(("effect", "low", "high", "smallest", "more_s"))
    text = page(measured(pairs=[pair(1.6, WAITED)] * 12, verdict="not_enough", **nothing))
    assert "too few undisturbed pairs for an estimate." in text
    assert "More pairs would" not in text
    assert "Repeat the comparison when the device is less busy." in text


def test_pairs_without_a_ratio_keep_the_numbers_of_the_others(page):
    unpaired = PairRecord(turns=(Turn(arm=0, ms=10.0),), run_s=1.0)
    text = page(measured(pairs=[unpaired, pair(1.05)]))
    assert '<td class="table__number">2</td>' in text
    assert '<td class="table__number">1</td>' not in text


def test_bounds_of_the_interval_are_rounded_away_from_the_estimate(page):
    text = page(measured(effect=0.05, low=0.04999, high=0.05001))
    assert "+4.99 % to +5.01 %" in text
    text = page(measured(effect=0.15, low=0.1496, high=0.1504))
    assert "+14.9 % to +15.1 %" in text


def test_disturbed_pairs_are_counted_and_drawn_apart(page):
    pairs = [*[pair(1.05)] * 9, *[pair(1.6, WAITED)] * 3]
    text = page(measured(pairs=pairs))
    assert "9 of 12 pairs of processes count." in text
    assert "the run had to wait for a processor core (3)" in text
    assert text.count("paired__dot--dropped") == 3


def test_other_outputs_are_told_before_the_times(page):
    other = OutputDifference(name="out", max_abs=0.5, max_rel=0.25, cosine=0.98, sqnr_db=12.34)
    text = page(measured(output=other))
    assert text.index("The outputs of B differ from those of A") < text.index("is 5.00 % slower")
    assert "cosine similarity 0.980000, SQNR 12.3 dB, largest absolute difference 0.5" in text


def test_outputs_that_cannot_be_compared_say_why(page):
    shapes = Note.of("outputs_shape", shape="{1,2}", expected="{1,3}")
    text = page(measured(output=OutputDifference(name="out", problem=shapes)))
    assert "shape {1,2} instead of {1,3}" in text
    assert "The outputs of B differ" in text


def test_small_numeric_differences_are_no_warning(page):
    close = OutputDifference(name="out", max_abs=1e-6, max_rel=1e-6, cosine=0.9999999)
    assert "The outputs of B differ" not in page(measured(output=close))


def test_page_is_in_chinese_too(page):
    text = page(measured(), "zh-hans")
    assert "B 比 A 慢 5.00 %" in text
    assert "成对对比" in text


def test_result_without_pairs_has_a_page(page):
    empty = measured(pairs=[], verdict="not_enough", effect=None, low=None, high=None)
    text = page(empty.model_copy(update={"verdicts": ()}))
    assert "No pair was measured." in text


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"format": 2}', b'{"pairing": {"margin": 9}, "seed": 1}', b"\x80" * 50],
)
def test_unreadable_file_fails_the_task(content):
    task = make_paired(content)
    assert task.reason == "measurement_unreadable"
    assert "paired.json" in task.detail
    assert not PairedResult.objects.exists()


def changed(**changes) -> bytes:
    """Return a result as a device could send it, with other top-level fields."""
    return json.dumps(measured().model_dump(mode="json") | changes).encode()


ARM = measured().arms[1].model_dump(mode="json")
VERDICT = measured().verdicts[0].model_dump(mode="json")


@pytest.mark.parametrize(
    "changes",
    [
        {"arms": [ARM]},
        {"arms": [ARM] * 3},
        {"arms": []},
        {"verdicts": [VERDICT | {"arm": 3}]},
        {"verdicts": [VERDICT] * 2},
        {"arms": [ARM, ARM | {"outputs": [{"max_abs": 1.0}]}]},
        {"arms": [ARM, ARM | {"outputs": [{"cosine": 1.0}]}]},
        {"seed": 2**64},
        {"seed": -1},
    ],
    ids=str,
)
def test_result_that_does_not_fit_the_task_fails_it(changes):
    task = make_paired(changed(**changes))
    assert task.reason == "measurement_unreadable"
    assert not PairedResult.objects.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"pairs": [{"turns": [{"arm": 3, "ms": -1.0}] * 64}] * 1000},
        {"pairs": [{"turns": []}], "measuring_s": -1e300},
        {"arms": [ARM, ARM | {"runtime": "<b>\0", "usual_ms": -5.0}]},
        {"verdicts": [VERDICT | dict.fromkeys(("effect", "low", "high", "smallest"))]},
        {"verdicts": [VERDICT | {"effect": -5.0, "low": -9.0, "high": -7.0}]},
        {"verdicts": [VERDICT | {"verdict": "not_enough", "more_s": -1e18}]},
        {"verdicts": []},
        {"arms": [ARM, ARM | {"outputs": [{"problem": {"code": "x", "values": {"a": [{}]}}}]}]},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_strange_result_has_a_page(client, alice, changes):
    client.force_login(alice)
    task = make_paired(changed(**changes), alice)
    response = client.get(f"/tasks/{task.pk}/")
    assert response.status_code == 200
    assert task.reason or 'id="verdict-title"' in response.text


def test_absurd_numbers_of_a_device_do_not_break_the_page(page):
    pairs = [pair(1e12), pair(1e-12), pair(0.0)] * 4
    page(measured(pairs=pairs, effect=1e17, low=-1e17, high=1e17, smallest=1e17))
    row = PairedResult.objects.get()
    assert all(math.isfinite(ratio) for entry in row.pairs for ratio in entry["ratios"])


def test_paired_measurement_is_offered_while_the_files_are_stored(client, alice):
    client.force_login(alice)
    first, second = (make_result(good_profile("tiny"), owner=alice) for _ in range(2))
    address = f"/profiles/compare/?p={first.pk}&p={second.pk}"
    text = client.get(address).text
    assert f'action="/tasks/{first.attempt.task_id}/compare-paired/"' in text
    assert f'name="other" value="{second.attempt.task_id}"' in text
    TaskFile.objects.filter(task=second.attempt.task).update(purged_at=timezone.now())
    assert "compare-paired" not in client.get(address).text


def test_list_of_tasks_shows_the_verdict(client, alice):
    client.force_login(alice)
    task = make_paired(measured(), alice)
    text = client.get("/tasks/").text
    assert "B is 5.00 % slower than A" in text
    assert f"pin-{task.pk}" not in text
    assert "old.mge ↔ new.mge" in text
