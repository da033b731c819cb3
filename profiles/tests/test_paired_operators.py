"""Operators of paired comparisons: which made an arm slower, in the API, on pages and in charts."""

import json
import re

import pytest

from profiles.models import PairedResult, Profile, Share
from profiles.sharing import create_share
from profiles.tests.make import SAME, SLOWER, make_paired_task, operator_files
from profiles.tests.pages import whole_page
from tasks.tests.make import make_user
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.database]

#: A takes 10 ms, and B is slower by 10 %, i.e. 1 ms
BASE = {"1": 2000.0, "2": 4000.0, "3": 3990.0, "4": 2.0}
CHANGED = BASE | {"2": 4800.0}


@pytest.fixture
def alice(storage):
    return make_user("alice")


def operators_of(task) -> dict:
    (arm,) = (
        caller(task.owner).get(f"/api/v1/profiles/of-task/{task.pk}/pairs/").json()["operators"]
    )
    return arm


def charts_of(task) -> str:
    return f"/api/v1/profiles/{Profile.objects.get(attempt__task=task).pk}"


def test_the_slower_operator_is_named_with_its_share_of_the_difference(alice):
    task = make_paired_task(SLOWER, owner=alice, operators=operator_files(BASE, CHANGED))
    arm = operators_of(task)
    # the operator of 2 µs takes less than 0.1 % of the total
    assert (arm["letter"], arm["pairs"], arm["tested"]) == ("B", 20, 3)
    (named,) = arm["named"]
    assert (named["name"], named["rows"], named["status"]) == ("op2", [1], "same")
    assert named["differs"]
    assert named["effect"] == pytest.approx(0.2, abs=0.01)
    assert named["low"] < 0.2 < named["high"]
    assert named["q"] < 0.001
    assert named["delta_us"] == pytest.approx(800, abs=30)
    assert arm["share"] == pytest.approx(0.8, abs=0.03)
    assert [row["differs"] for row in arm["operators"]] == [True, False, False]


def test_no_operator_of_equal_arms_differs(alice):
    task = make_paired_task(SAME, owner=alice, operators=operator_files(BASE, BASE))
    arm = operators_of(task)
    assert (arm["named"], arm["share"]) == ([], None)
    assert not any(row["differs"] for row in arm["operators"])


def test_at_most_five_operators_are_named_the_largest_first(alice):
    base = {str(number): 1000.0 for number in range(9)}
    changed = {key: us * (1.1 + int(key) / 10) for key, us in base.items()}
    task = make_paired_task(SLOWER, owner=alice, operators=operator_files(base, changed))
    named = operators_of(task)["named"]
    assert [row["name"] for row in named] == ["op8", "op7", "op6", "op5", "op4"]


def test_faster_operators_do_not_explain_why_an_arm_is_slower(alice):
    changed = CHANGED | {"1": 1500.0}
    task = make_paired_task(SLOWER, owner=alice, operators=operator_files(BASE, changed))
    assert [row["name"] for row in operators_of(task)["named"]] == ["op2"]


def test_an_operator_that_only_one_arm_has_differs(alice):
    changed = {key: us for key, us in BASE.items() if key != "1"} | {"9": 2500.0}
    files = operator_files(BASE, changed)
    other = json.loads(files["profile-b.json"])
    other["graph_exec"]["operator"]["9"]["type"] = "MatrixMul"
    files["profile-b.json"] = json.dumps(other).encode()
    rows = {row["name"]: row for row in operators_of(
        make_paired_task(SLOWER, owner=alice, operators=files)
    )["operators"]}  # fmt: skip
    assert (rows["op9"]["status"], rows["op9"]["differs"], rows["op9"]["rows"]) == ("new", True, [])
    assert (rows["op9"]["effect"], rows["op9"]["base_us"], rows["op9"]["q"]) == (None, None, None)
    assert rows["op9"]["delta_us"] == pytest.approx(2500, abs=50)
    assert (rows["op1"]["status"], rows["op1"]["other_us"]) == ("gone", None)
    assert rows["op1"]["delta_us"] == pytest.approx(-2000, abs=50)


@pytest.mark.parametrize("name", ["profile.json", "profile-b.json", "paired_operators.json"])
def test_a_comparison_without_usable_profiles_keeps_its_verdict(alice, name):
    files = operator_files(BASE, CHANGED)
    if name == "paired_operators.json":
        del files[name]
    else:
        files[name] = b"{"
    task = make_paired_task(SLOWER, owner=alice, operators=files)
    answer = caller(alice).get(f"/api/v1/profiles/of-task/{task.pk}/pairs/").json()
    assert [row["verdict"] for row in answer["verdicts"]] == ["slower"]
    assert answer["operators"] == []


@pytest.mark.parametrize(
    "changes",
    [{"pairs": [0]}, {"pairs": [-1] * 20}, {"arms": [{"ids": ["1"], "us": [[1.0, 2.0]] * 20}] * 2}],
    ids=str,
)
def test_times_that_do_not_fit_fail_the_task(alice, changes):
    files = operator_files(BASE, CHANGED)
    times = json.loads(files["paired_operators.json"]) | changes
    files["paired_operators.json"] = json.dumps(times).encode()
    task = make_paired_task(SLOWER, owner=alice, operators=files)
    assert task.reason == "measurement_unreadable"
    assert not PairedResult.objects.exists()


@pytest.mark.parametrize(
    ("language", "title", "share"),
    [
        ("en", "What made B slower", "This operator explains {share:.0f} % of the difference"),
        ("zh-hans", "使 B 变慢的算子", "以下算子可解释单次迭代耗时差异的 {share:.0f} %"),
    ],
)
def test_page_names_the_operator_and_links_it_to_the_table(client, alice, language, title, share):
    task = make_paired_task(SLOWER, owner=alice, operators=operator_files(BASE, CHANGED))
    client.force_login(alice)
    text = whole_page(client, f"/tasks/{task.pk}/", language)
    assert title in text
    assert share.format(share=100 * operators_of(task)["share"]) in text
    assert f'href="/tasks/{task.pk}/operators/?op=1"' in text
    assert text.count("<strong>yes</strong>" if language == "en" else "<strong>是</strong>") == 1
    # table, timeline and graph of the baseline's profile are coloured
    assert 'data-baseline="' in text
    assert 'data-changes="' in text
    assert '<option value="device:change">' in text


def test_page_says_if_no_operator_differs(client, alice):
    task = make_paired_task(SAME, owner=alice, operators=operator_files(BASE, BASE))
    client.force_login(alice)
    text = whole_page(client, f"/tasks/{task.pk}/")
    assert "20 pairs with profiled turns show no operator whose time differs." in text


def test_page_says_if_the_operators_that_differ_do_not_explain_the_verdict(client, alice):
    task = make_paired_task(SLOWER, owner=alice, operators=operator_files(CHANGED, BASE))
    client.force_login(alice)
    text = whole_page(client, f"/tasks/{task.pk}/")
    assert "The operators that differ do not explain the verdict" in text
    assert "no operator whose time differs" not in text


def test_charts_have_the_differences_of_the_first_other_arm(alice):
    task = make_paired_task(SLOWER, owner=alice, operators=operator_files(BASE, CHANGED))
    client = caller(alice)
    chart = client.get(f"{charts_of(task)}/charts/baseline/").json()
    assert chart["clear"] == [False, True, False, False]
    assert chart["us"][1] == pytest.approx(800, abs=30)
    assert chart["us"][3] is None
    graph = client.get(f"{charts_of(task)}/graph/netron/", {"colour": "change"}).json()
    assert "delta8" in json.dumps(graph)


def test_other_profiles_have_no_differences_of_arms(alice):
    files = {"profile.json": operator_files(BASE, BASE)["profile.json"]}
    task = make_paired_task(SLOWER, owner=alice, operators=files)
    client = caller(alice)
    expect_problem(client.get(f"{charts_of(task)}/charts/baseline/"), 404, "baseline_none")
    netron = client.get(f"{charts_of(task)}/graph/netron/", {"colour": "change"})
    expect_problem(netron, 404, "pairs_unprofiled")


def test_filters_of_the_server_show_the_operators_of_a_paired_comparison(client, alice):
    task = make_paired_task(SLOWER, owner=alice, operators=operator_files(BASE, CHANGED))
    client.force_login(alice)
    page = client.get(f"/tasks/{task.pk}/operators/").text
    more = re.search(r'href="([^"]+)" id="more-filters"', page)[1]
    form = client.get(more).text
    sent = re.search(r'id="table-form" method="get" action="([^"]+)"', form)[1]
    table = client.get(f"{sent}?rows=1").text
    assert table.count("<tr data-row=") == 1
    operator = re.search(r'href="([^"]+/operators/\d+/[^"]*)"', table)[1].replace("&amp;", "&")
    back = re.search(r'class="crumb"><a href="([^"]+)"', client.get(operator).text)[1]
    assert client.get(back.replace("&amp;", "&")).text.count("<tr data-row=") == 1


def test_a_shared_page_speaks_of_colours_only_where_it_has_them(client, alice):
    task = make_paired_task(SLOWER, owner=alice, operators=operator_files(BASE, CHANGED))
    _, token = create_share(alice, kind=Share.Kind.TASK, ids=[task.pk], parts=())
    colours = "The colours show how B differs from A"
    has = {
        view: colours in client.get(f"/s/{token}/{view}/?part=1").text
        for view in ("operators", "timeline", "graph")
    }
    assert has == {"operators": False, "timeline": False, "graph": True}
