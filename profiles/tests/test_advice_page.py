"""Advice on the result page: sentences, links, languages, and the facts of a run for the rules."""

import json
import re

import pytest
from django.utils import translation

from agent.protocol.options import OPTIONS
from profiles.analysis.advice.finding import RunFacts
from profiles.analysis.advice.registry import RULES
from profiles.formats.chrome_trace.advice_messages import TRACE_RULES as TRACE_MESSAGES
from profiles.models import AttemptMeasurement
from profiles.presenters.advice import advice_of, run_facts
from profiles.presenters.advice_messages import RULES as MESSAGES
from profiles.tests.advice_data import ALL_FACTS, recorded_profile
from profiles.tests.imports import make_import
from profiles.tests.make import NODE, make_profile, to_json
from profiles.tests.pages import make_result, whole_page
from profiles.tests.passes import data_of
from testdata import good_profile


def finding(advice, rule):
    return next(entry for entry in advice["findings"] if entry["rule"] == rule)


def test_every_rule_has_a_message():
    assert set(MESSAGES) == {rule.name for rule in RULES if rule.graph}
    assert set(TRACE_MESSAGES) == {rule.name for rule in RULES}


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("name", ["resnet18_opt", "train_mlp", "deep_loop", "dynamic_shape"])
def test_sentences_are_complete_in_both_languages(name, language):
    with translation.override(language):
        advice = advice_of(data_of(recorded_profile(name)), ALL_FACTS)
        texts = [
            str(text)
            for entry in advice["findings"]
            for text in (entry["title"], entry["sentence"], entry["why"], entry["estimate"])
            if text
        ]

    assert texts
    assert not any("%(" in text or "%%" in text for text in texts)
    assert not any(re.search(r"\bnan\b|\binf\b", text) for text in texts)
    chinese = [any("\u4e00" <= letter <= "\u9fff" for letter in text) for text in texts]
    assert chinese == [language == "zh-hans"] * len(texts)


def test_a_finding_shows_time_share_operators_and_an_option_to_try():
    advice = advice_of(data_of(recorded_profile("resnet18")), RunFacts())

    entry = finding(advice, "unfused_batch_norm")
    assert entry["sentence"].startswith("20 BatchNorms after convolutions account for 23.5 %")
    assert entry["saves"] == {"time": "3.24 ms", "share": "23.5 %"}
    assert (len(entry["operators"]), entry["more"]) == (5, 15)
    assert entry["operators"][0]["time"] == "1.11 ms"
    url = "/docs/options/#optimize_for_inference"
    links = [piece for piece in entry["step"] if "url" in piece]
    assert links == [{"text": "optimize_for_inference", "url": url}]


@pytest.mark.parametrize("rule", ["tiny_operators", "host_bound"])
def test_an_option_that_does_not_work_is_not_recommended(rule):
    file = json.loads(recorded_profile("deep_loop"))

    def step() -> str:
        entry = finding(advice_of(data_of(to_json(file)), RunFacts()), rule)
        return "".join(piece["text"] for piece in entry["step"])

    assert "record_comp_seq" in step()
    operator = file["graph_exec"]["operator"][file["graph_exec"]["comp_seq"][-2]]
    for variable in operator["output"]:
        file["graph_exec"]["var"][variable]["flag"].append("NO_SYS_MEM_ALLOC")
    assert "record_comp_seq" not in step()
    assert "larger" in step()


def test_the_option_that_makes_a_model_slow_is_not_offered_for_a_repetition():
    facts = RunFacts(options={"enable_ioc16": True})
    entry = finding(advice_of(data_of(recorded_profile("float16")), facts), "slow_float16")

    assert "without enable_ioc16" in "".join(piece["text"] for piece in entry["step"])
    assert entry["repeat"] == ""
    assert entry["finding"].options == ()


@pytest.mark.parametrize("name", ["resnet18_opt", "lstm", "deep_loop", "tiny"])
def test_advice_links_only_to_existing_options(name):
    advice = advice_of(data_of(recorded_profile(name)), ALL_FACTS)

    options = {
        piece["text"] for entry in advice["findings"] for piece in entry["step"] if "url" in piece
    }
    assert options
    assert options <= set(OPTIONS)


def test_an_operator_type_cannot_change_the_text_direction_of_a_sentence():
    profile = make_profile({"1": {NODE: {"start": 10.0, "kern": 10.0, "end": 10.5}}})
    profile["graph_exec"]["operator"]["1"]["type"] = "\u202eevil\n\u2069<b>"
    advice = advice_of(data_of(to_json(profile)), RunFacts())

    sentence = finding(advice, "dominant_operator")["sentence"]
    assert "\u2068\ufffdevil↵\ufffd<b>\u2069" in sentence


def test_rules_that_lack_data_are_listed_with_the_missing_data():
    advice = advice_of(data_of(recorded_profile("conv_bias")), RunFacts())

    lacks = {str(rule["title"]): str(rule["lacks"]) for rule in advice["unknown"]}
    assert "agent runtime check" in lacks["Below roofline"]
    assert len(advice["checked"]) + len(lacks) == sum(rule.graph for rule in RULES)


@pytest.mark.django_db
def test_a_run_in_several_threads_does_not_claim_that_nothing_was_measured(client, alice):
    profile = make_result(good_profile("resnet18"), owner=alice)
    task = profile.attempt.task
    task.options = {"multithread": 4}
    task.save()

    advice = client.get(f"/api/v1/profiles/{profile.pk}/advice/").json()
    lacks = {rule["title"]: rule["lacks"] for rule in advice["unknown"]}
    assert "or the run used several threads" in lacks["Below roofline"]
    roofline = client.get(f"/api/v1/profiles/{profile.pk}/charts/roofline/").json()
    assert "only on devices of this site, with one thread" in roofline["notes"][-1]


@pytest.mark.django_db
def test_rules_know_options_measurement_and_device_of_a_task(storage):
    profile = make_result(good_profile("tiny"))
    task = profile.attempt.task
    task.options = {"fast_run": True}
    task.save()
    task.worker.facts["machine"] = "aarch64"
    task.worker.save()
    AttemptMeasurement.objects.create(
        attempt=profile.attempt,
        cv=0.01,
        overhead=0.1,
        passes=[
            {"kind": "clean", "profile": "", "last_ms": 2.5},
            {"kind": "profiled", "profile": "profile.json", "last_ms": 3.5},
            {"kind": "profiled", "profile": "profile-2.json", "last_ms": None},
        ],
        disturbances=[{"code": "hot", "details": []}],
    )

    profile.refresh_from_db()
    facts = run_facts(profile)
    assert facts.options == {"fast_run": True}
    assert facts.machine == "aarch64"
    assert (facts.iteration_cv, facts.overhead) == (0.01, 0.1)
    assert facts.iterations_s == {"profile.json": 0.0035}
    assert facts.disturbances == ("hot",)


@pytest.mark.django_db
def test_the_page_lists_advice_with_links_to_operators(client, alice):
    profile = make_result(good_profile("resnet18"), owner=alice)

    page = whole_page(client, f"/tasks/{profile.attempt.task_id}/")

    assert 'id="advice-unfused_batch_norm"' in page
    assert f'href="/tasks/{profile.attempt.task_id}/?op=90" data-row="90"' in page
    assert page.index('id="advice-unfused_batch_norm"') < page.index('id="advice-dominant_type"')
    assert 'id="advice-none"' not in page


@pytest.mark.django_db
def test_the_page_without_advice_says_how_many_rules_were_checked(client, alice):
    upload = make_import(alice, good_profile("tiny"))

    page = whole_page(client, f"/profiles/{upload.profile.pk}/")

    assert 'id="advice-none"' in page
    assert "rules were checked" in page
    assert 'id="advice-too_short"' in page


@pytest.mark.django_db
def test_operators_of_a_finding_are_offered_where_a_script_can_list_them(client, alice):
    page = f"/tasks/{make_result(good_profile('resnet18'), owner=alice).attempt.task_id}/"

    buttons = re.findall(r"<button [^>]*data-rows=", client.get(page).text)
    assert buttons
    assert all("needs-script" in button for button in buttons)
    # the list replaces the table that the server rendered
    assert "data-rows=" in client.get(f"{page}?filters=1").text
