"""Advice on traces: rules that need a graph, an iteration or options are not checked."""

import pytest

from profiles.analysis.advice.finding import RunFacts, Waits
from profiles.analysis.advice.registry import RULES, advise
from profiles.tests.imports import make_import
from profiles.tests.passes import data_of
from profiles.tests.traces import (
    DEVICE,
    HOST,
    MLP,
    NAMES,
    RESNET,
    WORKER,
    enclose,
    operator,
    span,
    thread_names,
    to_trace,
)
from testdata import good_profile

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage")]

#: rules about a compiled graph, an iteration or load_and_run
GRAPH_RULES = {"first_run", "host_bound", "unfused_batch_norm", "constant_work", "no_memory_plan"}


def advice(client, profile):
    return client.get(f"/api/v1/profiles/{profile.pk}/advice/").json()


def findings_of(client, profile):
    """Return the findings for a profile by rule, in the order of the API."""
    return {finding["rule"]: finding for finding in advice(client, profile)["findings"]}


def test_a_training_step_is_not_a_first_execution(client, alice):
    profile = make_import(alice, RESNET.read_bytes()).profile
    findings = findings_of(client, profile)
    assert [*findings] == ["dominant_type", "dominant_operator", "training", "single_sample"]
    assert "ConvolutionBackwardFilter" in findings["dominant_type"]["sentence"]


def test_the_page_shows_waits_for_values(client, alice):
    profile = make_import(alice, MLP.read_bytes()).profile
    assert "waiting" in findings_of(client, profile)
    page = client.get(f"/profiles/{profile.pk}/").text
    assert "Python waited 1 time for a value from the device, which took" in page
    assert "First execution" not in page


def test_tiny_operators_of_a_trace_advise_to_compile(client, alice):
    events = [
        event
        for number in range(200)
        for event in operator(2 * number, "ADD", 20.0 * number, 5.0, "y")
    ]
    profile = make_import(alice, to_trace(*events)).profile
    tiny = findings_of(client, profile)["tiny_operators"]
    assert "megengine.jit.trace" in tiny["step"]
    assert "record_comp_seq" not in str(tiny)


def test_a_short_wait_gives_no_advice(client, alice):
    wait = span(HOST, "TensorWaitProp", 900.0, 950.0)
    work = enclose(span(HOST, "forward", 0.0, 980.0), *operator(1, "Conv", 10.0, 900.0, "y"), *wait)
    assert "waiting" not in findings_of(client, make_import(alice, to_trace(*work)).profile)


def test_checked_rules_depend_on_the_kind_of_profile(client, alice):
    traced = make_import(alice, RESNET.read_bytes()).profile
    compiled = make_import(alice, good_profile("resnet18")).profile
    titles = [set(advice(client, profile)["checked"]) for profile in (traced, compiled)]
    assert "Python waits for values" in titles[0] - titles[1]
    assert {"First execution", "No memory plan"} <= titles[1] - titles[0]
    assert not {rule.name for rule in RULES if rule.traced} & GRAPH_RULES


def test_waits_give_no_advice_without_times():
    data = data_of(good_profile("no_op"))
    result = advise(data, RunFacts(of_trace=True, waits=Waits(3, 0.9)))
    assert "waiting" not in {finding.rule for finding in result.findings}


@pytest.mark.parametrize(("copying_us", "fires"), [(40.0, False), (60.0, True)])
def test_copies_between_devices_count_without_their_waits(client, alice, copying_us, fires):
    """One device waits 900 us for the other; only the time in which both copy counts."""
    arguments = {"__id__": 20, "__name__": "Copy"}
    other = 3
    events = [
        *operator(10, "Convolution", 0, 890, "y:0"),
        *span(WORKER, "Copy", 20, 25, **arguments),
        *span(DEVICE, "Copy", 900, 900 + copying_us, **arguments),
        *span(other, "Copy", 0, 900 + copying_us, **arguments),
    ]
    trace = to_trace(*events, *thread_names({**NAMES, other: "cpu1:0"}))
    profile = make_import(alice, trace).profile
    findings = findings_of(client, profile)
    assert ("copies" in findings) is fires
    if fires:
        assert findings["copies"]["saves_s"] == pytest.approx(60e-6)
        assert "1 copy between devices accounts for 6.3 %" in str(findings["copies"])
