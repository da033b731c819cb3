"""Advice on traces: rules that need a graph, an iteration or options are not checked."""

import pytest

from profiles.analysis.advice import RULES, RunFacts, Waits, advise
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
OF_GRAPHS = {"first_run", "host_bound", "unfused_batch_norm", "constant_work", "no_memory_plan"}


def advice(client, profile):
    return client.get(f"/api/v1/profiles/{profile.pk}/advice/").json()


def rules_of(client, profile):
    return [finding["rule"] for finding in advice(client, profile)["findings"]]


def test_a_training_step_is_no_first_execution_and_its_largest_type_is_named(client, alice):
    profile = make_import(alice, RESNET.read_bytes()).profile
    names = ["dominant_type", "dominant_operator", "training", "single_sample"]
    assert rules_of(client, profile) == names
    finding = advice(client, profile)["findings"][0]
    assert "ConvolutionBackwardFilter" in finding["sentence"]


def test_waiting_for_a_value_is_told_with_its_share(client, alice):
    profile = make_import(alice, MLP.read_bytes()).profile
    assert "waiting" in rules_of(client, profile)
    page = client.get(f"/profiles/{profile.pk}/").text
    assert "Python waited for a value of the device 1 time" in page
    assert "First execution" not in page


def test_many_tiny_executions_are_to_be_compiled_not_replayed(client, alice):
    events = [
        event
        for number in range(200)
        for event in operator(2 * number, "ADD", 20.0 * number, 5.0, "y")
    ]
    profile = make_import(alice, to_trace(*events)).profile
    tiny = next(
        finding
        for finding in advice(client, profile)["findings"]
        if finding["rule"] == "tiny_operators"
    )
    assert "megengine.jit.trace" in tiny["step"]
    assert "record_comp_seq" not in str(tiny)


def test_a_short_wait_is_no_advice(client, alice):
    wait = span(HOST, "TensorWaitProp", 900.0, 950.0)
    work = enclose(span(HOST, "forward", 0.0, 980.0), *operator(1, "Conv", 10.0, 900.0, "y"), *wait)
    assert "waiting" not in rules_of(client, make_import(alice, to_trace(*work)).profile)


def test_each_kind_of_profile_is_asked_what_fits_it(client, alice):
    traced = make_import(alice, RESNET.read_bytes()).profile
    compiled = make_import(alice, good_profile("resnet18")).profile
    titles = [set(advice(client, profile)["checked"]) for profile in (traced, compiled)]
    assert "Python waits for values" in titles[0] - titles[1]
    assert {"First execution", "No memory plan"} <= titles[1] - titles[0]
    assert not {rule.name for rule in RULES if rule.traced} & OF_GRAPHS


def test_waits_mean_nothing_where_nothing_was_timed(client, alice):
    data = data_of(good_profile("no_op"))
    result = advise(data, RunFacts(of_trace=True, waits=Waits(3, 0.9)))
    assert "waiting" not in {finding.rule for finding in result.findings}


@pytest.mark.parametrize(("copying_us", "fires"), [(40.0, False), (60.0, True)])
def test_copies_between_devices_are_told_without_their_waiting(client, alice, copying_us, fires):
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
    copies = [
        finding for finding in advice(client, profile)["findings"] if finding["rule"] == "copies"
    ]
    assert bool(copies) == fires
    if fires:
        assert copies[0]["saves_s"] == pytest.approx(60e-6)
        assert "1 copy between devices takes 6.3 %" in str(copies[0])
