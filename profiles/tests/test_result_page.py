"""The result page without JavaScript, and the fragments that htmx and the table request."""

import re

import pytest

from profiles.analysis.numbers import bandwidth, computation, flops, memory, percent, short
from profiles.analysis.query import Query
from profiles.analysis.select import select
from profiles.analysis.table import rows
from profiles.formats.load_and_run.reader import parse
from profiles.ingest.loading import profile_data
from profiles.services import build_attempt_profile
from profiles.tables.request import PAGE_ROWS
from profiles.tests.imports import make_import
from profiles.tests.make import make_profile, to_json
from profiles.tests.pages import ended_attempt, make_result
from profiles.tests.passes import scale_times
from testdata import good_profile

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage")]

#: more than one page of rows
MANY = 250


def page_of(profile) -> str:
    return f"/tasks/{profile.attempt.task_id}/result/"


def operators(html: str) -> list[int]:
    """Return the operators of a table, in its order, as rows of the columns."""
    return [int(row) for row in re.findall(r'<tr role="row" data-row="(\d+)"', html)]


def text_of(response) -> str:
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize(
    ("state", "query"),
    [
        ("", Query()),
        ("?order=memory", Query(order="memory")),
        ("?order=computation&up=1", Query(order="computation", ascending=True)),
        ("?type=ConvolutionForward&min=0.1ms", Query(types=("ConvolutionForward",), min_s=1e-4)),
        ("?name=conv*&rows=3", Query(name="conv*")),
        ("?text=batchNORMf", Query(types=("BatchNormForward",))),
        ("?text=LAYER3.0.BN1", Query(name=".*layer3\\.0\\.bn1")),
        ("?text=conv&name=.*layer3", Query(name="(?i).*(layer3.*conv|conv.*layer3)")),
        ("?dtype=Float32&end=kern", Query(input_dtype="Float32", top_end="kern")),
        ("?side=host", Query(side="host")),
        ("?order=in_shapes", Query(order="in_shapes")),
    ],
)
def test_the_page_shows_the_rows_and_the_cells_of_the_analysis(client, alice, state, query):
    data = good_profile("resnet18")
    html = text_of(client.get(page_of(make_result(data, owner=alice)) + state))
    columns = parse(data)
    expected = rows(columns, select(columns, query), 0, 3 if "rows=3" in state else PAGE_ROWS)
    assert operators(html) == [row.operator for row in expected]
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
            assert f">{as_page(' '.join(cell))}</td>" in html


def as_page(quantity: str) -> str:
    """Return a quantity of `profile_analyze` in the units of pages: `MFLOP/s` for `MFLOPS`."""
    return re.sub("FLO$", "FLOP", re.sub("FLOPS$", "FLOP/s", quantity))


def test_types_are_summed_and_lead_to_their_operators(client, alice):
    data = good_profile("resnet18")
    html = text_of(client.get(page_of(make_result(data, owner=alice)) + "?agg=sum"))
    columns = parse(data)
    first = rows(columns, select(columns, Query(aggregate="sum", by_type=True)), 0, 1)[0]
    assert f'<bdi>{first.type}</bdi></a><br><span class="muted">× {first.count}</span>' in html
    assert operators(html) == []
    link = re.search(r'class="operators__name" href="([^"]+)"', html)[1]
    assert len(operators(text_of(client.get(link)))) == first.count


def test_without_javascript_pages_lead_through_all_rows(client, alice):
    times = {str(number): (MANY - number) * 1e-6 for number in range(MANY)}
    link, seen = page_of(make_result(to_json(make_profile(times)), owner=alice)), []
    while link:
        html = text_of(client.get(link))
        seen += operators(html)
        match = re.search(r'href="([^"]+)" rel="next"', html)
        link = match and match[1].replace("&amp;", "&")
    assert seen == list(range(MANY))


def test_htmx_gets_the_tables_alone_and_the_errors_beside_the_fields(client, alice):
    page = page_of(make_result(good_profile("tiny"), owner=alice))
    headers = {"HX-Request": "true", "HX-Target": "tables"}
    good = client.get(f"{page}?order=memory", headers=headers)
    assert 'data-address="?order=memory"' in text_of(good)
    assert "<html" not in good.content.decode()
    assert {"HX-Request", "HX-Target"} <= set(good["Vary"].split(", "))
    bad = client.get(f"{page}?name=(", headers=headers)
    assert bad["HX-Reswap"] == "none"
    assert 'id="problem-name"' in text_of(bad)
    assert operators(bad.content.decode()) == []


def test_a_page_whose_question_is_wrong_says_so_and_shows_the_rest(client, alice):
    page = page_of(make_result(good_profile("tiny"), owner=alice))
    html = text_of(client.get(f"{page}?name=(&min=soon"))
    assert html.count('aria-invalid="true"') == 1
    assert "missing )" in html
    assert operators(html)


def test_text_that_is_no_pattern_has_a_link_to_its_operators(client, alice):
    names = {"1": "conv(blocks.0)", "2": "conv(blocks.1)", "3": "convblocks"}
    data = to_json(make_profile({"1": 0.1, "2": 0.2, "3": 0.3}, names=names))
    page = page_of(make_result(data, owner=alice))
    for headers in ({}, {"HX-Request": "true", "HX-Target": "tables"}):
        html = text_of(client.get(f"{page}?name=conv(blocks.", headers=headers))
        link = re.search(r'id="problem-name".*?<a href="([^"]+)"', html)[1]
        linked = text_of(client.get(link.replace("&amp;", "&")))
        assert operators(linked) == [1, 0]


@pytest.mark.parametrize("state", ["?text=nORMfORWARD", "?text=nORMfORWARD&agg=sum"])
def test_the_text_filter_holds_in_every_piece_and_in_exports(client, alice, state):
    profile = make_result(good_profile("resnet18"), owner=alice)
    html = text_of(client.get(page_of(profile) + state))
    pieces = text_of(client.get(f"/profiles/{profile.pk}/operators/{state}"))
    body = re.search(r"<tbody.*?</tbody>", html, re.DOTALL)[0]
    assert re.findall(r"<tr.*?</tr>", pieces) == re.findall(r"<tr.*?</tr>", body)
    assert "BatchNormForward" in body and "ConvolutionForward" not in body
    types = [
        operator["type"]
        for operator in client.get(f"/profiles/{profile.pk}/export/json/{state}").json()[
            "operators"
        ]
    ]
    assert set(types) == {"BatchNormForward"}


def test_a_text_that_nothing_contains_can_be_removed(client, alice):
    page = page_of(make_result(good_profile("resnet18"), owner=alice))
    html = text_of(client.get(f"{page}?text=%25s%3Cb%3E.*&order=memory"))
    assert operators(html) == []
    assert "Name or type contains" in html and "%s&lt;b&gt;.*" in html
    assert f'href="{page}?order=memory"' in html


def test_the_header_names_what_tells_the_run_from_others(client, alice):
    task_fields = {"title": "Nightly <b>", "options": {"fast_run": True, "iter": 20}}
    attempt = ended_attempt({"profile.json": good_profile("tiny")}, alice, **task_fields)
    build_attempt_profile(attempt)
    html = text_of(client.get(f"/tasks/{attempt.task_id}/result/"))
    head = html[html.index("<h1") : html.index('<nav class="parts"')]
    for text in ("Nightly &lt;b&gt;", "net.mge", "--fast_run", "--iter=20", "MegEngine 1.13.0"):
        assert text in head
    assert attempt.worker.name in head
    assert "<title>\u2068Nightly &lt;b&gt;\u2069 · Result of task" in html


def test_what_is_looked_for_comes_first(client, alice):
    profile = make_result(good_profile("resnet18"), owner=alice)
    html = text_of(client.get(page_of(profile)))
    places = [
        html.index(f'id="{name}"')
        for name in (
            "run-facts", "summary", "advice-lines", "device-operators",
            "advice", "pictures", "graph", "statistics",
        )
    ]  # fmt: skip
    assert places == sorted(places)
    lines = re.findall(r'<a class="advice-lines__title" href="#(advice-\w+)"', html)
    assert 1 <= len(lines) <= 3
    assert all(f'id="{line}"' in html for line in lines)


def test_the_list_of_profiles_names_title_and_changed_options(client, alice):
    task_fields = {"title": "with fast run", "options": {"fast_run": True}}
    attempt = ended_attempt({"profile.json": good_profile("tiny")}, alice, **task_fields)
    build_attempt_profile(attempt)
    html = text_of(client.get("/profiles/"))
    results = html[html.index('id="results"') :]
    assert "with fast run" in results and ">--fast_run<" in results


def test_views_and_the_number_of_types_follow_the_filters(client, alice):
    page = page_of(make_result(good_profile("resnet18"), owner=alice))
    assert 'id="preset-slowest" href="' in text_of(client.get(page))
    headers = {"HX-Request": "true", "HX-Target": "tables"}
    plain = text_of(client.get(page, headers=headers))
    assert re.search(r'id="preset-slowest"[^>]*aria-current', plain)
    chosen = text_of(client.get(f"{page}?type=Elemwise&name=a", headers=headers))
    assert "aria-current" not in chosen
    assert re.search(r'id="types-count"[^>]*>1 of \d+<', chosen)
    assert "of" not in re.search(r'id="types-count"[^>]*>([^<]*)<', plain)[1]


@pytest.mark.parametrize("side", ["device", "host"])
def test_the_place_and_the_step_of_an_operator_are_those_of_the_other_views(client, alice, side):
    data = good_profile("resnet18")
    profile = make_result(data, owner=alice)
    columns, graph = profile_data(profile).columns, profile_data(profile).graph
    order = select(columns, Query(side=side)).rows.tolist()
    steps = len(graph.execution_order())
    for place, row in list(enumerate(order))[:12]:
        html = text_of(client.get(f"/profiles/{profile.pk}/operators/{row}/"))
        assert f"<dd>#{place} of {len(order)}</dd>" in html
        step = graph.operators.step[graph.operator_of_row(len(columns))[row]] + 1
        assert f"step {step} of {steps} of the execution" in html


def test_an_empty_table_says_which_limits_leave_nothing_and_how_to_remove_them(client, alice):
    page = page_of(make_result(good_profile("resnet18"), owner=alice))
    html = text_of(client.get(f"{page}?type=ConvolutionForward&name=batch&order=memory"))
    assert operators(html) == []
    assert "No operator is left." in html
    for rest in ("?name=batch&amp;order=memory", "?type=ConvolutionForward&amp;order=memory"):
        assert f'href="{page}{rest}"' in html


def test_pieces_of_the_table_follow_each_other_and_are_found_by_operator(client, alice):
    times = {str(number): (MANY - number) * 1e-6 for number in range(MANY)}
    profile = make_result(to_json(make_profile(times)), owner=alice)
    url = f"/profiles/{profile.pk}/operators/"
    second = operators(text_of(client.get(f"{url}?offset={PAGE_ROWS}")))
    assert second == list(range(PAGE_ROWS, 2 * PAGE_ROWS))
    assert operators(text_of(client.get(f"{url}?up=1&offset=200"))) == list(range(49, -1, -1))
    around = text_of(client.get(f"{url}?up=1&around=240"))
    assert 'data-start="0" data-place="9"' in around
    assert 240 in operators(around)
    assert "data-place" not in text_of(client.get(f"{url}?name=op1&around=240"))
    for nonsense in ("offset=x", "offset=99999", "around=-1", "around=", "offset=" + "9" * 30):
        text_of(client.get(f"{url}?{nonsense}"))


@pytest.mark.parametrize("state", ["", "?order=name&up=1", "?name=op2", "?rows=70", "?side=host"])
def test_the_order_tells_what_the_pieces_hold(client, alice, state):
    times = {str(number): (MANY - number) * 1e-6 for number in range(MANY)}
    profile = make_result(to_json(make_profile(times, host=times)), owner=alice)
    url = f"/profiles/{profile.pk}/operators/"
    order = client.get(f"/api/v1{url}order/{state}").json()["rows"]
    join, pieces = "&" if state else "?", []
    for start in range(0, len(order), PAGE_ROWS):
        pieces += operators(text_of(client.get(f"{url}{state}{join}offset={start}")))
    assert len(order) > PAGE_ROWS
    assert order == pieces


def test_the_order_of_one_pass_names_operators_of_the_merged_columns(client, alice):
    profile = make_result(good_profile("resnet18"), good_profile("resnet18"), owner=alice)
    url = f"/profiles/{profile.pk}/operators/"
    order = client.get(f"/api/v1{url}order/?pass=2").json()["rows"]
    assert order[:PAGE_ROWS] == operators(text_of(client.get(f"{url}?pass=2")))


def test_only_tables_of_operators_with_more_than_a_page_of_rows_have_an_order_to_learn(
    client, alice
):
    short = page_of(make_result(good_profile("tiny"), owner=alice))
    profile = make_result(good_profile("resnet18"), owner=alice)
    page = page_of(profile)
    assert (
        f'data-order-url="/api/v1/profiles/{profile.pk}/operators/order/?order=memory"'
        in text_of(client.get(f"{page}?order=memory"))
    )
    for address in (short, f"{page}?agg=sum"):
        assert "data-order-url" not in text_of(client.get(address))
    assert client.get(f"/api/v1/profiles/{profile.pk}/operators/order/?agg=sum").json() == {
        "rows": []
    }


def test_both_sides_have_tables_of_their_own(client, alice):
    page = page_of(make_result(good_profile("resnet18"), owner=alice))
    html = text_of(client.get(f"{page}?side=both"))
    assert html.count("data-rows-url") == 2
    assert "?side=host" in html


def test_passes_give_statistics_that_tables_are_ordered_by(client, alice):
    one = good_profile("resnet18")
    profile = make_result(one, scale_times(one, 1.5), scale_times(one, 1.2), owner=alice)
    page, data = page_of(profile), profile_data(profile)
    html = text_of(client.get(page))
    assert "p90" in html
    assert "unstable" in html
    by_p90 = operators(text_of(client.get(f"{page}?order=p90")))
    p90 = data.device.p90_s[by_p90].tolist()
    assert p90 == sorted(p90, reverse=True)
    single = text_of(client.get(f"{page}?pass=2&order=time"))
    slowest = operators(single)[0]
    assert data.device.end_s[1][slowest] == data.device.end_s[1].max()
    assert "badge--unstable" not in single


def test_columns_can_be_left_out(client, alice):
    page = page_of(make_result(good_profile("tiny"), owner=alice))
    html = text_of(client.get(f"{page}?cols=time,flops"))
    heads = re.findall(r'role="columnheader" class="operators__(\w+)"', html)
    assert heads == ["rank", "op", "time", "flops"]


def test_an_operator_has_a_page_of_its_own(client, alice):
    profile = make_result(good_profile("resnet18"), owner=alice)
    data = profile_data(profile)
    row = data.columns.types.codes.tolist().index(
        data.columns.types.values.index("ConvolutionForward")
    )
    url = f"/profiles/{profile.pk}/operators/{row}/"
    html = text_of(client.get(url))
    assert "<html" in html
    assert data.columns.names[row] in html
    for word in ("Self time", "FLOP/s", "Inputs", "Outputs", "Parameters", "Float32"):
        assert word in html
    assert "<html" not in text_of(client.get(f"{url}?part=1"))
    assert client.get(f"/profiles/{profile.pk}/operators/{len(data.columns)}/").status_code == 404


def test_an_opened_profile_has_the_same_page_without_a_task(client, alice):
    data = good_profile("resnet18")
    profile = make_import(alice, data, name="mine <b>.json").profile
    page = f"/profiles/{profile.pk}/"
    html = text_of(client.get(f"{page}?order=memory"))
    columns = parse(data)
    expected = rows(columns, select(columns, Query(order="memory")), 0, PAGE_ROWS)
    assert operators(html) == [row.operator for row in expected]
    assert "mine &lt;b&gt;.json" in html
    assert f'hx-get="{page}"' in html
    headers = {"HX-Request": "true", "HX-Target": "table-part"}
    assert "<html" not in text_of(client.get(page, headers=headers))


@pytest.mark.parametrize("state", ["", "?order=name", "?side=both", "?agg=sum"])
def test_hostile_names_are_text_in_every_piece(client, alice, state):
    names = {"1": "<img src=x onerror=alert(1)>", "2": "a\nb\u202etxt", "3": '" onclick="x'}
    data = to_json(make_profile({"1": 0.1, "2": 0.2, "3": 0.3}, names=names))
    profile = make_result(data, owner=alice)
    pieces = [page_of(profile) + state, f"/profiles/{profile.pk}/operators/{state}"]
    pieces += [f"/profiles/{profile.pk}/operators/{row}/" for row in range(3)]
    for piece in pieces:
        html = text_of(client.get(piece))
        assert "<img src=x" not in html
        assert '" onclick="' not in html
    if state == "":
        assert "<bdi>a↵b\ufffdtxt</bdi>" in text_of(client.get(pieces[0]))


def test_a_profile_whose_data_are_damaged_leaves_the_rest_of_the_page(client, alice):
    profile = make_result(good_profile("tiny"), owner=alice)
    type(profile).objects.filter(pk=profile.pk).update(derived_version=0, problem="broken")
    html = text_of(client.get(page_of(profile)))
    assert 'id="profile-trouble"' in html
    assert "data-rows-url" not in html
