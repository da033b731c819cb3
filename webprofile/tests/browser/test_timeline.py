"""Browser tests of a trace: Perfetto in its frame, without prompts and external requests."""

import gzip

import pytest
from selenium.webdriver import ActionChains, Keys

from profiles.tests.imports import make_import
from profiles.tests.traces import MLP, RESNET, repeat_trace
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.storage import storage as object_store
from webprofile.tests.browser.conftest import (
    NAMED,
    PHONE,
    PageObject,
    block_urls,
    resize,
    set_colour_scheme,
)
from webprofile.tests.browser.pages import LIST_REQUESTS, allow

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

#: of the trace, as MegEngine calls them
THREADS = ("interpreter", "worker", "xpux:0")


class TimelinePage(PageObject):
    """The page of one trace."""

    levels = ("SEVERE", "WARNING")

    def __init__(self, browser, address: str, upload) -> None:
        super().__init__(browser, address)
        self.upload = upload

    def open(self, state: str) -> None:
        self.browser.get(f"{self.address}/profiles/{self.upload.profile.pk}/trace/")
        self.wait_for(state)

    def wait_for(self, state: str) -> None:
        self.until(lambda: self.find("#timeline").get_attribute("data-state") == state, state)

    @property
    def status(self) -> str:
        return self.find("[data-timeline=status]").text

    def range(self) -> tuple[float, ...]:
        fields = (self.find(f"[name={name}]") for name in ("begin_s", "end_s"))
        return tuple(float(field.get_attribute("value")) for field in fields)

    def open_overview(self) -> None:
        if not self.find("#overview").is_displayed():
            self.find("#overview-menu summary").click()

    def show(self) -> None:
        """Draw the chosen excerpt."""
        self.find("#overview [type=submit]").click()
        self.wait_for("drawn")

    def wait_until_status(self, start: str) -> None:
        self.until(lambda: self.status.startswith(start), start)

    def inside(self, *expected: str) -> str:
        """Enter the frame, wait until it shows all `expected` texts, and return its text.

        Perfetto names the trace before it lists its threads.
        """
        self.browser.switch_to.frame(self.find(".timeline__frame"))
        return self.until(lambda: self._text_with(expected), f"{expected} in the frame")

    def _text_with(self, expected: tuple[str, ...]) -> str:
        text = self.find("body").text
        return text if all(part in text for part in expected) else ""

    def console_errors(self) -> list[str]:
        # Chromium reports a header of the site on each page over plain HTTP
        return [
            message for message in super().console_errors() if "Cross-Origin-Opener" not in message
        ]


@pytest.fixture(params=["localhost", NAMED])
def timeline(request, browser, storage, live_server, settings, log_in):
    """A trace on a site with this host name, and its owner logged in."""
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, NAMED]
    allow(settings, "connect-src", "'self'", settings.S3_PUBLIC_ENDPOINT_URL)
    owner = make_user("alice")
    upload = make_import(owner, MLP.read_bytes(), name="mlp")
    address = live_server.url.replace("localhost", request.param)
    log_in(owner, address)
    return TimelinePage(browser, address, upload)


def test_perfetto_shows_threads_without_external_requests(timeline):
    timeline.open("drawn")
    assert timeline.status == ""
    timeline.inside(*THREADS)
    assert timeline.all(".pf-modal-dialog") == []
    # an opaque origin, without cookies and storage of this site
    assert timeline.browser.execute_script("return self.origin") == "null"
    urls = timeline.browser.execute_async_script(LIST_REQUESTS)
    assert any("frontend_bundle" in url for url in urls)
    ours = (timeline.address, "blob:", "data:")
    assert [url for url in urls if not url.startswith(ours)] == []
    timeline.browser.switch_to.default_content()
    assert timeline.console_errors() == []


@pytest.mark.parametrize("timeline", ["localhost"], indirect=True)
def test_timeline_is_drawn_on_a_second_origin(timeline, settings, live_server):
    settings.SITE_URL = live_server.url
    settings.NETRON_ORIGIN = live_server.url.replace("localhost", "127.0.0.1")
    allow(settings, "frame-src", settings.NETRON_ORIGIN)
    timeline.open("drawn")
    frame = timeline.find(".timeline__frame")
    assert frame.get_attribute("src").startswith(settings.NETRON_ORIGIN)
    timeline.inside("interpreter")
    assert timeline.console_errors() == []


@pytest.mark.parametrize("timeline", ["localhost"], indirect=True)
class TestExcerpts:
    @pytest.fixture
    def large(self, timeline, settings):
        """A trace that is several times larger than the limit of an excerpt."""
        settings.TRACE_CUT_LIMIT_BYTES = 1_500_000
        upload = make_import(timeline.upload.owner, repeat_trace(RESNET, 4), name="large")
        large_timeline = TimelinePage(timeline.browser, timeline.address, upload)
        large_timeline.open("drawn")
        large_timeline.open_overview()
        return large_timeline

    def test_large_trace_starts_with_its_first_part(self, large):
        assert large.status.startswith("Shown: 0 s to 0.0")
        assert large.find("[data-overview=first]").is_displayed()
        large.inside("interpreter")
        large.browser.switch_to.default_content()
        assert large.console_errors() == []

    def test_excerpt_is_chosen_by_mouse(self, large):
        area = large.find("[data-overview=area]")
        wide = area.size["width"]
        mouse = ActionChains(large.browser)
        mouse.move_to_element_with_offset(area, -wide // 2 + wide * 26 // 100, 0).click_and_hold()
        mouse.move_by_offset(wide * 2 // 100, 5).release().perform()
        begin, end = large.range()
        assert begin == pytest.approx(0.26 * 0.1383, rel=0.03)
        assert end - begin == pytest.approx(0.02 * 0.1383, rel=0.1)
        assert "About" in large.find("[data-overview=about]").text
        large.show()
        assert large.status.startswith(f"Shown: {begin}")
        assert f"begin_s={begin}" in large.browser.current_url
        large.wait_for("drawn")
        large.inside("worker")

    def test_excerpt_and_threads_are_chosen_by_keyboard(self, large):
        slider = large.find("[data-overview=end]")
        before = large.range()
        slider.send_keys(Keys.ARROW_LEFT * 3)
        assert large.range()[1] < before[1]
        assert slider.get_attribute("aria-valuetext") == f"{large.range()[1]} s"
        for box in large.all("input[name=lane]")[:2]:
            box.send_keys(Keys.SPACE)
        for name, value in (("begin_s", "0.02"), ("end_s", "0.0335")):
            field = large.find(f"[name={name}]")
            field.clear()
            field.send_keys(value)
        field.send_keys(Keys.ENTER)
        large.wait_until_status("Shown: 0.02 s to 0.0335 s")
        assert not large.find("#overview").is_displayed()
        text = large.inside("xpux:0")
        assert "interpreter" not in text
        assert "worker" not in text
        large.browser.switch_to.default_content()
        # the URL contains the choice, so that a reload shows the same
        large.browser.refresh()
        large.wait_until_status("Shown: 0.02 s to 0.0335 s")
        large.open_overview()
        boxes = large.all("input[name=lane]")
        assert [box.is_selected() for box in boxes] == [False, False, True]

    def test_too_large_excerpt_is_refused(self, large):
        for name, value in (("begin_s", "0"), ("end_s", "0.13")):
            field = large.find(f"[name={name}]")
            field.clear()
            field.send_keys(value)
        assert "Choose a shorter range" in large.find("[data-overview=about]").text
        large.find("#overview [type=submit]").click()
        large.wait_for("failed")
        assert "the limit is 1.43 MiB" in large.status


@pytest.mark.parametrize("timeline", ["localhost"], indirect=True)
class TestFailures:
    def test_missing_file_is_reported_on_the_page(self, timeline):
        (file,) = timeline.upload.files.all()
        object_store.delete(file.object_key)
        timeline.open("failed")
        assert timeline.status == "The file is no longer in storage."

    def test_failed_request_can_be_retried(self, timeline):
        block_urls(timeline.browser, "*/trace/cut/*")
        timeline.open("failed")
        assert timeline.status == "The server did not respond. Try again in a moment."
        block_urls(timeline.browser)
        timeline.find("[data-timeline=again]").click()
        timeline.wait_for("drawn")

    def test_truncated_trace_is_shown(self, timeline):
        truncated = MLP.read_bytes()[:400_000]
        upload = make_import(timeline.upload.owner, truncated, name="cut")
        truncated_page = TimelinePage(timeline.browser, timeline.address, upload)
        truncated_page.open("drawn")
        truncated_page.inside("Process 6706")

    def test_perfetto_error_is_reported_without_a_dialog(self, timeline, monkeypatch):
        broken = gzip.compress(b"no trace at all" * 100), 0
        monkeypatch.setattr("profiles.ingest.trace_excerpts.trace_excerpt", lambda *_: broken)
        timeline.open("failed")
        assert timeline.status == "Perfetto could not show the trace."
        assert timeline.all(".timeline__frame") == []


@pytest.mark.parametrize("timeline", ["localhost"], indirect=True)
class TestPage:
    def test_profile_of_a_model_opens_from_its_timeline(self, timeline):
        upload = make_import(timeline.upload.owner, good_profile("resnet18"), name="resnet")
        profile = TimelinePage(timeline.browser, timeline.address, upload)
        profile.browser.get(f"{profile.address}/profiles/{upload.profile.pk}/timeline/")
        profile.find("#trace-timeline").click()
        profile.wait_for("drawn")
        assert profile.status == ""
        profile.inside("Device", "Host", "interpreter")
        profile.browser.switch_to.default_content()
        assert profile.console_errors() == []

    @pytest.mark.parametrize("kind", ["trace", "profile"])
    def test_controls_above_the_trace_take_one_line(self, timeline, kind):
        resize(timeline.browser, (1440, 900))
        if kind == "profile":
            content = good_profile("resnet18")
            timeline.upload = make_import(timeline.upload.owner, content, name="resnet " * 20)
        timeline.open("drawn")
        bar, stage = timeline.find(".timeline__bar").rect, timeline.find(".timeline__stage").rect
        assert bar["height"] <= 36
        assert stage["y"] <= 96
        assert stage["y"] + stage["height"] <= 900
        assert timeline.js("return document.documentElement.scrollHeight") <= 900
        resize(timeline.browser, PHONE)
        assert not timeline.is_too_wide()

    def test_colours_follow_the_theme_while_the_trace_is_open(self, timeline):
        set_colour_scheme(timeline.browser, "dark")
        timeline.open("drawn")
        assert is_dark(timeline)
        set_colour_scheme(timeline.browser, "light")
        timeline.until(lambda: not is_dark(timeline), "a light trace")
        # the user's choice comes before that of the system
        timeline.js("document.documentElement.dataset.theme = 'dark'")
        timeline.until(lambda: is_dark(timeline), "a dark trace")
        timeline.inside("interpreter")
        timeline.browser.switch_to.default_content()
        assert timeline.console_errors() == []


def is_dark(timeline: TimelinePage) -> bool:
    """Whether Perfetto shows its dark theme, by the background of its page."""
    timeline.browser.switch_to.frame(timeline.find(".timeline__frame"))
    try:
        return timeline.js(
            "const bar = document.querySelector('.pf-topbar, .topbar');"
            "const [r, g, b] = getComputedStyle(bar).backgroundColor.match(/[\\d.]+/g).map(Number);"
            "return r + g + b < 384"
        )
    finally:
        timeline.browser.switch_to.default_content()
