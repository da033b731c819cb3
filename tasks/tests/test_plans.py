"""Tests of plans: presets, custom plans, and the time limit of a run."""

import pytest

from agent.protocol.plan import PRESETS, Plan
from tasks.dispatch.gateway import desired_state
from tasks.submission import uploads
from tasks.submission.plans import LABELS, longest_run_s, plan_rows, read_plan
from tasks.submission.request import InputRequest, TaskRequest
from tasks.submission.validation import longest_s_of
from tasks.tests.make import make_attempt, make_task, stored_objects
from webprofile.errors import DomainError
from webprofile.messages.errors import word


def test_preset_is_selected_by_name_and_defaults_to_standard():
    for name, preset in PRESETS.items():
        assert read_plan({"preset": name}) == preset
    assert read_plan({}) == PRESETS["standard"]


def test_custom_plan_keeps_its_values():
    fields = {"clean": True, "clean_min_s": 2, "clean_min_iterations": 5, "profiled": 3}
    plan = read_plan({"preset": "custom", **fields})
    assert plan == Plan(
        preset="custom", clean=True, clean_min_s=2.0, clean_min_iterations=5, profiled=3
    )
    assert read_plan(fields) == plan


def test_plan_without_a_clean_pass_drops_its_duration():
    plan = read_plan({"clean": False, "clean_min_s": 9.0, "profiled": 1})
    assert (plan.clean_min_s, plan.clean_min_iterations) == (0.0, 0)


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"profiled": 51}, "plan_field", "profiled"),
        ({"clean": True, "clean_min_s": 61}, "plan_field", "clean_min_s"),
        ({"clean": True, "clean_min_s": float("nan")}, "plan_field", "clean_min_s"),
        ({"clean": True, "clean_min_iterations": 10_001}, "plan_field", "clean_min_iterations"),
        ({"clean": False, "profiled": 0}, "plan_empty", "profiled"),
    ],
)
def test_invalid_plan_is_rejected_with_its_field(fields, code, field):
    with pytest.raises(DomainError) as caught:
        read_plan(fields)
    assert (caught.value.code, caught.value.field) == (code, field)
    assert code not in word(caught.value)


def test_form_offers_every_plan_with_its_number_of_processes():
    rows = {row["preset"]: row["processes"] for row in plan_rows()}
    assert rows == {"quick": 3, "standard": 8, "thorough": 28, "custom": 0}
    assert [row["preset"] for row in plan_rows() if row["is_default"]] == ["standard"]
    assert set(LABELS) < set(Plan.model_fields)


def test_time_limit_grows_by_a_minute_for_each_pass(settings):
    settings.RUN_TIMEOUT_S = 600
    assert longest_s_of(TaskRequest(plan=PRESETS["quick"])) == 780
    assert longest_s_of(TaskRequest(plan=PRESETS["standard"])) == 1080
    # and by the time for further latency passes
    assert longest_s_of(TaskRequest(plan=PRESETS["thorough"])) == 600 + 28 * 60 + 60


@pytest.mark.django_db
def test_order_contains_plan_seed_inputs_and_time_limit():
    task = make_task(
        plan=PRESETS["standard"], seed=2**63 - 1, inputs=(InputRequest("x", shape=(2, 3)),)
    )
    uploads.submit_task(task, stored_objects(task))
    attempt = make_attempt(task)
    (start,) = desired_state(attempt.worker_id)
    assert start.plan == PRESETS["standard"]
    assert (start.seed, start.timeout_s) == (2**63 - 1, longest_run_s(PRESETS["standard"].passes))
    assert [(i.name, i.shape) for i in start.inputs] == [("x", (2, 3))]
    assert start.fill
