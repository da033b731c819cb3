"""The timeline of a trace on its page and in the API: overview, excerpts, limits, progress."""

import gzip
import hashlib
import json
import re
from contextlib import contextmanager

import dramatiq
import pytest

from profiles.actors import build_opened, rebuild_profile
from profiles.formats.chrome_trace.summary import TraceSummary
from profiles.imports import progress
from profiles.ingest import readers, trace_excerpts
from profiles.ingest.loading import run_data
from profiles.tests.imports import (
    confirm_upload,
    file_request,
    make_import,
    make_upload,
)
from profiles.tests.pages import whole_page
from profiles.tests.trace_excerpts import spans_in_range, spans_of_events, spans_of_text
from profiles.tests.traces import DEVICE, HOST, MLP, RESNET, operator, repeat_trace, span, to_trace
from testdata import good_profile
from webprofile.storage import storage as object_store
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("module_data")]

#: a microsecond in seconds, the unit of overviews and requests
US = 1e-6


@pytest.fixture
def alice(client, owner):
    client.force_login(owner)
    return owner


@pytest.fixture(scope="module")
def shared_trace(owner):
    return make_import(owner, RESNET.read_bytes(), name="resnet").profile


@pytest.fixture
def trace(alice, shared_trace):
    return shared_trace


@pytest.fixture(scope="module")
def shared_large_trace(owner):
    return make_import(owner, repeat_trace(RESNET, 4), name="large").profile


@pytest.fixture
def large_trace(alice, settings, shared_large_trace):
    """A trace that is several times as large as the limit of an excerpt."""
    settings.TRACE_CUT_LIMIT_BYTES = 2_000_000
    return shared_large_trace


@pytest.fixture
def small_trace(storage, alice):
    """A trace whose objects a test changes."""
    return make_import(alice, MLP.read_bytes()).profile


def get_excerpt(client, profile, query="", **headers):
    accept = {"Accept": "application/json", "Accept-Encoding": "gzip", **headers}
    return client.get(f"/api/v1/profiles/{profile.pk}/trace/cut/{query}", headers=accept)


def response_events(response):
    assert response.status_code == 200, response.content
    data = response.content
    if response.get("Content-Encoding") == "gzip":
        data = gzip.decompress(data)
    return json.loads(data)["traceEvents"]


def overview_of(profile):
    return run_data(profile).summary("trace", TraceSummary).overview


class TestExcerpt:
    def test_an_excerpt_has_the_spans_of_the_range(self, client, trace):
        spans = spans_of_text(RESNET.read_bytes())
        begins = sorted(begin_ns / 1000 for _, _, begin_ns, _ in spans)
        begin, end = begins[1000], begins[1200]
        response = get_excerpt(client, trace, f"?begin_s={begin * US!r}&end_s={end * US!r}")
        drawn = spans_of_events(response_events(response))
        assert drawn == spans_in_range(spans, begin, end)
        assert len(drawn) > 100
        assert response["Cache-Control"] == "private, no-store"

    def test_without_a_query_an_excerpt_is_the_whole_trace(self, client, trace):
        compressed = get_excerpt(client, trace)
        assert compressed["Content-Encoding"] == "gzip"
        plain = get_excerpt(client, trace, **{"Accept-Encoding": "identity"})
        assert "Content-Encoding" not in plain
        assert response_events(plain) == response_events(compressed)
        assert spans_of_events(response_events(plain)) == spans_of_text(RESNET.read_bytes())
        drawn = [event for event in response_events(plain) if event["ph"] in "XC"]
        assert compressed["X-Trace-Events"] == str(len(drawn))

    def test_an_excerpt_of_the_device_has_only_its_spans(self, client, trace):
        lanes = overview_of(trace).lanes
        number = next(lane.number for lane in lanes if lane.kind == "device")
        events = response_events(get_excerpt(client, trace, f"?lane={number}"))
        assert {event["tid"] for event in events if event["ph"] == "X"} == {2}
        assert any(event["ph"] == "C" for event in events)

    def test_the_excerpt_of_a_run_with_a_profile_is_that_of_its_trace(self, client, alice):
        run = make_import(alice, good_profile("tiny"), MLP.read_bytes()).profile
        drawn = spans_of_events(response_events(get_excerpt(client, run)))
        assert drawn == spans_of_text(MLP.read_bytes())

    def test_an_excerpt_does_not_change_the_original(self, client, trace):
        get_excerpt(client, trace)
        (file,) = trace.upload.files.all()
        stored = object_store.read(file.object_key, limit_bytes=1 << 30)
        assert hashlib.sha256(stored).digest() == hashlib.sha256(RESNET.read_bytes()).digest()
        page = client.get(f"/profiles/{trace.pk}/trace/").text
        assert f'href="/profiles/{trace.pk}/export/original/1/"' in page


class TestRefusal:
    @pytest.mark.parametrize(
        ("query", "status", "code"),
        [
            ("?begin_s=2&end_s=1", 422, "cut_range"),
            ("?begin_s=x", 400, "query_invalid"),
            ("?end_s=nan", 400, "query_invalid"),
            ("?lane=99", 422, "cut_lane"),
            ("?lane=-1", 400, "query_invalid"),
            ("?lane=1e3&lane=0", 400, "query_invalid"),
            ("?lane=99999999999999", 400, "query_invalid"),
        ],
    )
    def test_an_invalid_query_is_refused(self, client, trace, query, status, code):
        expect_problem(get_excerpt(client, trace, query), status, code)

    @pytest.mark.parametrize(
        ("language", "words"),
        [("en", "Choose a shorter range"), ("zh-hans", "请选择更短的时间范围")],
    )
    def test_an_excerpt_that_is_too_large_is_refused_with_a_hint(
        self, client, large_trace, language, words
    ):
        response = get_excerpt(client, large_trace, **{"Accept-Language": language})
        assert response.status_code == 422
        assert words in response.json()["detail"]
        assert get_excerpt(client, large_trace, "?begin_s=0.042&end_s=0.0425").status_code == 200

    def test_a_profile_without_a_trace_returns_409(self, client, alice):
        opened = make_import(alice, good_profile("tiny")).profile
        expect_problem(
            caller(alice).get(f"/api/v1/profiles/{opened.pk}/trace/cut/"), 409, "trace_none"
        )

    def test_a_missing_file_is_reported(self, client, small_trace):
        (file,) = small_trace.upload.files.all()
        object_store.delete(file.object_key)
        assert get_excerpt(client, small_trace).json()["code"] == "object_missing"

    def test_excerpts_beyond_the_slots_return_503(self, client, trace, monkeypatch):
        monkeypatch.setattr(trace_excerpts, "_PATIENCE_S", 0.01)
        for _ in range(trace_excerpts._AT_ONCE):
            trace_excerpts._slots.acquire()
        try:
            response = get_excerpt(client, trace)
        finally:
            for _ in range(trace_excerpts._AT_ONCE):
                trace_excerpts._slots.release()
        assert (response.status_code, response.json()["code"]) == (503, "cut_busy")
        assert get_excerpt(client, trace).status_code == 200

    @pytest.mark.exhaustive
    def test_an_excerpt_that_takes_too_much_memory_is_refused(self, client, alice, monkeypatch):
        # below the current size of the process; a small excerpt would fit into its free memory
        monkeypatch.setattr(trace_excerpts, "_MEMORY_BYTES", 16 << 20)
        profile = make_import(alice, repeat_trace(RESNET, 16)).profile
        expect_problem(get_excerpt(client, profile), 422, "cut_heavy")


class TestRebuild:
    @pytest.mark.parametrize(
        "damage", [b"mgwspan1" + b"\xff" * 40, b"mgwspan1\x04" + b"\0" * 40, b"no index at all"]
    )
    def test_a_damaged_index_is_rebuilt(self, client, small_trace, damage, run_rebuild):
        object_store.write(small_trace.spans_key, damage)
        with run_rebuild():
            response = get_excerpt(client, small_trace)
        assert (response.status_code, response.json()["code"]) == (409, "cut_unready")
        assert get_excerpt(client, small_trace).status_code == 200


@pytest.fixture
def run_rebuild(small_trace, django_capture_on_commit_callbacks):
    """Return a context manager that runs the queued rebuild of the trace after its block."""

    @contextmanager
    def rebuild_after():
        broker = dramatiq.get_broker()
        with django_capture_on_commit_callbacks(execute=True):
            yield
        message = dramatiq.Message.decode(broker.queues["profiles"].get_nowait())
        assert (message.actor_name, message.args) == ("rebuild_profile", (small_trace.pk,))
        rebuild_profile(small_trace.pk)
        small_trace.refresh_from_db()

    return rebuild_after


class TestOverview:
    def test_the_overview_shows_when_each_lane_was_busy(self, alice):
        events = [
            *operator(10, "ADD", 0, 100, "a:0"),  # on the device from 10 to 110 us
            *span(HOST, "late", 250, 300),
            *span(DEVICE, "k", 290, 310),
        ]
        profile = make_import(alice, to_trace(*events)).profile
        overview = overview_of(profile)
        assert (overview.begin_s, overview.end_s) == pytest.approx((0, 310e-6))
        lanes = {lane.name: lane for lane in overview.lanes}
        device = lanes["xpux:0"]
        buckets = [place * 300 // 310 for place in (5, 60, 200, 300)]
        assert [device.busy[bucket] for bucket in buckets] == [0, 100, 0, 100]
        assert sum(device.begun) == device.spans == 2
        assert sum(device.busy) == pytest.approx(120 / 310 * 300 * 100, rel=0.02)
        assert sum(lanes["interpreter"].begun) == 2

    def test_the_page_has_a_time_axis_and_a_checkbox_for_each_lane(self, client, trace):
        page = client.get(f"/profiles/{trace.pk}/trace/").text
        for lane in overview_of(trace).lanes:
            assert f'name="lane" value="{lane.number}" checked' in page
        axis = re.search(r'class="time-axis".*?</svg>', page, re.DOTALL).group()
        assert len(re.findall("<text", axis)) >= 3
        assert " ms</text>" in axis

    def test_a_small_trace_can_be_shown_completely(self, client, trace):
        page = client.get(f"/profiles/{trace.pk}/trace/").text
        assert "Show all" in page
        assert "too large" not in page

    def test_a_large_trace_starts_with_an_excerpt(self, client, large_trace):
        page = client.get(f"/profiles/{large_trace.pk}/trace/").text
        assert "too large to be drawn completely" in page
        overview = json.loads(re.search(r'id="overview-data"[^>]*>(.*?)</script>', page).group(1))
        begin, end = overview["first"]
        response = get_excerpt(client, large_trace, f"?begin_s={begin!r}&end_s={end!r}")
        assert 1_000 < len(response_events(response)) < 6_000

    def test_names_of_lanes_are_escaped(self, client, alice):
        name = "</script><img src=x>"
        events = json.loads(to_trace(*operator(10, "ADD", 0, 5, "a:0")))["traceEvents"]
        events[-1]["args"]["name"] = name
        page = make_import(alice, json.dumps(events).encode()).profile
        assert name not in client.get(f"/profiles/{page.pk}/trace/").text

    def test_the_page_is_translated_to_chinese(self, client, large_trace):
        address = f"/profiles/{large_trace.pk}/trace/"
        page = client.get(address, headers={"Accept-Language": "zh-hans"}).text
        for word in ("概览", "显示这一部分", "显示第一部分", "无法一次画出"):
            assert word in page
        for word in ("Overview", "Show th", "too large", "From (s)"):
            assert word not in page

    def test_curves_of_counters_have_a_time_axis(self, client, trace):
        page = whole_page(client, f"/profiles/{trace.pk}/")
        figures = re.findall(r'<figure class="trace__curve".*?</figure>', page, re.DOTALL)
        assert figures
        assert [figure for figure in figures if len(re.findall("<text", figure)) < 2] == []


class TestSizes:
    def test_a_trace_may_be_larger_than_a_profile(self, alice, settings):
        settings.PROFILE_SIZE_LIMIT_BYTES = 1_000_000
        settings.TRACE_SIZE_LIMIT_BYTES = 2_000_000
        assert make_import(alice, RESNET.read_bytes()).state == "ready"

    def test_a_trace_over_the_size_limit_is_refused_when_it_is_read(self, alice, settings):
        settings.PROFILE_SIZE_LIMIT_BYTES = 3_000_000
        settings.TRACE_SIZE_LIMIT_BYTES = 1_000_000
        opened = make_import(alice, RESNET.read_bytes())
        assert (opened.state, opened.problem) == ("failed", "too_large")

    def test_a_profile_has_its_own_size_limit(self, alice, settings):
        data = good_profile("tiny")
        settings.PROFILE_SIZE_LIMIT_BYTES = len(data) - 1
        opened = make_import(alice, data)
        assert (opened.state, opened.problem) == ("failed", "too_large")

    def test_the_announced_size_is_checked_by_the_kind_of_file(self, client, alice):
        limit = 1 << 30
        for head, status in ((b'{"traceEvents":[', 201), (b'{"graph_exec":{', 422)):
            body = {"files": [file_request(head) | {"size_bytes": limit + 5}]}
            url = "/api/v1/profiles/opened/"
            response = client.post(url, body, content_type="application/json")
            assert response.status_code == status, response.content


class TestProgress:
    def test_the_api_reports_progress(self, client, alice):
        reports = []

        def set_and_report(*arguments, **more):
            set_cache(*arguments, **more)
            reports.append(client.get(f"/api/v1/profiles/opened/{upload.pk}/").json()["progress"])

        upload = make_upload(alice, repeat_trace(RESNET, 4))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(progress, "_PAUSE_S", 0)
            patch.setattr(readers, "_POLL_S", 0.01)
            set_cache = progress.cache.set
            patch.setattr(progress.cache, "set", set_and_report)
            confirm_upload(upload)
            build_opened(upload.pk)
        percents = [report["percent"] for report in reports]
        assert percents[0] < 50
        assert {"Downloading" in report["text"] for report in reports} == {True, False}
        assert max(percents) == 100
        assert all("%" in report["text"] or "adding up" in report["text"] for report in reports)
        assert client.get(f"/api/v1/profiles/opened/{upload.pk}/").json()["progress"] is None

    @pytest.mark.parametrize(
        ("language", "words"),
        [("en", "42 % of the file has been read."), ("zh-hans", "已读取文件的 42 %。")],
    )
    def test_progress_is_shown_in_both_languages(self, client, alice, language, words):
        upload = make_upload(alice, MLP.read_bytes())
        confirm_upload(upload)
        progress.ProgressReporter(upload).report("reading", 42 * upload.size_bytes // 100 + 1)
        headers = {"Accept-Language": language}
        page = client.get(f"/profiles/opened/{upload.pk}/", headers=headers)
        assert words in page.text
        assert 'max="100" value="42"' in page.text
        response = caller(alice).get(f"/api/v1/profiles/opened/{upload.pk}/", headers=headers)
        assert response.json()["progress"] == {"step": "reading", "percent": 42, "text": words}

    def test_an_import_works_without_the_cache(self, alice, monkeypatch):
        def raise_connection_error(*_, **__):
            raise ConnectionError

        monkeypatch.setattr(progress.cache, "set", raise_connection_error)
        assert make_import(alice, MLP.read_bytes()).state == "ready"
