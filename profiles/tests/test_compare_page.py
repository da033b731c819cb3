"""The comparison page: choosing results, filters, verdicts, exports, and invalid requests."""

import csv
import io
import json
import math
import re
from collections.abc import Sequence

import pytest
from cachetools import LRUCache
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from profiles.comparison import loading
from profiles.comparison.messages import change_texts, signed_time
from profiles.models import Profile
from profiles.tests.graph_edits import with_end_times
from profiles.tests.imports import make_import
from profiles.tests.make import make_profile, to_json
from profiles.tests.pages import add_measurement, make_equal_runs, make_result
from profiles.tests.passes import another_pass
from tasks.baselines import pin_baseline, unpin_baseline
from tasks.models import Purpose, Task
from tasks.tests.make import make_user, make_worker
from testdata import DATA, compiled_profile, good_profile
from workers.models import HealthCheck, LastHeartbeat

pytestmark = pytest.mark.django_db

NAMES = ("resnet18", "resnet18_opt", "resnet18_fbs1")


@pytest.fixture(scope="module")
def made(module_data):
    """Users and their results: single passes of three models, and five passes of two of them."""
    alice, bob = make_user("alice"), make_user("bob")
    singles = [make_result(good_profile(name), owner=alice).pk for name in NAMES]
    several = [
        make_result(data, *(another_pass(data, seed) for seed in range(4)), owner=bob).pk
        for data in map(good_profile, NAMES[:2])
    ]
    return {"alice": alice, "bob": bob, "singles": singles, "several": several}


@pytest.fixture(autouse=True)
def _fresh_state(made, db):
    """Forget the verdicts of other tests on the same results, and let the device be online."""
    loading._align.cache.clear()
    LastHeartbeat.objects.update(last_seen_at=timezone.now())


@pytest.fixture
def alice(client, made):
    client.force_login(made["alice"])
    return made["alice"]


@pytest.fixture
def results(alice, made):
    """Results of resnet18, of the optimized resnet18, and of resnet18 with other shapes."""
    return [Profile.objects.get(pk=number) for number in made["singles"]]


@pytest.fixture
def pair(results):
    return results[:2]


EXPORT = "/api/v1/profiles/compare/export/"


def address(*profiles, **more):
    parts = [f"p={getattr(profile, 'pk', profile)}" for profile in profiles]
    return "/profiles/compare/?" + "&".join([*parts, *(f"{k}={v}" for k, v in more.items())])


def test_a_fusion_shows_its_operators_on_both_sides_and_its_time(client, pair):
    page = client.get(address(*pair))
    text = page.text
    assert "ConvolutionForward + BatchNormForward + Elemwise RELU → ConvBiasForward" in text
    first = page.context["page"].object_list[0]
    assert (first["cells"][0]["status"], first["cells"][0]["delta"]) == ("fused", "+3.86")
    assert first["cells"][0]["verdict"]["word"] == "not enough evidence: one pass"
    assert page.context["unit"] == page.context["totals"]["unit"] == "ms"
    assert page.context["totals"]["rows"][0]["cells"][0]["delta"] == "+9.70"
    steps = page.context["waterfall"]["steps"]
    assert [steps[0]["total"], steps[-1]["total"]] == ["13.7", "23.4"]


def test_results_without_device_times_are_compared_on_the_host(client, alice):
    host_times = ({"1": 0.5}, {"1": 0.25})
    made = [to_json(make_profile({"1": {}}, host=times)) for times in host_times]
    one, other = (make_result(data, owner=alice) for data in made)
    page = client.get(address(one, other))
    assert [row["base"] for row in page.context["page"].object_list] == ["500"]
    assert '<option value="host" selected>' in page.text
    assert "side=host" in page.context["export_address"]
    empty = client.get(address(one, other, q="nothing")).text
    (clear,) = re.findall(r'href="\?([^"#]*)#compare-part" data-swap>Clear the filter', empty)
    assert ("q=" in clear, "side=device" in clear) == (False, False)
    on_device = client.get(address(one, other, side="device"))
    assert on_device.context["comparison"].question.side == "device"
    links = re.findall(r'href="(\?p=[^"]*)"', on_device.text)
    assert links
    assert all("side=device" in link for link in links)


def test_an_operator_that_takes_no_time_any_more_changes_by_minus_100_percent(client, alice):
    times = ({"1": 12e-6, "2": 1e-3}, {"1": 0.0, "2": 1e-3})
    one, other = (make_result(to_json(make_profile(each)), owner=alice) for each in times)
    (row,) = client.get(address(one, other)).context["page"].object_list
    assert row["cells"][0]["verdict"]["change"] == "−100"


def test_search_for_another_result_keeps_the_side_and_the_filters(client, results):
    chosen = {"side": "host", "status": "fused", "q": "conv", "row": 3}
    url = address(*results[:2], **chosen)
    pages = {"add-form": url, "find-form": f"{url}&choose=1", "choose-form": f"{url}&choose=1"}
    for form, page in pages.items():
        html = client.get(page).text.split(f'id="{form}"')[1].split("</form>")[0]
        fields = re.findall(r'<input type="hidden" name="(\w+)" value="(\w*)">', html)
        kept = {("side", "host"), ("status", "fused"), ("q", "conv")}
        assert kept <= set(fields)
        assert "row" not in dict(fields)


def test_peak_memory_is_compared_without_a_verdict(client, results):
    assert "Peak memory" not in client.get(address(*results)).text
    one, other = (profile.attempt for profile in results[:2])
    for attempt, sizes in ((one, (100 << 20, None)), (other, (103 << 20, 5 << 29))):
        attempt.host_memory_bytes, attempt.gpu_memory_bytes = sizes
        attempt.save()
    page = client.get(address(*results))
    host, gpu = page.context["totals"]["rows"][-2:]
    assert (host["title"], host["base"]) == ("Peak memory", "100 MiB")
    cell, unknown = host["cells"]
    assert (cell["time"], cell["delta"]) == ("103 MiB", "+3.00 MiB")
    assert (cell["verdict"]["change"], cell["verdict"]["word"]) == ("+3.0", "no verdict")
    assert (unknown["time"], unknown["delta"]) == ("not recorded", "")
    assert (gpu["title"], gpu["base"]) == ("Peak GPU memory", "not recorded")
    profiles = client.get("/api/v1" + address(*results)).json()["profiles"]
    sizes = [(row["host_memory_bytes"], row["gpu_memory_bytes"]) for row in profiles]
    assert sizes == [(100 << 20, None), (103 << 20, 5 << 29), (None, None)]


#: device totals of the passes of five equal runs that differ by 1 %, s
EQUAL_RUNS = [[0.01375 * (1 + run / 400)] * 5 for run in range(5)]


@pytest.fixture
def slower_pair(client, made):
    """Results of resnet18 and of a slower variant, five passes each, undisturbed."""
    client.force_login(made["bob"])
    return [Profile.objects.get(pk=number) for number in made["several"]]


def tones(page) -> set[str]:
    """Return the tones of all verdicts and waterfall steps on a comparison page."""
    context = page.context
    cells = [row["cells"][0] for row in context["page"].object_list]
    cells += [row["cells"][0] for row in context["totals"]["rows"]]
    cell_tones = {cell["verdict"]["tone"] for cell in cells if cell.get("verdict")}
    return cell_tones | {step["tone"] for step in context["waterfall"]["steps"]}


def test_the_page_gives_verdicts_with_passes_and_equal_runs(client, slower_pair):
    make_equal_runs(slower_pair[0], *EQUAL_RUNS)
    for by in ("row", "type", "scope"):
        page = client.get(address(*slower_pair, by=by))
        words = [row["cells"][0]["verdict"]["word"] for row in page.context["page"].object_list]
        assert "slower" in words, by
        assert "95 %" in page.text
        assert "slower" in tones(page)
        total = page.context["totals"]["rows"][0]["cells"][0]["verdict"]
        assert (total["code"], total["tone"]) == ("slower", "slower")
        assert "Equal runs of this task may differ by 2.6 %" in page.context["totals_notes"][0]
        steps = page.context["waterfall"]["steps"]
        assert [step["tone"] for step in steps].count("slower") >= 1, by


def test_without_equal_runs_the_page_gives_advice_instead_of_verdicts(client, slower_pair):
    page = client.get(address(*slower_pair))
    assert tones(page) == {""}
    total = page.context["totals"]["rows"][0]["cells"][0]["verdict"]
    assert total["word"] == "not enough evidence: variance unknown"
    (advice,) = [warning for warning in page.context["warnings"] if "not known yet" in warning]
    assert "run the same task there 5 times without disturbance" in advice


def make_sample_runs(profile: Profile, *runs: Sequence[float], environment: str = "now") -> None:
    """Create runs of the sample model by which the device measured its scatter."""
    for totals_s in runs:
        HealthCheck.objects.create(
            worker=Task.objects.get(pk=profile.attempt.task_id).worker,
            runtime_version="1.13.0",
            cause=HealthCheck.Cause.SCATTER,
            result=HealthCheck.Result.PASSED,
            environment=environment,
            samples={"device": totals_s, "host": totals_s, "latency": [0.01]},
        )


def test_the_sample_model_of_the_device_gives_verdicts_from_the_second_task_on(client, slower_pair):
    make_sample_runs(slower_pair[0], *EQUAL_RUNS)
    page = client.get(address(*slower_pair))
    assert page.context["totals"]["rows"][0]["cells"][0]["verdict"]["code"] == "slower"
    assert "Equal runs of the sample model on this device" in page.context["totals_notes"][0]


def test_runs_of_the_sample_model_before_an_update_do_not_count(client, slower_pair):
    make_sample_runs(slower_pair[0], *EQUAL_RUNS, environment="before")
    make_sample_runs(slower_pair[0], EQUAL_RUNS[0])
    page = client.get(address(*slower_pair))
    assert page.context["totals"]["rows"][0]["cells"][0]["verdict"]["code"] == "unknown"


def test_the_widest_scatter_that_is_known_decides(client, slower_pair):
    make_sample_runs(slower_pair[0], *EQUAL_RUNS)
    wide = [[total_s * factor for total_s in EQUAL_RUNS[0]] for factor in (0.5, 2)]
    # too few to determine the scatter alone
    make_equal_runs(slower_pair[0], *wide)
    page = client.get(address(*slower_pair))
    assert page.context["totals"]["rows"][0]["cells"][0]["verdict"]["code"] == "none"


def test_verdicts_are_recomputed_only_after_new_runs_on_the_device(
    client, slower_pair, monkeypatch
):
    calls = []
    judged = loading.judged
    monkeypatch.setattr(loading, "judged", lambda *arguments: calls.append(1) or judged(*arguments))
    assert tones(client.get(address(*slower_pair))) == {""}
    make_equal_runs(slower_pair[0], *EQUAL_RUNS)
    assert "slower" in tones(client.get(address(*slower_pair)))
    assert "slower" in tones(client.get(address(*slower_pair, by="type")))
    assert len(calls) == 2


def test_a_comparison_larger_than_the_cache_stays_until_the_next_one(client, results, monkeypatch):
    monkeypatch.setattr(loading, "_MOST_KEPT", 1)
    monkeypatch.setattr(loading._align, "cache", LRUCache(1, getsizeof=loading._size))
    calls = []
    align = loading.align_profiles
    monkeypatch.setattr(loading, "align_profiles", lambda data: calls.append(1) or align(data))
    for count, compared in [
        (1, results[:2]),
        (1, results[:2]),
        (2, results[1:]),
        (3, results[:2]),
    ]:
        assert client.get(address(*compared)).status_code == 200
        assert len(calls) == count


def test_too_few_or_disturbed_equal_runs_give_no_verdict(client, slower_pair):
    make_equal_runs(slower_pair[0], *EQUAL_RUNS[:4])
    make_equal_runs(slower_pair[0], *EQUAL_RUNS, disturbances=[{"code": "hot", "details": []}])
    assert tones(client.get(address(*slower_pair))) == {""}


def test_a_disturbed_run_gets_differences_and_a_warning_but_no_verdict(client, slower_pair):
    make_equal_runs(slower_pair[0], *EQUAL_RUNS)
    hot = [{"code": "hot", "details": [{"code": "hot", "values": {"degrees": 93}}]}]
    for letter, profile in zip("AB", slower_pair, strict=True):
        measurement = add_measurement(profile, disturbances=hot)
        page = client.get(address(*slower_pair, rows="all"))
        warnings = page.context["warnings"]
        assert any(w.startswith(f"{letter} was disturbed: the device was hot") for w in warnings)
        assert tones(page) == {""}, letter
        cells = [row["cells"][0] for row in page.context["page"].object_list]
        assert {c["verdict"]["code"] for c in cells if c.get("verdict")} <= {"disturbed", "absent"}
        assert all("time" not in cell.get("reasons", "") for cell in cells)
        total = page.context["totals"]["rows"][0]["cells"][0]
        assert total["verdict"]["word"] == "not enough evidence: disturbed run"
        assert total["delta"].startswith("+")
        measurement.delete()


def answer_of(page) -> str:
    """Return the sentence at the top of a comparison page."""
    text = page.text[page.text.index('id="answers"') :]
    return " ".join(re.sub("<[^>]+>", " ", text[: text.index("</ul>")]).split()).partition("> ")[2]


def test_the_page_begins_with_the_difference_and_its_verdict_in_a_sentence(client, slower_pair):
    page = client.get(address(*slower_pair))
    assert re.match(
        r"Device time \+6\d\.\d %, not enough evidence: variance unknown", answer_of(page)
    )
    assert page.text.index('id="answers"') < page.text.index('id="runs"')
    make_equal_runs(slower_pair[0], *EQUAL_RUNS)
    faster = client.get(address(*slower_pair[::-1]))
    assert re.match(r"Device time −3\d\.\d %, faster 95 % interval −4\d\.\d … ", answer_of(faster))
    add_measurement(slower_pair[0], disturbances=[{"code": "hot", "details": []}])
    noisy = answer_of(client.get(address(*slower_pair)))
    assert re.match(r"Device time \+6\d\.\d %, not enough evidence: disturbed run", noisy)
    chinese = client.get(address(*slower_pair), headers={"Accept-Language": "zh-hans"})
    assert "证据不足：运行受干扰" in answer_of(chinese)


def test_only_differences_of_the_environment_are_listed_and_before_the_figures(client, pair):
    task = pair[1].attempt.task
    other = make_worker("lab", facts={"platform": "Linux-6.1", "cpu_model": "Kirin"})
    Task.objects.filter(pk=task.pk).update(worker=other, options={"fast_run": True})
    pair[1].attempt.environment = {"agent": "1.2", "platform": "Linux-6.1", "cpu_model": None}
    pair[1].attempt.save()
    page = client.get(address(*pair))
    differences = {fact.name: fact.values for fact in page.context["differences"]}
    assert differences["Device"][1] == "lab"
    assert differences["System and kernel"] == ("–", "Linux-6.1")
    assert differences["Agent"] == ("–", "1.2")
    assert differences["Options"] == ("defaults", "--fast_run")
    assert "Measuring plan" not in differences
    table = page.text[page.text.index('id="facts"') : page.text.index('id="totals"')]
    assert "Linux-6.1" in table
    assert "Same otherwise: " in table
    assert "Measuring plan" in table.partition("Same otherwise: ")[2]


def test_waterfall_and_table_name_a_row_after_its_operator_in_the_baseline(client, pair):
    for profiles in (pair, pair[::-1]):
        page = client.get(address(*profiles, rows="all"))
        labels = {row["number"]: row["label"] for row in page.context["page"].object_list}
        steps = [step for step in page.context["waterfall"]["steps"] if "row=" in step["address"]]
        assert len(steps) > 5
        for step in steps:
            number = int(step["address"].partition("row=")[2].partition("&")[0])
            assert labels.get(number, step["name"]) == step["name"]
        graph = loading.comparison_of(profiles).comparison
        for number, label in labels.items():
            baseline = graph.rows[number].baseline
            assert not baseline or label in [graph.nodes[0].labels[x] for x in baseline]


def clean_pass(median_ms: float) -> dict:
    return {"kind": "clean", "kept": True, "median_ms": median_ms}


def latency_of(page) -> dict:
    rows = page.context["totals"]["rows"]
    return next(row for row in rows if row["key"] == "latency")["cells"][0]


def test_the_page_tells_the_latency_before_the_total_of_the_operators(client, slower_pair):
    for profile, median_ms in zip(slower_pair, (10.0, 20.0), strict=True):
        add_measurement(profile, median_ms=median_ms, passes=[clean_pass(median_ms)])
    page = client.get(address(*slower_pair))
    latency, operators = (answer["text"] for answer in page.context["answers"])
    assert latency == "Latency +100 %, not enough evidence: variance unknown"
    assert re.match(r"Device time \+6\d\.\d %, not enough evidence", operators)
    assert [row["key"] for row in page.context["totals"]["rows"]][:2] == ["latency", "device"]


def test_latency_without_equal_runs_gets_no_verdict(client, slower_pair):
    for profile, median_ms in zip(slower_pair, (10.0, 20.0), strict=True):
        add_measurement(profile, median_ms=median_ms, passes=[clean_pass(median_ms)])
    page = client.get(address(*slower_pair))
    latency = latency_of(page)
    assert latency["verdict"]["word"] == "not enough evidence: variance unknown"
    assert (latency["delta"], latency["verdict"]["interval"]) == ("+10.0", "")
    assert "it is unknown how much the latencies" in " ".join(page.context["totals_notes"])


def test_latency_is_judged_by_how_much_equal_runs_of_the_device_differ(client, slower_pair):
    # else the two would be equal runs themselves
    Task.objects.filter(pk=slower_pair[1].attempt.task_id).update(seed=2)
    add_measurement(slower_pair[0], median_ms=10.0, passes=[clean_pass(10.0)])
    for median_ms in (9.9, 9.95, 10.0, 10.05, 10.1):
        make_equal_runs(slower_pair[0], EQUAL_RUNS[0], passes=[clean_pass(median_ms)])
    for other_ms, word in ((10.2, "not enough evidence"), (12.0, "slower")):
        other = add_measurement(slower_pair[1], median_ms=other_ms, passes=[clean_pass(other_ms)])
        page = client.get(address(*slower_pair))
        verdict = latency_of(page)["verdict"]
        assert verdict["word"] == word
        low, high = (float(verdict[name].replace("−", "-")) for name in ("low", "high"))
        assert low < 100 * (other_ms / 10 - 1) < high
        assert (low > 0) == (word == "slower")
        (note,) = [text for text in page.context["totals_notes"] if "Latencies" in text]
        assert "A smaller difference of B gets no verdict." in note
        other.delete()


def test_equal_runs_of_another_device_do_not_count(client, slower_pair):
    make_equal_runs(slower_pair[0], *EQUAL_RUNS)
    elsewhere = make_worker("elsewhere")
    slower_pair[1].attempt.task.attempts.update(worker=elsewhere)
    assert tones(client.get(address(*slower_pair))) == {""}


def test_the_number_of_queries_does_not_grow_with_equal_runs(
    client, slower_pair, django_assert_max_num_queries
):
    make_equal_runs(slower_pair[0], *EQUAL_RUNS * 3)
    client.get(address(*slower_pair))
    with django_assert_max_num_queries(16):
        client.get(address(*slower_pair))


def test_the_first_result_is_the_baseline_until_another_is_selected(client, pair):
    page = client.get(address(*pair))
    runs = page.context["runs"]
    assert [run["is_baseline"] for run in runs] == [True, False]
    reversed_page = client.get("/profiles/compare/?" + runs[1]["as_baseline"])
    pks = [run["profile"].pk for run in reversed_page.context["runs"]]
    assert pks == [pair[1].pk, pair[0].pk]
    assert reversed_page.context["page"].object_list[0]["cells"][0]["status"] == "split"


def test_different_inputs_give_a_warning(client, results):
    page = client.get(address(results[0], results[2]))
    assert any("1,3,64,64" in warning for warning in page.context["warnings"])
    inputs = next(fact for fact in page.context["facts"] if fact.name == "Inputs")
    assert inputs.differs
    assert inputs.values == ("data {1,3,224,224}", "data {1,3,64,64}")


def test_models_without_a_common_operator_give_a_warning(client, alice):
    profiles = [make_result(good_profile(name), owner=alice) for name in ("bert_tiny", "tiny")]
    page = client.get(address(*profiles))
    assert "B and the baseline have no operators in common" in page.text
    assert 'id="waterfall"' not in page.text
    assert page.status_code == 200


def test_an_imported_profile_can_be_compared_with_a_task(client, alice, pair):
    upload = make_import(alice, compiled_profile("resnet18_opt__profile"), name="elsewhere.json")
    page = client.get(address(pair[1], upload.profile))
    assert [run["title"] for run in page.context["runs"]][1] == "elsewhere.json"
    assert page.context["filter"]["statuses"][0]["count"] > 70  # same


def test_an_unknown_profile_returns_404(client, pair):
    for number in ("99999", "abc", "-1", "1e3", "%00"):
        assert client.get(address(pair[0], number)).status_code == 404, number


def test_a_result_of_another_user_returns_404(client, pair):
    foreign = make_result(good_profile("tiny"), owner=make_user("carol"))
    for path in (address(pair[0], foreign), address(foreign)):
        assert client.get(path).status_code == 404
    export = "/api/v1" + address(pair[0], foreign).replace("compare/", "compare/export/csv/")
    assert client.get(export).status_code == 404


def test_the_chosen_result_is_the_baseline_of_the_one_that_one_comes_from(client, results):
    current, older = results[1], results[0]
    page = client.get(address(current)).text
    form = page[page.index('id="choose-form"') :]
    numbers = re.findall(r'name="p" value="(\d+)"', form)
    assert numbers.index(str(older.pk)) < numbers.index(str(current.pk))
    assert numbers[-1] == str(current.pk)
    assert "Current" in page[: page.index('id="choose-form"')]


def test_a_result_cannot_be_compared_with_itself(client, pair):
    page = client.get(address(pair[0], pair[0]))
    assert page.status_code == 400
    assert "selected twice" in page.text
    assert page.context["kept"] == [pair[0].pk]


def test_more_than_eight_results_are_refused(client, alice):
    profiles = [make_result(good_profile("tiny"), owner=alice) for _ in range(9)]
    page = client.get(address(*profiles))
    assert page.status_code == 400
    assert "At most 8 results" in page.text
    assert len(client.get(address(*profiles[:8])).context["runs"]) == 8


def test_results_that_are_too_large_together_are_refused_with_a_command(client, pair, monkeypatch):
    monkeypatch.setattr(loading, "MOST_OPERATORS", 200)
    page = client.get(address(*pair))
    assert page.status_code == 422
    assert "249 operators" in page.text
    assert "manage.py compare_profiles" in page.text


def test_the_chooser_lists_runs_of_the_same_model_first(client, results, alice):
    results[0].attempt.task.files.filter(kind="model").update(md5="1" * 32, name="net.mge")
    results[1].attempt.task.files.filter(kind="model").update(md5="2" * 32, name="other.mge")
    results[2].attempt.task.files.filter(kind="model").update(md5="1" * 32, name="copy.mge")
    page = client.get(address(results[0]))
    assert "Select at least one more result" in page.text
    candidates = page.context["page"].object_list
    assert [(candidate["profile"].pk, candidate["kin"]) for candidate in candidates] == [
        (results[2].pk, "same_file"),
        (results[1].pk, ""),
    ]
    Task.objects.filter(attempts__profile=results[2]).update(purpose=Purpose.HEALTH)
    candidates = client.get(address(results[0])).context["page"].object_list
    assert [candidate["profile"].pk for candidate in candidates] == [results[1].pk]


def test_the_pinned_baseline_is_offered_first_and_one_click_compares_with_it(
    client, results, alice
):
    current, pinned, newest = results
    tasks = [profile.attempt.task for profile in results]
    Task.objects.update(worker=tasks[0].worker)
    pin_baseline(tasks[1])
    page = client.get(address(current))
    first = page.context["page"].object_list[0]
    assert (first["profile"].pk, first["kin"]) == (pinned.pk, "pinned")
    assert "pinned baseline" in page.text
    compared = client.get("/profiles/compare/?" + first["address"])
    assert [run["profile"].pk for run in compared.context["runs"]] == [pinned.pk, current.pk]
    # without a pin, the newest run of the model
    unpin_baseline(tasks[1])
    first = client.get(address(current)).context["page"].object_list[0]
    assert first["profile"].pk == newest.pk


def test_the_task_list_compares_with_the_pinned_task_and_otherwise_with_the_oldest(
    client, pair, alice
):
    tasks = [profile.attempt.task for profile in pair]
    form = {"act": "compare", "task": [task.pk for task in tasks]}
    oldest = client.post("/tasks/act/", form)
    assert oldest["Location"].endswith(address(*pair))
    pin_baseline(tasks[1])
    pinned = client.post("/tasks/act/", form)
    assert pinned["Location"].endswith(address(*pair[::-1]))


def test_results_are_added_to_a_comparison_on_its_page(client, results):
    page = client.get(address(*results[:2])).text
    form = page[page.index('id="add-form"') : page.index('id="add-results"')]
    assert re.findall(r'name="p" value="(\d+)"', form) == [str(r.pk) for r in results[:2]]
    # without JavaScript, the search leads to the page of choices
    chooser = client.get(address(*results[:2], choose=1, find="net"))
    assert f"{address(*results)}".split("?")[1] in chooser.text.replace("&amp;", "&")
    part = client.get(address(*results[:2], choose=1, find="net", part=1)).text
    assert "<html" not in part
    assert f"{address(*results)}".split("?")[1] in part.replace("&amp;", "&")
    nothing = client.get(address(*results[:2], choose=1, find="nothing", part=1)).text
    assert "No other matching results" in nothing
    foreign = make_result(good_profile("tiny"), owner=make_user("carol"))
    assert f"p={foreign.pk}" not in client.get(address(*results[:2], choose=1, part=1)).text


def test_the_chooser_offers_no_results_without_operators(client, results):
    type(results[1]).objects.filter(pk=results[1].pk).update(operators=0)
    candidates = client.get(address(results[0])).context["page"].object_list
    assert [candidate["profile"].pk for candidate in candidates] == [results[2].pk]


def test_runs_of_one_model_show_their_titles_and_options(client, results):
    for profile, title, options in (
        (results[0], "before", {}),
        (results[1], "after the update", {"fast_run": True, "iter": 10}),
    ):
        task = profile.attempt.task
        type(task).objects.filter(pk=task.pk).update(title=title, options=options)
    chooser = client.get(address(results[2])).text
    selection = client.get(address(results[1])).text
    page = client.get(address(*results[:2])).text
    for text in (chooser, selection, page):
        assert "after the update" in text
        assert "--fast_run</code>" in text
        assert "--iter" not in text.partition('id="facts"')[0]


def test_the_chooser_searches_model_device_and_version(client, results):
    for profile, name in zip(results, ("net.mge", "other.mge", "third.mge"), strict=True):
        profile.attempt.task.files.filter(kind="model").update(name=name)
        type(profile.attempt.task.worker).objects.update(name="desk")
    for find, expected in {
        "other": [1], "OTHER.mge": [1], "desk": [2, 1, 0], "1.13 net": [0], "nothing": [],
    }.items():  # fmt: skip
        page = client.get("/profiles/compare/", {"find": find})
        numbers = [candidate["profile"].pk for candidate in page.context["page"].object_list]
        assert numbers == [results[n].pk for n in expected], find


def test_the_chooser_searches_dates_and_task_numbers(client, results):
    task = results[1].attempt.task
    day = task.created_at.strftime("%Y-%m-%d")

    def count(find):
        return len(client.get("/profiles/compare/", {"find": find}).context["page"].object_list)

    assert (count(day), count(day[:7]), count("1999-01"), count("2026-99")) == (3, 3, 0, 0)
    assert [count(period) for period in ("0000-01", "9999-12", "9999-12-31")] == [0, 0, 0]
    assert count(f"#{task.pk}") == 1


def test_the_query_string_holds_the_filters(client, pair):
    page = client.get(address(*pair, status="fused", q="layer4", sort="order"))
    rows = page.context["page"].object_list
    assert rows
    assert {row["cells"][0]["status"] for row in rows} == {"fused"}
    assert [row["number"] for row in rows] == sorted(row["number"] for row in rows)
    assert "status=fused" in page.context["export_address"]
    assert client.get(address(*pair, q="no such thing")).context["page"].object_list == []


def test_an_invalid_parameter_is_ignored_with_a_message(client, pair):
    for name, value in (
        ("side", "gpu"), ("sort", "speed"), ("status", "lost"), ("min", "much"), ("rows", "some"),
        ("with", "9"), ("by", "colour"), ("by", "%"), ("page", "first"), ("page", "-5"),
        ("row", "999999"), ("graph", "2"), ("at", "-1"),
    ):  # fmt: skip
        page = client.get(address(*pair, **{name: value}))
        assert page.status_code == 200, name
        assert f"“{value}” is not a valid value of “{name}” and was ignored." in page.text


def test_a_page_number_that_is_too_large_shows_the_last_page_with_a_message(client, pair):
    text = client.get(address(*pair, page=99)).text
    assert "Page 99 does not exist. This is the last page." in text
    assert 'id="address-problems"' not in client.get(address(*pair, page=1)).text
    chooser = client.get(address(pair[0], choose=1, page="x")).text
    assert "“x” is not a valid value of “page” and was ignored." in chooser


def test_the_link_that_removes_a_result_has_only_valid_parameters(client, results):
    page = client.get(address(*results, graph=2, **{"with": 2}))
    remaining = client.get("/profiles/compare/?" + page.context["runs"][1]["remove"])
    assert remaining.context["problems"] == []


def test_all_times_of_a_table_have_one_unit(client, results):
    page = client.get(address(*results, rows="all", row=0))
    rows = page.context["page"].object_list
    times = [row["base"] for row in rows] + [row["cells"][0].get("time", "") for row in rows]
    steps = [step["total"] for step in page.context["waterfall"]["steps"]]
    totals = [cell["time"] for row in page.context["totals"]["rows"] for cell in row["cells"]]
    assert len(times) > 50
    units = (
        page.context["unit"],
        page.context["waterfall"]["unit"],
        page.context["totals"]["unit"],
    )
    assert units == ("ms",) * 3
    for number in filter(None, times + steps + totals):
        assert len(number.replace(".", "").lstrip("0")) <= 3
        assert float(number) == 0 or float(number) >= 0.001  # the resolution of the clock


@pytest.mark.exhaustive
def test_thousands_of_rows_are_paginated(client, alice):
    profile = make_result(good_profile("deep_loop"), owner=alice)
    small = make_result(good_profile("tiny"), owner=alice)
    page = client.get(address(profile, small, rows="all"))
    assert len(page.context["page"].object_list) == 100
    assert page.context["page"].paginator.count > 5300
    last = client.get(address(profile, small, rows="all", page=99999))
    assert not last.context["page"].has_next()


def test_a_selected_row_lists_its_operators_on_both_sides(client, pair):
    row = client.get(address(*pair)).context["page"].object_list[0]["number"]
    selected = client.get(address(*pair, row=row)).context["selected"]
    types = [[operator["type"] for operator in side["operators"]] for side in selected["profiles"]]
    assert "ConvBiasForward" in types[1]
    assert {"ConvolutionForward", "BatchNormForward"} <= set(types[0])
    assert selected["profiles"][1]["how"]


def test_an_operator_of_the_graph_selects_its_row(client, pair):
    graph_row = client.get(address(*pair, row=3)).context["selected"]["graph_row"]
    selected = client.get(address(*pair, at=graph_row)).context["selected"]
    assert selected["number"] == 3


def test_the_graph_is_coloured_by_the_difference(client, pair):
    context = client.get(address(*pair)).context
    document = json.loads(client.get(context["change_document"]).content)
    assert document["view"]["scale"]["prefix"] == "delta"
    assert document["view"]["scale"]["metric"] == "change"
    baseline = client.get(address(*pair, graph=0)).context["change_document"]
    assert len(json.loads(client.get(baseline).content)["view"]["rows"]) != len(
        document["view"]["rows"]
    )


def test_the_graph_follows_the_result_that_is_compared(client, results):
    page = client.get(address(*results)).context
    of_b = page["graph"][1]["address"]
    to_c = client.get(f"/profiles/compare/?{of_b}").context["waterfall"]["others"][1]["address"]
    choices = client.get(f"/profiles/compare/?{to_c}").context["graph"]
    assert [(each["letter"], each["is_current"]) for each in choices] == [("A", False), ("C", True)]


def timelines(client, *profiles, **query):
    query = {"p": [profile.pk for profile in profiles]} | query
    return client.get("/api/v1/profiles/compare/timelines/", query)


def test_timelines_of_two_results_join_the_operators_of_a_row(client, results):
    data = timelines(client, *results[:2]).json()
    assert [(lane["letter"], lane["side"]) for lane in data["lanes"]] == [
        ("A", "device"),
        ("B", "device"),
    ]
    assert data["span"] > max(data["start"])
    lanes_of = {}
    bar_of = [bar for bar, count in enumerate(data["count"]) for _ in range(count)]
    for place, row in enumerate(data["rows"]):
        lanes_of.setdefault(row, set()).add(data["lane"][bar_of[place]])
    fused = client.get(address(*results[:2])).context["page"].object_list[0]
    assert lanes_of[fused["number"]] == {0, 1}
    place = data["numbers"].index(fused["number"])
    assert data["names"][place] == fused["label"]
    assert data["other_s"][place] - data["baseline_s"][place] == pytest.approx(0.003862)
    assert "Span of A" in data["sentence"]
    # another result, side and range
    third = timelines(client, *results, **{"with": 2, "side": "host", "from": 0, "to": 1}).json()
    assert {(lane["letter"], lane["side"]) for lane in third["lanes"]} == {
        ("A", "host"),
        ("C", "host"),
    }
    assert len(third["start"]) < len(data["start"])


def test_timelines_refuse_what_a_comparison_refuses(client, pair):
    foreign = make_result(good_profile("tiny"), owner=make_user("carol"))
    assert timelines(client, pair[0], foreign).status_code == 404
    assert timelines(client, pair[0], pair[0]).status_code == 422
    assert timelines(client, *pair, **{"from": 5}).json()["code"] == "window_bad"


def test_csv_has_the_filtered_rows(client, pair):
    page = client.get(address(*pair, status="fused"))
    response = client.get(f"{EXPORT}csv/?{page.context['export_address']}")
    rows = list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"))))
    assert len(rows) == 17
    assert {row["B_status"] for row in rows} == {"fused"}
    assert float(rows[0]["B_difference_s"]) == pytest.approx(0.003862)
    assert "attachment" in response["Content-Disposition"]


def test_json_has_facts_warnings_and_samples(client, results):
    response = client.get(f"{EXPORT}json/?{address(*results, rows='all').split('?')[1]}")
    document = json.loads(response.content)
    assert [profile["letter"] for profile in document["profiles"]] == ["A", "B", "C"]
    total = document["profiles"][1]["total_s"] - document["profiles"][0]["total_s"]
    assert sum(row["others"][0]["difference_s"] for row in document["rows"]) == pytest.approx(total)
    assert document["warnings"]
    assert len(document["rows"][0]["baseline"]["samples_s"]) == 1


def test_csv_escapes_names_that_are_formulas(client, alice):
    data = good_profile("tiny").replace(b"ADD(const<1>[4],MUL)[17]", b"=HYPERLINK(1)")
    profiles = [make_result(content, owner=alice) for content in (data, good_profile("tiny"))]
    query = address(*profiles, rows="all").split("?")[1]
    rows = csv.DictReader(
        io.StringIO(client.get(f"{EXPORT}csv/?{query}").content.decode("utf-8-sig"))
    )
    assert "'=HYPERLINK(1)" in [row["operator"] for row in rows]


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (6e-6 - 5e-6, "+1 µs"),
        (0.1 + 0.2 - 0.3, "0 µs"),
        (-2.5e-3, "−2.50 ms"),
        (0.0, "0 s"),
        (-4e-7, "< 1 µs"),
        (math.nan, "–"),
    ],
)
def test_a_difference_of_rounding_is_zero(value_s, text):
    assert signed_time(value_s) == text
    assert [change_texts(x, math.nan, math.nan)[0] for x in (0.0004, -0.0004)] == ["0.0", "0.0"]


@pytest.mark.parametrize(
    ("ratios", "texts"),
    [
        ((-0.071, -0.071, 0.37), ("−7.1", "−7.2", "+37.0")),
        ((7.62, 0.5, 35.24), ("+762", "+50.0", "+3530")),
        ((-0.9999, -0.99999, -0.99), ("−99.9", "−100", "−99.0")),
        ((0.0, -0.0001, 0.0001), ("0.0", "−0.1", "+0.1")),
        ((0.25, math.nan, math.nan), ("+25.0", "", "")),
        ((math.nan, math.nan, math.nan), ("", "", "")),
    ],
)
def test_a_change_and_its_interval_have_one_form_and_the_change_is_inside(ratios, texts):
    assert change_texts(*ratios) == texts


def test_invalid_times_give_a_warning_and_valid_exports(client, alice):
    contents = (with_end_times("tiny", "inf", "nan"), good_profile("tiny"))
    profiles = [make_result(content, owner=alice) for content in contents]
    for pair in (profiles, profiles[::-1]):
        page = client.get(address(*pair, rows="all"))
        assert page.status_code == 200
        assert "One of the totals is unknown" in page.text
        export = client.get(f"{EXPORT}json/?{address(*pair).split('?')[1]}")
        assert json.loads(export.content)["profiles"]


def test_the_command_prints_steps_and_rows(capsys):
    files = [str(DATA / "profiles" / f"{name}.json") for name in ("resnet18", "resnet18_opt")]
    call_command("compare_profiles", *files, "-t", "3")
    out = capsys.readouterr().out
    assert "layer3.1.conv2 · conv" in out
    assert "+3.86 " in out
    assert "not enough evidence: one pass" in out
    call_command("compare_profiles", *files, "--all", "-t", "0")
    assert "bn1 · batch_norm" in capsys.readouterr().out
    call_command("compare_profiles", *files, "--json", "--all", "-t", "0")
    rows = json.loads(capsys.readouterr().out)
    assert sum(row["difference_s"][0] for row in rows) == pytest.approx(0.009702)


def test_the_command_shows_no_control_characters_of_file_names(capsys, tmp_path):
    file = tmp_path / "a\x1b[2Jb.json"
    file.write_bytes(good_profile("tiny"))
    call_command("compare_profiles", str(file), str(file))
    assert "a\ufffd[2Jb.json" in capsys.readouterr().out


def test_the_command_requires_two_readable_profiles(tmp_path):
    with pytest.raises(CommandError) as caught:
        call_command("compare_profiles", "one.json")
    assert caught.value.returncode == 2
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(SystemExit):
        call_command("compare_profiles", str(tmp_path / "bad.json"), str(tmp_path / "bad.json"))
