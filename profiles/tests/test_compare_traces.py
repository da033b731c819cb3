"""Comparison of traces: numbers of training steps, and results of a single sample."""

import pytest

from profiles.tests.imports import make_import
from profiles.tests.pages import make_result, whole_page
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


def test_different_numbers_of_training_steps_give_a_warning(client, traces):
    page = page_of(client, *traces)
    warnings = " ".join(page.context["warnings"])
    assert (
        "B has a different number of training steps than the baseline: 3 instead of 1" in warnings
    )
    steps = next(fact for fact in page.context["facts"] if fact.name == "Training steps")
    assert steps.values == ("1", "3")


def test_totals_are_shown_for_all_steps_and_for_one(client, traces):
    rows = {row["key"]: row for row in page_of(client, *traces).context["totals"]["rows"]}
    totals, step = rows["device"], rows["device-step"]
    # three steps instead of one: +200 %
    assert totals["cells"][0]["verdict"]["change"].startswith("+2")
    assert step["base"] == step["cells"][0]["time"] == totals["base"]
    assert step["cells"][0]["verdict"]["word"] == "not enough evidence: one pass"


@pytest.mark.parametrize(
    "functions",
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
def test_training_steps_are_counted_whatever_functions_they_call(client, alice, traces, functions):
    spans = [
        event for n, name in enumerate(functions) for event in span(HOST, name, 20 * n, 20 * n + 9)
    ]
    two = make_import(alice, to_trace(*operator(7, "ADD", 500, 5, "x:0"), *spans)).profile
    facts = page_of(client, traces[0], two).context["facts"]
    assert next(fact for fact in facts if fact.name == "Training steps").values == ("1", "2")


def test_equal_numbers_of_training_steps_give_no_warning(client, alice):
    content = repeat_trace(MLP, 2)
    profiles = [make_import(alice, data).profile for data in (content, content + b" ")]
    page = page_of(client, *profiles)
    assert "training steps" not in " ".join(page.context["warnings"])
    keys = [row["key"] for row in page.context["totals"]["rows"]]
    assert keys == ["device", "host", "device-step", "host-step"]


def test_a_comparison_of_traces_does_not_advise_a_plan(client, alice, traces):
    text = page_of(client, *traces).text.split('id="totals-title"')[0]
    assert "A, B are traces, which time each execution once" in text
    assert "plan “standard”" not in text
    model = make_result(good_profile("train_mlp"), owner=alice)
    page = page_of(client, traces[0], model)
    warnings = " ".join(page.context["warnings"])
    assert "B has one sample of each operator" in warnings
    assert "A is a trace" in warnings
    assert "training steps" not in warnings
    assert [row["key"] for row in page.context["totals"]["rows"]] == ["device", "host"]


def test_the_page_of_a_trace_does_not_advise_a_plan(client, traces):
    text = whole_page(client, f"/profiles/{traces[0].pk}/")
    assert "A trace times each execution once" in text.split('id="merged-passes"')[1]
