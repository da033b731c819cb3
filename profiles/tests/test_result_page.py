"""The result page: its views, and the table that the server renders."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from django.utils import timezone

from profiles.analysis.numbers import bandwidth, computation, flops, memory, percent, short
from profiles.analysis.select import Query, select
from profiles.analysis.table import rows
from profiles.formats.columns import SIDES
from profiles.formats.load_and_run.reader import parse
from profiles.ingest.loading import profile_data
from profiles.presenters.operator_facts import operator_facts
from profiles.tables.request import PAGE_ROWS
from profiles.tests.imports import make_import
from profiles.tests.make import make_profile, process_attempt, to_json
from profiles.tests.pages import ended_attempt, make_result, whole_page
from profiles.tests.passes import scale_times
from tasks.tests.make import make_user
from testdata import good_profile
from workers.models import LastHeartbeat

pytestmark = pytest.mark.django_db

SCRIPTS = Path(__file__).parents[2] / "static" / "js"
#: more than one page of rows
MANY = 250
MANY_TIMES = {str(number): (MANY - number) * 1e-6 for number in range(MANY)}


@pytest.fixture(scope="module")
def made(module_data):
    """A user and the results of two models, which no test changes."""
    alice = make_user()
    return alice, *(make_result(good_profile(name), owner=alice) for name in ("resnet18", "tiny"))


@pytest.fixture
def alice(client, made, db):
    client.force_login(made[0])
    # the device of these results runs those of other tests, too
    LastHeartbeat.objects.update(last_seen_at=timezone.now())
    return made[0]


@pytest.fixture
def resnet18(alice, made):
    return made[1]


@pytest.fixture
def tiny(alice, made):
    return made[2]


def result_url(profile) -> str:
    return f"/tasks/{profile.attempt.task_id}/"


def operator_rows(html: str) -> list[int]:
    """Return the operators of a table in its order; an operator is a row of the columns."""
    return [int(row) for row in re.findall(r'<tr data-row="(\d+)"', html)]


def text_of(response) -> str:
    assert response.status_code == 200
    return response.text


#: the question of an address, and the same for the analysis
QUERIES = {
    "": Query(),
    "?order=memory": Query(order="memory"),
    "?order=computation&up=1": Query(order="computation", ascending=True),
    "?type=ConvolutionForward&min=0.1ms": Query(types=("ConvolutionForward",), min_s=1e-4),
    "?name=conv*&rows=3": Query(name="conv*"),
    "?text=batchNORMf": Query(types=("BatchNormForward",)),
    "?text=LAYER3.0.BN1": Query(name=".*layer3\\.0\\.bn1"),
    "?text=conv&name=.*layer3": Query(name="(?i).*(layer3.*conv|conv.*layer3)"),
    "?dtype=Float32&end=kern": Query(input_dtype="Float32", top_end="kern"),
    "?side=host": Query(side="host"),
    "?order=in_shapes": Query(order="in_shapes"),
}


def test_the_page_shows_rows_and_cells_of_the_analysis(client, resnet18):
    data = good_profile("resnet18")
    columns, page = parse(data), result_url(resnet18)
    for state, query in QUERIES.items():
        html = text_of(client.get(page + state))
        expected = rows(columns, select(columns, query), 0, 3 if "rows=3" in state else PAGE_ROWS)
        assert operator_rows(html) == [row.operator for row in expected], state
        for row in expected:
            time, share = short(row.self_s), percent(row.ratio)
            assert f'{time}<br><span class="muted">{share}</span>' in html
            cells = (
                computation(row.computation_flo),
                flops(row.flops),
                memory(row.memory_bytes),
                bandwidth(row.bandwidth_bytes_per_s),
            )
            for cell in cells:
                assert f">{page_units(' '.join(cell))}</td>" in html


def page_units(quantity: str) -> str:
    """Return a quantity of `profile_analyze` in the units of pages: `MFLOP/s` for `MFLOPS`."""
    return re.sub("FLO$", "FLOP", re.sub("FLOPS$", "FLOP/s", quantity))


def test_types_have_sums_and_link_to_their_operators(client, resnet18):
    data = good_profile("resnet18")
    html = text_of(client.get(result_url(resnet18) + "?agg=sum"))
    columns = parse(data)
    first = rows(columns, select(columns, Query(aggregate="sum", by_type=True)), 0, 1)[0]
    assert f'<bdi>{first.type}</bdi></a><br><span class="muted">× {first.count}</span>' in html
    assert operator_rows(html) == []
    link = re.search(r'class="operators__name" href="([^"]+)"', html)[1]
    assert len(operator_rows(text_of(client.get(link)))) == first.count


def test_next_links_lead_through_all_rows(client, alice):
    link, rows_shown = result_url(make_result(to_json(make_profile(MANY_TIMES)), owner=alice)), []
    while link:
        html = text_of(client.get(link))
        rows_shown += operator_rows(html)
        match = re.search(r'href="([^"]+)" rel="next"', html)
        link = match and match[1].replace("&amp;", "&")
    assert rows_shown == list(range(MANY))


def test_an_invalid_filter_is_marked_and_the_table_is_shown(client, tiny):
    page = result_url(tiny)
    html = text_of(client.get(f"{page}?name=(&min=soon"))
    assert html.count('aria-invalid="true"') == 1
    assert "missing )" in html
    assert operator_rows(html)


def test_an_invalid_pattern_has_a_link_to_a_text_search(client, alice):
    names = {"1": "conv(blocks.0)", "2": "conv(blocks.1)", "3": "convblocks"}
    data = to_json(make_profile({"1": 0.1, "2": 0.2, "3": 0.3}, names=names))
    page = result_url(make_result(data, owner=alice))
    html = text_of(client.get(f"{page}?name=conv(blocks."))
    link = re.search(r'id="problem-name".*?<a href="([^"]+)"', html)[1]
    linked = text_of(client.get(link.replace("&amp;", "&")))
    assert operator_rows(linked) == [1, 0]


def test_the_text_filter_applies_to_table_and_exports(client, resnet18):
    for state in ("?text=nORMfORWARD", "?text=nORMfORWARD&agg=sum"):
        html = text_of(client.get(result_url(resnet18) + state))
        body = re.search(r"<tbody.*?</tbody>", html, re.DOTALL)[0]
        assert "BatchNormForward" in body and "ConvolutionForward" not in body, state
        export = client.get(f"/profiles/{resnet18.pk}/export/json/{state}").json()
        assert {operator["type"] for operator in export["operators"]} == {"BatchNormForward"}


def test_a_text_filter_without_matches_can_be_removed(client, resnet18):
    page = result_url(resnet18)
    html = text_of(client.get(f"{page}?text=%25s%3Cb%3E.*&order=memory"))
    assert operator_rows(html) == []
    assert "Name or type contains" in html and "%s&lt;b&gt;.*" in html
    assert f'href="{page}?order=memory"' in html


def test_the_header_shows_title_model_options_version_and_device(client, alice):
    task_fields = {"title": "Nightly <b>", "options": {"fast_run": True, "iter": 20}}
    attempt = ended_attempt({"profile.json": good_profile("tiny")}, alice, **task_fields)
    process_attempt(attempt)
    html = text_of(client.get(f"/tasks/{attempt.task_id}/"))
    head = html[html.index("<h1") : html.index('<nav class="tabs"')]
    for text in ("Nightly &lt;b&gt;", "net.mge", "--fast_run", "--iter=20", "MegEngine 1.13.0"):
        assert text in head
    assert attempt.worker.name in head
    assert "<title>\u2068Nightly &lt;b&gt;\u2069 · Task #" in html


def test_the_table_comes_after_figures_and_at_most_three_findings(client, resnet18):
    html = whole_page(client, result_url(resnet18))
    places = [
        html.index(f'id="{name}"')
        for name in ("run-facts", "summary", "advice-lines", "operator-table", "strip")
    ]
    assert places == sorted(places)
    lines = re.findall(r'<a class="advice-lines__title" href="([^"]+)#(advice-\w+)"', html)
    assert 1 <= len(lines) <= 3
    for address, place in lines:
        assert f'id="{place}"' in text_of(client.get(address))


def test_each_view_has_an_address_and_a_fragment(client, resnet18):
    result = result_url(resnet18)
    for view, contents in {
        "": ('id="operator-table"',), "timeline/": ('data-chart="timeline"',),
        "graph/": ('id="graph"',), "roofline/": ('data-chart="roofline"',),
        "memory/": ('data-chart="memory"',), "scopes/": ('data-chart="scopes"',),
        "compare/": ('id="compare-title"',), "files/": ('id="log-title"',),
        "details/": ('id="statistics"', 'id="history-title"'),
    }.items():  # fmt: skip
        url = f"{result}{view}"
        page, fragment = text_of(client.get(url)), text_of(client.get(f"{url}?part=1"))
        assert all(content in page and content in fragment for content in contents), view
        assert page.count('aria-current="page"') == 1
        assert f'href="{url}" data-view="{view.rstrip("/") or "operators"}" aria-current' in page
        assert "<html" not in fragment and 'class="tabs"' not in fragment, view


def imported(script: Path) -> set[Path]:
    """Return all modules that a script imports when it is loaded, directly or not."""
    found, waiting = set[Path](), [script]
    while waiting:
        module = waiting.pop()
        for name in re.findall(r'^import [^;]*? from "([^"]+)"', module.read_text(), re.MULTILINE):
            path = (module.parent / name).resolve()
            if path not in found:
                found.add(path)
                waiting.append(path)
    return found


def test_all_modules_of_the_page_are_preloaded(client, tiny):
    html = text_of(client.get(result_url(tiny)))
    preloaded = re.findall(r'rel="modulepreload" href="/static/js/([^"]+)"', html)
    page = SCRIPTS / "profiles" / "result" / "page.js"
    assert sorted(preloaded) == sorted(str(path.relative_to(SCRIPTS)) for path in imported(page))
    files = {SCRIPTS.parent / path for path in re.findall(r'="/static/([^"]+)"', html)}
    files |= imported(SCRIPTS / "site.js")
    # with the page itself and the data of the table
    assert len(files) + 2 <= 30


def test_old_addresses_of_results_lead_to_the_task(client, tiny):
    url = result_url(tiny)
    assert client.get(f"{url}result/?op=1").headers["Location"] == f"{url}?op=1"
    assert client.get(f"{url}no-such-view/").status_code == 404


def test_the_address_of_a_profile_leads_to_the_same_place_at_its_task(client, tiny):
    for place in ("?name=conv", "timeline/?op=1", "timeline/"):
        location = client.get(f"/profiles/{tiny.pk}/{place}").headers["Location"]
        assert location == result_url(tiny) + place


def test_options_of_profile_analyze_are_answered_by_the_server(client, resnet18):
    url = result_url(resnet18)
    plain = text_of(client.get(url))
    assert 'id="operator-table"' in plain and 'id="more-filters"' in plain
    # without JavaScript the same table is there
    assert len(operator_rows(plain.split("<noscript>")[1].split("</noscript>")[0])) == PAGE_ROWS
    for query in ("?filters=1", "?name=conv", "?end=kern", "?agg=mean"):
        page = text_of(client.get(url + query))
        assert 'id="operator-table"' not in page and 'id="to-table"' in page


def test_the_list_of_profiles_shows_title_and_changed_options(client, alice):
    task_fields = {"title": "with fast run", "options": {"fast_run": True}}
    process_attempt(ended_attempt({"profile.json": good_profile("tiny")}, alice, **task_fields))
    html = text_of(client.get("/profiles/"))
    results = html[html.index('id="results"') :]
    assert "with fast run" in results and ">--fast_run<" in results


def test_presets_and_the_number_of_types_follow_the_filters(client, resnet18):
    page = result_url(resnet18)
    unfiltered = text_of(client.get(page))
    assert re.search(r'id="preset-slowest"[^>]*aria-current', unfiltered)
    filtered = text_of(client.get(f"{page}?type=Elemwise&name=a"))
    assert not re.search(r'id="preset-\w+"[^>]*aria-current', filtered)
    assert re.search(r'id="types-count"[^>]*>1 of \d+<', filtered)
    assert "of" not in re.search(r'id="types-count"[^>]*>([^<]*)<', unfiltered)[1]


def test_an_operator_shows_its_rank_and_its_step(client, resnet18):
    columns, graph = profile_data(resnet18).columns, profile_data(resnet18).graph
    steps = len(graph.execution_order())
    for side in SIDES:
        order = select(columns, Query(side=side)).rows.tolist()
        for place, row in list(enumerate(order))[:12]:
            html = text_of(client.get(f"/profiles/{resnet18.pk}/operators/{row}/"))
            assert f"<dd>{place + 1} of {len(order)}</dd>" in html, (side, row)
            step = graph.operators.step[graph.operator_of_row(len(columns))[row]] + 1
            assert f"step {step} of {steps} of the execution" in html


@pytest.mark.parametrize("odd", [math.nan, math.inf, 0.0])
def test_ranks_are_places_in_the_table(resnet18, odd):
    """Also with equal and odd times."""
    data = profile_data(resnet18)
    end_s = data.columns.device.end_s.copy()
    end_s[1::5], end_s[2::5], end_s[3] = 2e-5, 0.0, odd
    columns = replace(data.columns, device=replace(data.columns.device, end_s=end_s))
    data = replace(data, columns=columns)
    order = select(columns, Query()).rows.tolist()
    ranks = [operator_facts(data, row)["sides"][0]["rank"] for row in order]
    assert ranks == list(range(1, len(order) + 1))


def test_an_empty_table_has_links_that_remove_each_filter(client, resnet18):
    page = result_url(resnet18)
    html = text_of(client.get(f"{page}?type=ConvolutionForward&name=batch&order=memory"))
    assert operator_rows(html) == []
    assert "No matching operators." in html
    for rest in ("?name=batch&amp;order=memory", "?type=ConvolutionForward&amp;order=memory"):
        assert f'href="{page}{rest}"' in html


def test_an_empty_table_of_one_pass_counts_the_operators_of_that_pass(client, alice):
    content = good_profile("resnet18")
    second = json.loads(content)
    del second["profiler"]["device"][next(iter(second["profiler"]["device"]))]
    profile = make_result(content, json.dumps(second).encode(), owner=alice)
    data = profile_data(profile)
    first, other = (int(row.sum()) for row in data.device.present)
    assert other == first - 1
    html = text_of(client.get(f"{result_url(profile)}?pass=2&text=no-such-operator"))
    assert f"{other} operators were timed" in html


def test_device_and_host_have_separate_tables(client, resnet18):
    page = result_url(resnet18)
    html = text_of(client.get(f"{page}?side=both"))
    assert html.count('<table class="operators__table"') == 2


def test_several_passes_add_statistics_and_their_orders(client, alice):
    content = good_profile("resnet18")
    passes = [content, scale_times(content, 1.5), scale_times(content, 1.2)]
    profile = make_result(*passes, owner=alice)
    page, data = result_url(profile), profile_data(profile)
    html = text_of(client.get(page))
    assert "p90" in html
    assert "unstable" in html
    by_p90 = operator_rows(text_of(client.get(f"{page}?order=p90")))
    p90 = data.device.p90_s[by_p90].tolist()
    assert p90 == sorted(p90, reverse=True)
    single = text_of(client.get(f"{page}?pass=2&order=time"))
    slowest = operator_rows(single)[0]
    assert data.device.end_s[1][slowest] == data.device.end_s[1].max()
    assert "badge--unstable" not in single


def test_table_and_timeline_call_a_pass_by_the_same_number(client, alice):
    content = good_profile("tiny")
    damaged = b'{"graph_exec": 1, "profiler": 2}'
    profile = make_result(damaged, content, scale_times(content, 1.2), owner=alice)
    page = text_of(client.get(f"{result_url(profile)}?pass=2"))
    offered = re.findall(r'<option value="(\d+)"[^>]*>pass (\d+)<', page)
    assert offered == [("1", "2"), ("2", "3")]
    for place, number in offered:
        chart = client.get(f"/api/v1/profiles/{profile.pk}/charts/timeline/?pass={place}").json()
        assert chart["pass_number"] == int(number)


def test_columns_can_be_selected(client, tiny):
    page = result_url(tiny)
    html = text_of(client.get(f"{page}?cols=time,flops"))
    heads = re.findall(r'scope="col" class="operators__(\w+)"', html)
    assert heads == ["rank", "op", "time", "flops"]


def test_an_operator_has_its_own_page(client, resnet18):
    data = profile_data(resnet18)
    row = list(data.columns.types).index("ConvolutionForward")
    url = f"/profiles/{resnet18.pk}/operators/{row}/"
    html = text_of(client.get(url))
    assert "<html" in html
    assert data.columns.names[row] in html
    for word in ("Self time", "FLOP/s", "Inputs", "Outputs", "Parameters", "Float32"):
        assert word in html
    assert "<html" not in text_of(client.get(f"{url}?part=1"))
    assert client.get(f"/profiles/{resnet18.pk}/operators/{len(data.columns)}/").status_code == 404


def test_an_import_has_the_same_page_without_a_task(client, alice):
    data = good_profile("resnet18")
    profile = make_import(alice, data, name="mine <b>.json").profile
    page = f"/profiles/{profile.pk}/"
    html = text_of(client.get(f"{page}?order=memory"))
    columns = parse(data)
    expected = rows(columns, select(columns, Query(order="memory")), 0, PAGE_ROWS)
    assert operator_rows(html) == [row.operator for row in expected]
    assert "mine &lt;b&gt;.json" in html
    assert f'action="{page}"' in html


def test_hostile_names_are_escaped_on_every_page(client, alice):
    names = {"1": "<img src=x onerror=alert(1)>", "2": "a\nb\u202etxt", "3": '" onclick="x'}
    data = to_json(make_profile({"1": 0.1, "2": 0.2, "3": 0.3}, names=names))
    profile = make_result(data, owner=alice)
    page = result_url(profile)
    urls = [page + state for state in ("", "?order=name", "?side=both", "?agg=sum")]
    urls += [f"/profiles/{profile.pk}/operators/{row}/" for row in range(3)]
    for url in urls:
        html = text_of(client.get(url))
        assert "<img src=x" not in html, url
        assert '" onclick="' not in html, url
        assert url != page or "<bdi>a↵b\ufffdtxt</bdi>" in html


def test_the_page_of_damaged_derived_data_shows_the_rest(client, alice):
    profile = make_result(good_profile("tiny"), owner=alice)
    type(profile).objects.filter(pk=profile.pk).update(derived_version=0, problem="broken")
    html = text_of(client.get(result_url(profile)))
    assert 'id="profile-trouble"' in html
    assert "operator-table" not in html
