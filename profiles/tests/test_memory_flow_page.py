"""Memory over time: its section of the result page, the chart's data, the file, the API."""

from html import escape
from urllib.parse import quote

import httpx2
import pytest

from profiles.models import Profile
from profiles.tests import hostile
from profiles.tests.flows import MLP, RESNET, tensor, to_flow
from profiles.tests.imports import make_import
from profiles.tests.make import make_script_profile, process_attempt
from profiles.tests.pages import ended_attempt, get_page
from profiles.tests.response_checks import response_faults
from profiles.tests.traces import RESNET as TRACE
from profiles.views.common import profile_links
from profiles.views.result import IMAGE_LIMIT_BYTES, original_of
from testdata import good_profile
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage")]


@pytest.fixture
def resnet(alice):
    return make_import(alice, RESNET.read_bytes()).profile


def get_section(client, profile, query="", language="en"):
    """Return the view of memory alone, which must have no defects."""
    response = client.get(
        f"/profiles/{profile.pk}/memory/{query}", headers={"Accept-Language": language}
    )
    assert response.status_code == 200
    assert response_faults(response) == []
    return response.text


def tensor_rows(page):
    """Return the tags of the table of tensors, in its order."""
    body = page.split('id="memory-flow-rows"')[1].split("</table>")[0].split("<tbody>")[1]
    return [row.split("</th>")[0] for row in body.split('class="hostile">')[1:] if "</th>" in row]


def get_chart(client, profile, query=""):
    response = client.get(f"/api/v1/profiles/{profile.pk}/charts/memory-flow/{query}")
    assert response_faults(response) == []
    return response.json()


def test_the_page_shows_the_peak_and_its_tensors(client, resnet):
    page = get_page(client, resnet)
    assert "589 tensors in 82.0 ms" in page
    assert "1.6 MiB" in page and "1688740 bytes" in page
    assert "at 12.7 ms, for a moment" in page
    assert "At least 90 % of it was in use for" in page
    assert "192 tensors found." in page
    assert "Views keep" not in page
    assert 'id="no-operators"' in page
    assert 'id="operator-table"' not in page
    rows = tensor_rows(page)
    assert len(rows) == 50
    assert "before the Profiler started" in rows[0]
    assert rows[1:4] == ["step[142].SUB:0", "step[140].ADD:0", rows[3]]
    assert "ConvolutionBackwardFilterV2" in rows[3]
    assert "Rows 1 to 50 of 192" in page


def test_the_page_shows_how_long_memory_was_near_the_peak(client, alice):
    pulses = [tensor("pulse", at=0, size=99, begin=n * 4, end=n * 4 + 3) for n in range(1_500)]
    late = tensor("late", at=0, size=8, begin=4_000_000_000, end=4_000_000_009)
    profile = make_import(alice, to_flow(*pulses, late)).profile
    sentence = "At least 90 % of it was in use for 5 µs in total, 0.0 % of the time."
    assert sentence in get_page(client, profile)
    body = caller(alice).get(f"/api/v1/profiles/{profile.pk}/memory-flow/").json()
    assert body["near_peak_s"] == pytest.approx(4.5e-6)


def test_the_page_shows_memory_that_views_keep_after_their_tensor(client, alice):
    data = to_flow(
        tensor("whole", at=0, size=4 << 20, begin=0, end=100),
        tensor("half", at=0, size=2 << 20, begin=50, end=900),
        tensor("part", at=0, size=1 << 20, begin=50, end=900),
        tensor("other", at=8 << 20, size=1 << 20, begin=200, end=300),
    )
    profile = make_import(alice, good_profile("tiny"), data).profile
    page = get_page(client, profile)
    assert "5.0 MiB" in page and "3 tensors, 4.0 MiB in total" in page
    assert "Some share memory" in page
    sentence = "Tensor views keep another 2.0 MiB in use: MegEngine frees a block of memory"
    assert sentence in page
    assert sentence in client.get(f"/profiles/{profile.pk}/export/report/").text
    assert "视图另外保留了 2.0 MiB" in get_page(client, profile, language="zh-hans")
    body = caller(alice).get(f"/api/v1/profiles/{profile.pk}/memory-flow/").json()
    assert (body["peak_bytes"], body["peak_kept_bytes"]) == (5 << 20, 2 << 20)


def test_other_profiles_have_no_memory_flow(client, alice):
    profile = make_import(alice, good_profile("tiny")).profile
    assert 'id="memory-flow"' not in get_page(client, profile)
    for part in ("tensors/", "image.svg"):
        assert client.get(f"/profiles/{profile.pk}/memory-flow/{part}").status_code == 404


def test_the_section_is_translated_to_chinese(client, resnet):
    page = get_page(client, resnet, language="zh-hans")
    for word in ("内存随时间的变化", "曾经用到的地址", "峰值时存活", "Profiler 启动前已存在"):
        assert word in page
    for word in ("Memory over time", "Alive at", "Tag contains", "Download"):
        assert word not in page.split('id="memory-flow"')[1]


@pytest.mark.parametrize("tag", ["maxpool", "MAXPOOL", "step.ADD", "conv1"])
def test_a_tag_in_the_url_filters_table_and_chart(client, resnet, tag):
    page = get_page(client, resnet, f"?tag={tag}&tensors=all")
    rows = tensor_rows(page)
    part = tag.split(".")[-1].casefold()
    assert rows and all(part in row.casefold() for row in rows)
    assert f'value="{tag}"' in page
    chart = get_chart(client, resnet, f"?tag={tag}")
    assert 0 < len(chart["names"]) < 589
    assert all(part in name.casefold() for name in chart["names"])
    assert any(tag in note for note in chart["notes"])
    assert chart["curve"] == get_chart(client, resnet)["curve"]


def test_the_table_has_the_requested_order_and_page(client, resnet):
    query = "?tensors=all&flow_order=produced"
    pages = [
        tensor_rows(get_section(client, resnet, f"{query}&flow_page={n}")) for n in range(1, 13)
    ]
    assert [len(rows) for rows in pages] == [50] * 11 + [39]
    assert tensor_rows(get_section(client, resnet, f"{query}&flow_page=99")) == pages[-1]
    tags = tensor_rows(get_section(client, resnet, "?tensors=all&flow_order=tag&flow_page=12"))
    assert tags == sorted(tags, key=str.casefold)
    page = get_page(client, resnet, "?flow_page=x&flow_order=y&tensors=z")
    assert tensor_rows(page) == tensor_rows(get_section(client, resnet))


def test_a_tag_without_matches_shows_what_to_do(client, resnet):
    page = get_page(client, resnet, "?tag=nothing-is-called-so")
    assert "No matching tensors. Clear the tag" in page


def test_the_table_fragment_equals_the_table_of_the_page(client, resnet):
    query = "?tag=conv&flow_order=duration"
    fragment = client.get(f"/profiles/{resnet.pk}/memory-flow/tensors/{query}").text
    assert tensor_rows(fragment) == tensor_rows(get_page(client, resnet, query))
    assert f'action="/profiles/{resnet.pk}/memory/#memory-flow-tensors"' in fragment


def test_the_chart_has_every_tensor_within_used_addresses(client, resnet):
    chart = get_chart(client, resnet)
    columns = ("start", "length", "place", "size", "shape", "address", "at_peak")
    assert {len(chart[name]) for name in columns} == {589}
    assert sum(chart["at_peak"]) == 192
    assert chart["start"] == sorted(chart["start"])
    assert chart["peak"] == {"at": 12729.696, "bytes": 1_688_740}
    ends = [place + size for place, size in zip(chart["place"], chart["size"], strict=True)]
    assert max(ends) == chart["used"] == 3_970_528
    assert max(bytes_ for _, bytes_ in chart["curve"]) == 1_688_740
    assert chart["sentence"] == "Maximum usage: 1.6 MiB at 12.7 ms, by 192 tensors."


def test_the_file_is_served_as_a_sandboxed_image(client, resnet):
    page = get_page(client, resnet)
    address = f"/profiles/{resnet.pk}/memory-flow/image.svg"
    assert f'<img class="memory-flow__image" src="{address}"' in page
    response = client.get(address)
    assert response.content == RESNET.read_bytes()
    assert response["Content-Type"] == "image/svg+xml"
    assert response["Content-Disposition"].startswith("attachment")
    assert response["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Cross-Origin-Resource-Policy"] == "same-origin"
    number = resnet.upload.files.get().number
    assert f'href="/profiles/{resnet.pk}/export/original/{number}/"' in page


def test_a_large_file_is_not_embedded(client, alice):
    data = to_flow(tensor("a", at=1, size=1, begin=1, end=2)) + b" " * IMAGE_LIMIT_BYTES
    profile = make_import(alice, data).profile
    page = get_page(client, profile)
    assert "too large to be displayed" in page and "memory-flow__image" not in page
    assert client.get(f"/profiles/{profile.pk}/memory-flow/image.svg").status_code == 404


@pytest.mark.exhaustive
def test_hostile_names_are_escaped_everywhere(client, alice):
    layout = '{1(1) <script>alert(1)</script>"\u202e}'
    tensors = [
        tensor(name, at=n << 22, size=n + 1, begin=n, end=99, layout=escape(layout))
        for n, name in enumerate(hostile.NAMES)
    ]
    script = "<script>alert(1)</script>\n<image href='http://127.0.0.1:1/x'/>\n"
    far = tensor("far", at=(1 << 62) - 1, size=1 << 40, begin=10**17, end=10**18 - 1)
    data = to_flow(*tensors, script, far)
    profile = make_import(alice, good_profile("tiny"), data).profile
    for name in (None, *hostile.NAMES):
        tag = "" if name is None else f"&tag={quote(name[:200])}"
        query = f"?tensors=all{tag}"
        for language in ("en", "zh-hans"):
            get_section(client, profile, query, language)
            page = client.get(
                f"/profiles/{profile.pk}/{query}", headers={"Accept-Language": language}
            )
            assert (page.status_code, response_faults(page)) == (200, [])
        if "%00" not in tag:  # texts of the API cannot contain NUL
            chart = get_chart(client, profile, f"?{tag[1:]}")
            assert chart["used"] == (1 << 40) + sum(range(1, 22))
    assert "2 unknown elements are left out." in get_page(client, profile)
    assert "&lt;script&gt;alert(1)" in get_page(client, profile, "?tensors=all")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (MLP.read_bytes()[:20_000], "The file is truncated"),
        (
            to_flow(tensor("a", at=1, size=1, begin=5, end=None), "<rect <\n</rect>\n"),
            "1 rectangle could not be read",
        ),
        (to_flow(tensor("a", at=1, size=1, begin=5, end=None)), "1 tensor has no end"),
    ],
)
def test_defects_of_the_file_are_shown_above_its_figures(client, alice, data, message):
    assert message in get_page(client, make_import(alice, data).profile)


def test_the_page_says_that_a_file_has_no_tensors(client, alice):
    profile = make_import(alice, to_flow()).profile
    page = get_page(client, profile)
    assert "No tensor had memory while the Profiler was active." in page
    assert get_chart(client, profile)["names"] == []
    assert get_page(client, profile, language="zh-hans")


def test_the_file_of_an_attempt_can_be_downloaded(client, alice):
    files = {"profile.json": good_profile("tiny"), "memory_flow.svg": MLP.read_bytes()}
    attempt = ended_attempt(files, alice)
    process_attempt(attempt)
    profile = Profile.objects.get(attempt=attempt)
    links = original_of(profile, profile_links(profile))
    response = client.get(links["download"])
    assert httpx2.get(response["Location"]).content == MLP.read_bytes()
    assert client.get(links["image"]).content == MLP.read_bytes()


@pytest.mark.parametrize("alone", [True, False])
def test_the_result_page_of_a_script_shows_its_memory_flow(client, alice, alone):
    trace = {} if alone else {"chrome_timeline.json": TRACE.read_bytes()}
    profile = make_script_profile(trace | {"memory_flow.svg": MLP.read_bytes()}, alice)
    url = f"/tasks/{profile.attempt.task_id}/memory/"
    response = client.get(f"{url}?tag=fc1&tensors=all")
    assert response_faults(response) == []
    page = response.text
    assert "174 tensors in 8.63 ms" in page
    assert all("fc1" in row for row in tensor_rows(page))
    assert f'action="{url}#memory-flow-tensors"' in page
    assert (
        client.get(original_of(profile, profile_links(profile))["image"]).content
        == MLP.read_bytes()
    )


def test_the_api_has_all_figures_of_the_page(alice, resnet):
    body = caller(alice).get(f"/api/v1/profiles/{resnet.pk}/memory-flow/").json()
    assert (body["count"], body["peak_bytes"], body["peak_tensors"]) == (589, 1_688_740, 192)
    assert sum(row["at_peak"] for row in body["tensors"]) == 192
    assert body["tags"][0]["tag"] == "step.ADD"
    assert body["is_cut"] is False


def test_the_api_returns_409_for_a_profile_without_memory_flow(alice):
    profile = make_import(alice, good_profile("tiny")).profile
    for part in ("memory-flow/", "charts/memory-flow/"):
        expect_problem(
            caller(alice).get(f"/api/v1/profiles/{profile.pk}/{part}"), 409, "memory_flow_none"
        )


def test_a_second_memory_flow_is_left_out_and_named(client, alice):
    profile = make_import(alice, RESNET.read_bytes(), MLP.read_bytes()).profile
    page = get_page(client, profile)
    assert "589 tensors" in page
    assert "p1.json" in page.split('id="left-out"')[1].split("</section>")[0]
