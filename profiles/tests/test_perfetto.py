"""The viewer Perfetto, which is served for traces only.

`test_viewer.py` tests what it has in common with the other viewer.
"""

import pytest

from profiles.presenters import viewers
from profiles.tests.flows import MLP as FLOW
from profiles.tests.imports import make_import
from profiles.tests.pages import make_result, policy_of, whole_page
from profiles.tests.passes import another_pass
from profiles.tests.traces import MLP
from profiles.viewer_packages import perfetto_address
from testdata import good_profile

FOLDER = perfetto_address().partition("#")[0]


@pytest.fixture
def trace(alice):
    return make_import(alice, MLP.read_bytes(), name="mlp").profile


def test_the_policy_allows_only_its_own_scripts_without_eval(client):
    response = client.get(FOLDER)
    policy = policy_of(response)
    origin = f"http://testserver{FOLDER}"
    assert policy["font-src"] == origin
    assert policy["script-src"].startswith(f"{origin} 'sha256-")
    assert "'unsafe-inline'" not in policy["script-src"]
    assert "'unsafe-eval'" not in policy["script-src"]
    assert response.text.index("bridge.js") < response.text.index("frontend_bundle.js")


def test_fonts_are_not_compressed_again(client):
    response = client.get(f"{FOLDER}assets/Roboto-400.woff2", headers={"Accept-Encoding": "gzip"})
    assert response["Content-Type"] == "font/woff2"
    assert "Content-Encoding" not in response


@pytest.mark.django_db
class TestPage:
    def test_the_result_links_to_the_page_and_the_page_frames_the_viewer(self, client, trace):
        result = whole_page(client, f"/profiles/{trace.pk}/")
        assert f'href="/profiles/{trace.pk}/trace/"' in result
        page = client.get(f"/profiles/{trace.pk}/trace/").text
        assert f'data-viewer="{perfetto_address()}"' in page
        assert f'href="/profiles/{trace.pk}/export/original/1/"' in page
        assert "<noscript>" in page

    def test_the_page_is_translated_to_chinese(self, client, trace):
        address = f"/profiles/{trace.pk}/trace/"
        page = client.get(address, headers={"Accept-Language": "zh-hans"}).text
        for word in ("正在加载 Trace 文件", "下载 Trace 文件", "时间线需要 JavaScript", "重试"):
            assert word in page
        for word in ("Loading", "Download", "needs JavaScript", "Try again"):
            assert word not in page

    def test_the_page_has_the_url_and_the_size_of_the_file(self, client, trace, settings):
        page = client.get(f"/profiles/{trace.pk}/trace/")
        assert page.context["file"] == {"size_bytes": MLP.stat().st_size, "is_cut": False}
        address = f"/api/v1/profiles/{trace.pk}/raw/1/"
        assert f'data-file="{address}"' in page.text
        assert "data-is-cut" not in page.text
        assert client.get(address)["Location"].startswith(settings.S3_PUBLIC_ENDPOINT_URL)

    def test_the_page_marks_a_truncated_trace(self, client, alice):
        truncated = make_import(alice, MLP.read_bytes()[:400_000]).profile
        assert "data-is-cut" in client.get(f"/profiles/{truncated.pk}/trace/").text

    def test_a_file_that_is_too_large_for_a_browser_is_not_loaded(self, client, trace, monkeypatch):
        monkeypatch.setattr(viewers, "TRACE_LIMIT_BYTES", 3 * 1024**2 // 64)
        page = client.get(f"/profiles/{trace.pk}/trace/").text
        assert "for display in the browser" in page
        assert "data-file" not in page

    def test_the_timeline_of_a_profile_is_shown_as_its_exported_trace(self, client, alice):
        imported = make_import(alice, good_profile("tiny")).profile
        of_task = make_result(good_profile("tiny"), owner=alice)
        for profile in (imported, of_task):
            page = client.get(f"/profiles/{profile.pk}/trace/").text
            assert f'data-cut="/profiles/{profile.pk}/export/trace/"' in page
            # the range of a trace cannot be chosen
            assert 'id="overview"' not in page
            result = client.get(profile.page_url).text
            assert f'href="/profiles/{profile.pk}/trace/"' in result

    def test_the_timeline_of_a_chosen_pass_is_shown(self, client, alice):
        first = good_profile("tiny")
        profile = make_import(alice, first, another_pass(first, 2)).profile
        address = f"/profiles/{profile.pk}"
        page = client.get(f"{address}/trace/?pass=2").text
        assert f'data-cut="{address}/export/trace/?pass=2"' in page
        assert f'href="{address}/export/trace/?pass=2"' in page
        assert "pass 2" in page
        for query in ("", "?pass=3", "?pass=x"):
            assert f'href="{address}/export/trace/"' in client.get(f"{address}/trace/{query}").text

    def test_a_profile_without_operators_has_no_timeline(self, client, alice):
        memory = make_import(alice, FLOW.read_bytes()).profile
        assert client.get(f"/profiles/{memory.pk}/trace/").status_code == 404
