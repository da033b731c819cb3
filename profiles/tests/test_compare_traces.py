"""Comparison of traces: numbers of training steps, and results of a single sample."""

import pytest

from profiles.tests.imports import make_import
from profiles.tests.pages import make_result
from profiles.tests.traces import HOST, MLP, operator, repeat_trace, span, to_trace
from testdata import good_profile

pytestmark = pytest.mark.django_db


def page_of(client, *profiles):
    return client.get("/profiles/compare/?" + "&".join(f"p={profile.pk}" for profile in profiles))


@pytest.fixture
def traces(alice):
    """Traces of one training step and of three."""
    contents = (MLP.read_bytes(), repeat_trace(MLP, 3))
    return [make_import(alice, content).profile for content in contents]


def test_other_numbers_of_training_steps_are_warned_of(client, traces):
    page = page_of(client, *traces)
    warnings = " ".join(page.context["warnings"])
    assert "B has another number of training steps than the baseline: 3 instead of 1" in warnings
    steps = next(fact for fact in page.context["facts"] if fact.name == "Training steps")
    assert steps.values == ("1", "3")


def test_totals_of_one_step_stand_beside_those_of_all(client, traces):
    rows = {row["key"]: row["cells"] for row in page_of(client, *traces).context["totals"]}
    of_all, of_one = rows["device"], rows["device-step"]
    assert of_all[1]["percent"].startswith("+2")  # three steps instead of one: +200 %
    assert of_one[0]["value"] == of_one[1]["value"] == of_all[0]["value"]
    assert of_one[1]["verdict"]["word"] == "not enough evidence: one sample"


@pytest.mark.parametrize(
    "called",
    [
        # two optimizers, or one with two groups of parameters
        ("backward", "step", "step") * 2,
        # gradients of two passes are accumulated for each step
        ("backward", "backward", "step") * 2,
        # gradients without an optimizer
        ("backward",) * 2,
    ],
    ids=["two optimizers", "accumulated", "no optimizer"],
)
def test_a_step_is_one_however_often_its_parts_are_called(client, alice, traces, called):
    spans = [
        event for n, name in enumerate(called) for event in span(HOST, name, 20 * n, 20 * n + 9)
    ]
    two = make_import(alice, to_trace(*operator(7, "ADD", 500, 5, "x:0"), *spans)).profile
    facts = page_of(client, traces[0], two).context["facts"]
    assert next(fact for fact in facts if fact.name == "Training steps").values == ("1", "2")


def test_the_same_number_of_steps_is_no_warning(client, alice):
    content = repeat_trace(MLP, 2)
    profiles = [make_import(alice, data).profile for data in (content, content + b" ")]
    page = page_of(client, *profiles)
    assert "training steps" not in " ".join(page.context["warnings"])
    keys = [row["key"] for row in page.context["totals"]]
    assert keys == ["device", "host", "device-step", "host-step"]


def test_no_plan_is_promised_to_a_trace(client, alice, traces):
    text = page_of(client, *traces).content.decode().split('id="totals-title"')[0]
    assert "A, B are traces, which time each execution once" in text
    assert "plan “standard”" not in text
    model = make_result(good_profile("train_mlp"), owner=alice)
    page = page_of(client, traces[0], model)
    warnings = " ".join(page.context["warnings"])
    assert "B has one sample of each operator" in warnings
    assert "A is a trace" in warnings
    assert "training steps" not in warnings
    assert [row["key"] for row in page.context["totals"]] == ["device", "host"]


def test_the_page_of_a_trace_promises_no_plan(client, traces):
    text = client.get(f"/profiles/{traces[0].pk}/").content.decode()
    assert "A trace times each execution once" in text.split('id="merged-passes"')[1]
