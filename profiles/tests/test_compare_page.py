"""The comparison page: choosing results, filters, verdicts, exports, and invalid requests."""

import csv
import io
import json

import pytest
from cachetools import LRUCache
from django.core.management import call_command
from django.core.management.base import CommandError

from profiles.comparison import loading
from profiles.comparison.history import evidence_of
from profiles.comparison.messages import signed, signed_percent
from profiles.models import Profile
from profiles.tests.graph_edits import compiled_profile, profile_of, to_bytes
from profiles.tests.imports import make_import
from profiles.tests.pages import add_measurement, make_equal_runs, make_result
from profiles.tests.passes import another_pass
from tasks.tests.make import make_user, make_worker
from testdata import DATA, good_profile

pytestmark = pytest.mark.django_db


@pytest.fixture
def related(alice):
    """Results of resnet18, of the optimized resnet18, and of resnet18 with other shapes."""
    names = ("resnet18", "resnet18_opt", "resnet18_fbs1")
    return [make_result(good_profile(name), owner=alice) for name in names]


EXPORT = "/api/v1/profiles/compare/export/"


def address(*profiles, **more):
    parts = [f"p={getattr(profile, 'pk', profile)}" for profile in profiles]
    return "/profiles/compare/?" + "&".join([*parts, *(f"{k}={v}" for k, v in more.items())])


def text_of(response):
    return response.content.decode()


def test_a_fusion_is_shown_with_what_became_of_it_and_of_its_time(client, related):
    page = client.get(address(*related[:2]))
    text = text_of(page)
    assert "ConvolutionForward + BatchNormForward + Elemwise RELU → ConvBiasForward" in text
    first = page.context["page"].object_list[0]
    assert (first["cells"][0]["status"], first["cells"][0]["delta"]) == ("fused", "+3.862 ms")
    assert first["cells"][0]["verdict"]["word"] == "not enough evidence: one sample"
    assert page.context["totals"][0]["cells"][1]["delta"] == "+9.702 ms"
    steps = page.context["waterfall"]["steps"]
    assert [steps[0]["total"], steps[-1]["total"]] == ["13.75 ms", "23.45 ms"]


#: device totals of the passes of five equal runs that differ by 1 %, s
EQUAL_RUNS = [[0.01375 * (1 + run / 400)] * 5 for run in range(5)]


@pytest.fixture
def slower(alice):
    """Results of resnet18 and of a slower variant, five passes each, undisturbed."""
    return [
        make_result(data, *(another_pass(data, seed) for seed in range(4)), owner=alice)
        for data in map(good_profile, ("resnet18", "resnet18_opt"))
    ]


def tones(page) -> set[str]:
    """Return the tones of all verdicts and waterfall steps on a comparison page."""
    context = page.context
    cells = [row["cells"][0] for row in context["page"].object_list]
    cells += [row["cells"][1] for row in context["totals"]]
    cell_tones = {cell["verdict"]["tone"] for cell in cells if cell.get("verdict")}
    return cell_tones | {step["tone"] for step in context["waterfall"]["steps"]}


@pytest.mark.parametrize("by", ["row", "type", "scope"])
def test_with_passes_and_equal_runs_the_page_says_what_is_slower(client, slower, by):
    make_equal_runs(slower[0], *EQUAL_RUNS)
    page = client.get(address(*slower, by=by))
    words = [row["cells"][0]["verdict"]["word"] for row in page.context["page"].object_list]
    assert "slower" in words
    assert "95 %" in text_of(page)
    assert "slower" in tones(page)
    total = page.context["totals"][0]["cells"][1]["verdict"]
    assert (total["code"], total["tone"]) == ("slower", "slower")
    assert "Equal runs on this device may differ by 2.6 %" in page.context["totals_notes"][0]
    assert [s["tone"] for s in page.context["waterfall"]["steps"]].count("slower") >= 1


def test_without_equal_runs_nothing_gets_a_verdict_and_the_page_says_what_to_do(client, slower):
    page = client.get(address(*slower))
    assert tones(page) == {""}
    total = page.context["totals"][0]["cells"][1]["verdict"]
    assert total["word"] == "not enough evidence: scatter of equal runs unknown"
    (advice,) = [warning for warning in page.context["warnings"] if "is not known yet" in warning]
    assert "Run the same task there 5 times without disturbance" in advice


def test_verdicts_change_with_the_runs_of_the_device_and_not_without(client, slower, monkeypatch):
    calls = []
    judged = loading.judged
    monkeypatch.setattr(loading, "judged", lambda *arguments: calls.append(1) or judged(*arguments))
    assert tones(client.get(address(*slower))) == {""}
    make_equal_runs(slower[0], *EQUAL_RUNS)
    assert "slower" in tones(client.get(address(*slower)))
    assert "slower" in tones(client.get(address(*slower, by="type")))
    assert len(calls) == 2


def test_a_comparison_larger_than_all_that_is_kept_stays_until_another_is_made(
    client, related, monkeypatch
):
    monkeypatch.setattr(loading, "_MOST_KEPT", 1)
    monkeypatch.setattr(loading._align, "cache", LRUCache(1, getsizeof=loading._size))
    calls = []
    align = loading.align_profiles
    monkeypatch.setattr(loading, "align_profiles", lambda data: calls.append(1) or align(data))
    for expected, chosen in [
        (1, related[:2]),
        (1, related[:2]),
        (2, related[1:]),
        (3, related[:2]),
    ]:
        assert client.get(address(*chosen)).status_code == 200
        assert len(calls) == expected


def test_more_equal_runs_take_no_more_queries(slower, django_assert_num_queries):
    profiles = list(Profile.objects.select_related("attempt__task", "attempt__measurement"))
    make_equal_runs(slower[0], *EQUAL_RUNS)
    with django_assert_num_queries(4):  # for runs and for files, then for the files of both tasks
        evidence = evidence_of(profiles)
    assert evidence[0].scatter["device"] is not None


def test_too_few_or_disturbed_equal_runs_tell_nothing(client, slower):
    make_equal_runs(slower[0], *EQUAL_RUNS[:4])
    make_equal_runs(slower[0], *EQUAL_RUNS, contaminations=[{"code": "hot", "detail": ""}])
    assert tones(client.get(address(*slower))) == {""}


@pytest.mark.parametrize("which", [0, 1])
def test_a_disturbed_run_gets_figures_and_the_reason_but_no_verdict(client, slower, which):
    make_equal_runs(slower[0], *EQUAL_RUNS)
    add_measurement(slower[which], contaminations=[{"code": "hot", "detail": "93 °C"}])
    page = client.get(address(*slower, rows="all"))
    letter = "AB"[which]
    warnings = page.context["warnings"]
    assert any(w.startswith(f"{letter} was disturbed: the device was hot") for w in warnings)
    assert tones(page) == {""}
    cells = [row["cells"][0] for row in page.context["page"].object_list]
    assert {c["verdict"]["code"] for c in cells if c.get("verdict")} <= {"disturbed", "absent"}
    assert all("time" not in cell.get("reasons", "") for cell in cells)
    total = page.context["totals"][0]["cells"][1]
    assert total["verdict"]["word"] == "no verdict: a run was disturbed"
    assert total["delta"].startswith("+")


def test_latency_of_one_process_gets_no_verdict(client, slower):
    for profile, median_ms in zip(slower, (10.0, 20.0), strict=True):
        clean = {"kind": "clean", "kept": True, "median_ms": median_ms}
        add_measurement(profile, median_ms=median_ms, passes=[clean])
    page = client.get(address(*slower))
    latency = next(row for row in page.context["totals"] if row["key"] == "latency")
    assert latency["cells"][1]["verdict"]["code"] == "single"
    assert latency["cells"][1]["delta"] == "+10.00 ms"
    assert "iterations of one process are not independent" in " ".join(page.context["totals_notes"])


def test_another_device_has_equal_runs_of_its_own(client, slower):
    make_equal_runs(slower[0], *EQUAL_RUNS)
    elsewhere = make_worker("elsewhere")
    slower[1].attempt.task.attempts.update(worker=elsewhere)
    assert tones(client.get(address(*slower))) == {""}


def test_a_comparison_makes_few_queries_however_many_equal_runs_there_are(
    client, slower, django_assert_max_num_queries
):
    make_equal_runs(slower[0], *EQUAL_RUNS * 3)
    client.get(address(*slower))
    with django_assert_max_num_queries(16):
        client.get(address(*slower))


def test_the_first_result_is_the_baseline_and_another_can_be_made_it(client, related):
    page = client.get(address(*related[:2]))
    runs = page.context["runs"]
    assert [run["is_baseline"] for run in runs] == [True, False]
    turned = client.get("/profiles/compare/?" + runs[1]["as_baseline"])
    assert [run["profile"].pk for run in turned.context["runs"]] == [related[1].pk, related[0].pk]
    assert turned.context["page"].object_list[0]["cells"][0]["status"] == "split"


def test_other_inputs_are_warned_of(client, related):
    page = client.get(address(related[0], related[2]))
    assert any("1,3,64,64" in warning for warning in page.context["warnings"])
    inputs = next(fact for fact in page.context["facts"] if fact.name == "Inputs")
    assert inputs.differs
    assert inputs.values == ("data {1,3,224,224}", "data {1,3,64,64}")


def test_models_without_a_common_operator_are_told_so(client, alice):
    profiles = [make_result(good_profile(name), owner=alice) for name in ("bert_tiny", "tiny")]
    page = client.get(address(*profiles))
    assert "B and the baseline have no operator in common" in text_of(page)
    assert 'id="waterfall"' not in text_of(page)
    assert page.status_code == 200


def test_an_opened_profile_can_be_compared_with_a_task(client, alice, related):
    upload = make_import(alice, compiled_profile("resnet18_opt__profile"), name="elsewhere.json")
    page = client.get(address(related[1], upload.profile))
    assert [run["title"] for run in page.context["runs"]][1] == "elsewhere.json"
    assert page.context["filter"]["statuses"][0]["count"] > 70  # same


@pytest.mark.parametrize("strange", ["99999", "abc", "-1", "1e3", "%00"])
def test_what_is_not_there_for_the_reader_is_not_found(client, related, strange):
    assert client.get(address(related[0], strange)).status_code == 404


def test_a_strangers_result_does_not_exist(client, related):
    theirs = make_result(good_profile("tiny"), owner=make_user("carol"))
    for path in (address(related[0], theirs), address(theirs)):
        assert client.get(path).status_code == 404
    export = "/api/v1" + address(related[0], theirs).replace("compare/", "compare/export/csv/")
    assert client.get(export).status_code == 404


def test_a_result_is_not_compared_with_itself(client, related):
    page = client.get(address(related[0], related[0]))
    assert page.status_code == 400
    assert "chosen twice" in text_of(page)
    assert page.context["kept"] == [related[0].pk]


def test_more_than_eight_results_are_too_many(client, alice):
    profiles = [make_result(good_profile("tiny"), owner=alice) for _ in range(9)]
    page = client.get(address(*profiles))
    assert page.status_code == 400
    assert "At most 8 results" in text_of(page)
    assert len(client.get(address(*profiles[:8])).context["runs"]) == 8


def test_results_that_are_too_large_together_are_refused_with_a_way_out(
    client, related, monkeypatch
):
    monkeypatch.setattr(loading, "MOST_OPERATORS", 200)
    page = client.get(address(*related[:2]))
    assert page.status_code == 422
    assert "249 operators" in text_of(page)
    assert "manage.py compare_profiles" in text_of(page)


def test_the_chooser_offers_runs_of_the_same_model_first(client, related, alice):
    related[0].attempt.task.files.filter(kind="model").update(md5="1" * 32, name="net.mge")
    related[1].attempt.task.files.filter(kind="model").update(md5="2" * 32, name="other.mge")
    related[2].attempt.task.files.filter(kind="model").update(md5="1" * 32, name="copy.mge")
    page = client.get(address(related[0]))
    assert "One more result is needed" in text_of(page)
    offered = page.context["page"].object_list
    assert [(candidate.profile.pk, candidate.kin) for candidate in offered] == [
        (related[2].pk, "same_file"),
        (related[1].pk, ""),
    ]


def test_runs_of_one_model_are_told_apart_by_title_and_options(client, related):
    for profile, title, options in (
        (related[0], "before", {}),
        (related[1], "after the update", {"fast_run": True, "iter": 10}),
    ):
        task = profile.attempt.task
        type(task).objects.filter(pk=task.pk).update(title=title, options=options)
    chooser = text_of(client.get(address(related[2])))
    chosen = text_of(client.get(address(related[1])))
    page = text_of(client.get(address(*related[:2])))
    for text in (chooser, chosen, page):
        assert "after the update" in text
        assert "--fast_run</code>" in text
        assert "--iter" not in text.partition('id="facts"')[0]


@pytest.mark.parametrize(
    ("find", "expected"),
    [("other", [1]), ("OTHER.mge", [1]), ("desk", [2, 1, 0]), ("1.13 net", [0]), ("nothing", [])],
)
def test_the_chooser_searches(client, related, find, expected):
    for profile, name in zip(related, ("net.mge", "other.mge", "third.mge"), strict=True):
        profile.attempt.task.files.filter(kind="model").update(name=name)
        type(profile.attempt.task.worker).objects.update(name="desk")
    page = client.get("/profiles/compare/", {"find": find})
    numbers = [candidate.profile.pk for candidate in page.context["page"].object_list]
    assert numbers == [related[n].pk for n in expected]


def test_the_chooser_finds_days_and_tasks(client, related):
    task = related[1].attempt.task
    day = task.created_at.strftime("%Y-%m-%d")

    def count(find):
        return len(client.get("/profiles/compare/", {"find": find}).context["page"].object_list)

    assert (count(day), count(day[:7]), count("1999-01"), count("2026-99")) == (3, 3, 0, 0)
    assert [count(period) for period in ("0000-01", "9999-12", "9999-12-31")] == [0, 0, 0]
    assert count(f"#{task.pk}") == 1


def test_filters_live_in_the_address(client, related):
    page = client.get(address(*related[:2], status="fused", q="layer4", sort="order"))
    rows = page.context["page"].object_list
    assert rows
    assert {row["cells"][0]["status"] for row in rows} == {"fused"}
    assert [row["number"] for row in rows] == sorted(row["number"] for row in rows)
    assert "status=fused" in page.context["export_address"]
    assert client.get(address(*related[:2], q="no such thing")).context["page"].object_list == []


@pytest.mark.parametrize(
    "strange",
    [{"sort": "x"}, {"min": "abc"}, {"page": "-5"}, {"row": "99999"}, {"with": "7"}, {"by": "%"}],
)
def test_strange_parameters_change_nothing(client, related, strange):
    assert client.get(address(*related[:2], **strange)).status_code == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("side", "gpu"),
        ("sort", "speed"),
        ("status", "lost"),
        ("min", "much"),
        ("rows", "some"),
        ("with", "9"),
        ("by", "colour"),
        ("page", "first"),
        ("row", "999999"),
        ("graph", "2"),
        ("at", "-1"),
    ],
)
def test_what_an_address_cannot_ask_for_is_told(client, related, name, value):
    text = text_of(client.get(address(*related[:2], **{name: value})))
    assert f"“{value}” is no choice of “{name}” and was left out." in text


def test_a_page_that_is_not_there_is_told_and_the_last_one_shown(client, related):
    text = text_of(client.get(address(*related[:2], page=99)))
    assert "There is no page 99: this is the last one." in text
    assert 'id="address-problems"' not in text_of(client.get(address(*related[:2], page=1)))
    chooser = text_of(client.get(address(related[0], choose=1, page="x")))
    assert "“x” is no choice of “page” and was left out." in chooser


def test_taking_a_result_out_leaves_nothing_wrong_in_the_address(client, related):
    page = client.get(address(*related, graph=2, **{"with": 2}))
    shorter = client.get("/profiles/compare/?" + page.context["runs"][1]["remove"])
    assert shorter.context["problems"] == []


def test_all_times_of_a_table_have_one_unit(client, related):
    page = client.get(address(*related, rows="all", row=0))
    rows = page.context["page"].object_list
    times = [row["base"] for row in rows] + [row["cells"][0].get("time", "–") for row in rows]
    steps = [step["total"] for step in page.context["waterfall"]["steps"]]
    totals = [cell["value"] for row in page.context["totals"] for cell in row["cells"]]
    assert len(times) > 50
    assert {time.split()[-1] for time in times + steps + totals} <= {"ms", "–"}


def test_ten_thousand_rows_come_in_pages(client, alice):
    profile = make_result(good_profile("deep_loop"), owner=alice)
    small = make_result(good_profile("tiny"), owner=alice)
    page = client.get(address(profile, small, rows="all"))
    assert len(page.context["page"].object_list) == 100
    assert page.context["page"].paginator.count > 5300
    last = client.get(address(profile, small, rows="all", page=99999))
    assert not last.context["page"].has_next()


def test_a_selected_row_lists_its_operators_on_both_sides(client, related):
    row = client.get(address(*related[:2])).context["page"].object_list[0]["number"]
    selected = client.get(address(*related[:2], row=row)).context["selected"]
    types = [[operator["type"] for operator in side["operators"]] for side in selected["profiles"]]
    assert "ConvBiasForward" in types[1]
    assert {"ConvolutionForward", "BatchNormForward"} <= set(types[0])
    assert selected["profiles"][1]["how"]


def test_the_row_of_an_operator_of_the_graph_is_selected(client, related):
    chosen = client.get(address(*related[:2], row=3)).context["selected"]
    selected = client.get(address(*related[:2], at=chosen["graph_row"])).context["selected"]
    assert selected["number"] == 3


def test_the_graph_is_coloured_by_the_difference(client, related):
    context = client.get(address(*related[:2])).context
    document = json.loads(client.get(context["change_document"]).content)
    assert document["view"]["scale"]["prefix"] == "delta"
    assert document["view"]["scale"]["metric"] == "change"
    baseline = client.get(address(*related[:2], graph=0)).context["change_document"]
    assert len(json.loads(client.get(baseline).content)["view"]["rows"]) != len(
        document["view"]["rows"]
    )


def test_csv_has_the_rows_of_the_filter(client, related):
    page = client.get(address(*related[:2], status="fused"))
    response = client.get(f"{EXPORT}csv/?{page.context['export_address']}")
    rows = list(csv.DictReader(io.StringIO(text_of(response))))
    assert len(rows) == 17
    assert {row["B_status"] for row in rows} == {"fused"}
    assert float(rows[0]["B_difference_s"]) == pytest.approx(0.003862)
    assert "attachment" in response["Content-Disposition"]


def test_json_has_facts_warnings_and_samples(client, related):
    response = client.get(f"{EXPORT}json/?{address(*related, rows='all').split('?')[1]}")
    document = json.loads(response.content)
    assert [profile["letter"] for profile in document["profiles"]] == ["A", "B", "C"]
    total = document["profiles"][1]["total_s"] - document["profiles"][0]["total_s"]
    assert sum(row["others"][0]["difference_s"] for row in document["rows"]) == pytest.approx(total)
    assert document["warnings"]
    assert len(document["rows"][0]["baseline"]["samples_s"]) == 1


def test_a_name_that_is_a_formula_is_no_formula_in_csv(client, alice):
    data = good_profile("tiny").replace(b"ADD(const<1>[4],MUL)[17]", b"=HYPERLINK(1)")
    profiles = [make_result(content, owner=alice) for content in (data, good_profile("tiny"))]
    query = address(*profiles, rows="all").split("?")[1]
    rows = csv.DictReader(io.StringIO(text_of(client.get(f"{EXPORT}csv/?{query}"))))
    assert "'=HYPERLINK(1)" in [row["operator"] for row in rows]


def test_hostile_names_are_shown_as_text(client, alice):
    profiles = [make_result(good_profile("hostile_names"), owner=alice) for _ in range(2)]
    text = text_of(client.get(address(*profiles, rows="all")))
    assert "<script>alert" not in text
    assert "<img src=x" not in text


@pytest.mark.parametrize(
    ("value_s", "text"),
    [(6e-6 - 5e-6, "+1.000 µs"), (0.1 + 0.2 - 0.3, "0 s"), (-2.5e-3, "−2.500 ms"), (0.0, "0 s")],
)
def test_a_difference_shows_nothing_of_its_rounding(value_s, text):
    assert signed(value_s) == text
    assert signed_percent(0.0004) == signed_percent(-0.0004) == "0.0 %"


def test_times_that_are_no_numbers_are_shown_as_missing(client, alice):
    profile = profile_of("tiny")
    for times, value in zip(profile["profiler"]["device"].values(), ("inf", "nan"), strict=False):
        for interval in times.values():
            interval["end"] = value
    odd, even = (make_result(d, owner=alice) for d in (to_bytes(profile), good_profile("tiny")))
    for pair in ((odd, even), (even, odd)):
        page = client.get(address(*pair, rows="all"))
        assert page.status_code == 200
        assert "One of the totals is not known" in text_of(page)
        export = client.get(f"{EXPORT}json/?{address(*pair).split('?')[1]}")
        assert json.loads(export.content)["profiles"]


def test_the_command_tells_steps_and_rows(capsys):
    files = [str(DATA / "profiles" / f"{name}.json") for name in ("resnet18", "resnet18_opt")]
    call_command("compare_profiles", *files, "-t", "3")
    out = capsys.readouterr().out
    assert "layer3.1.conv2.Convolution" in out
    assert "+3.862 ms" in out
    assert "not enough evidence: one sample" in out
    call_command("compare_profiles", *files, "--all", "-t", "0")
    assert "bn1.bias,l…  BatchNorm" in capsys.readouterr().out
    call_command("compare_profiles", *files, "--json", "--all", "-t", "0")
    rows = json.loads(capsys.readouterr().out)
    assert sum(row["difference_s"][0] for row in rows) == pytest.approx(0.009702)


def test_the_command_wants_two_profiles_that_can_be_read(tmp_path):
    with pytest.raises(CommandError):
        call_command("compare_profiles", "one.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(SystemExit):
        call_command("compare_profiles", str(tmp_path / "bad.json"), str(tmp_path / "bad.json"))
