"""Browser tests of a trace: Perfetto in its frame, without prompts and external requests."""

import gzip

import pytest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.remote.webelement import WebElement

from accounts.models import User
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
WINDOW = (1440, 900)


class TimelinePage(PageObject):
    """The page of one trace."""

    levels = ("SEVERE", "WARNING")

    def __init__(self, browser, address: str, owner: User) -> None:
        super().__init__(browser, address)
        self.owner = owner

    def import_file(self, content: bytes, name: str) -> None:
        """Import the trace or profile that `open` shows."""
        self.upload = make_import(self.owner, content, name=name)

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

    def enter_range(self, begin_s: str, end_s: str) -> WebElement:
        """Enter a range in the overview; return the last field."""
        for name, value in (("begin_s", begin_s), ("end_s", end_s)):
            field = self.find(f"[name={name}]")
            field.clear()
            field.send_keys(value)
        return field

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

    def check_controls(self) -> None:
        """The controls above the trace take one line, and the trace the rest of the window."""
        bar, stage = self.find(".timeline__bar").rect, self.find(".timeline__stage").rect
        assert bar["height"] <= 36
        assert stage["y"] <= 96
        assert stage["y"] + stage["height"] <= WINDOW[1]
        assert self.js("return document.documentElement.scrollHeight") <= WINDOW[1]
        resize(self.browser, PHONE)
        assert not self.is_too_wide()
        resize(self.browser, WINDOW)

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
    address = live_server.url.replace("localhost", request.param)
    log_in(owner, address)
    page = TimelinePage(browser, address, owner)
    page.import_file(MLP.read_bytes(), name="mlp")
    return page


def test_perfetto_shows_a_trace_in_the_colours_of_the_page_without_external_requests(timeline):
    resize(timeline.browser, WINDOW)
    set_colour_scheme(timeline.browser, "dark")
    timeline.open("drawn")
    assert timeline.status == ""
    timeline.check_controls()
    assert is_dark(timeline)
    set_colour_scheme(timeline.browser, "light")
    timeline.until(lambda: not is_dark(timeline), "a light trace")
    # the user's choice comes before that of the system
    timeline.js("document.documentElement.dataset.theme = 'dark'")
    timeline.until(lambda: is_dark(timeline), "a dark trace")
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
def test_timeline_of_a_profile_opens_from_its_page(timeline):
    resize(timeline.browser, WINDOW)
    timeline.import_file(good_profile("resnet18"), name="resnet " * 20)
    timeline.browser.get(f"{timeline.address}/profiles/{timeline.upload.profile.pk}/timeline/")
    timeline.find("#trace-timeline").click()
    timeline.wait_for("drawn")
    assert timeline.status == ""
    timeline.check_controls()
    timeline.inside("Device", "Host", "interpreter")
    timeline.browser.switch_to.default_content()
    assert timeline.console_errors() == []


@pytest.mark.parametrize("timeline", ["localhost"], indirect=True)
def test_excerpts_of_a_large_trace_are_chosen_by_mouse_and_keyboard(timeline, settings):
    # several times smaller than the trace
    settings.TRACE_CUT_LIMIT_BYTES = 1_500_000
    timeline.import_file(repeat_trace(RESNET, 4), name="large")
    timeline.open("drawn")
    timeline.open_overview()
    assert timeline.status.startswith("Shown: 0 s to 0.0")
    assert timeline.find("[data-overview=first]").is_displayed()
    timeline.inside("interpreter")
    timeline.browser.switch_to.default_content()
    assert timeline.console_errors() == []
    refuse_too_large_excerpt(timeline)
    choose_by_mouse(timeline)
    choose_by_keyboard(timeline)
    # the URL contains the choice, so that a reload shows the same
    timeline.browser.refresh()
    timeline.wait_until_status("Shown: 0.02 s to 0.0335 s")
    timeline.open_overview()
    boxes = timeline.all("input[name=lane]")
    assert [box.is_selected() for box in boxes] == [False, False, True]


def refuse_too_large_excerpt(timeline: TimelinePage) -> None:
    timeline.enter_range("0", "0.13")
    assert "Choose a shorter range" in timeline.find("[data-overview=about]").text
    timeline.find("#overview [type=submit]").click()
    timeline.wait_for("failed")
    assert "the limit is 1.43 MiB" in timeline.status


def choose_by_mouse(timeline: TimelinePage) -> None:
    timeline.open_overview()
    area = timeline.find("[data-overview=area]")
    wide = area.size["width"]
    mouse = ActionChains(timeline.browser)
    mouse.move_to_element_with_offset(area, -wide // 2 + wide * 26 // 100, 0).click_and_hold()
    mouse.move_by_offset(wide * 2 // 100, 5).release().perform()
    begin, end = timeline.range()
    assert begin == pytest.approx(0.26 * 0.1383, rel=0.03)
    assert end - begin == pytest.approx(0.02 * 0.1383, rel=0.1)
    assert "About" in timeline.find("[data-overview=about]").text
    timeline.find("#overview [type=submit]").click()
    timeline.wait_until_status(f"Shown: {begin}")
    assert f"begin_s={begin}" in timeline.browser.current_url
    timeline.wait_for("drawn")
    timeline.inside("worker")
    timeline.browser.switch_to.default_content()


def choose_by_keyboard(timeline: TimelinePage) -> None:
    """Choose a range and one of three threads."""
    timeline.open_overview()
    slider = timeline.find("[data-overview=end]")
    before = timeline.range()
    slider.send_keys(Keys.ARROW_LEFT * 3)
    assert timeline.range()[1] < before[1]
    assert slider.get_attribute("aria-valuetext") == f"{timeline.range()[1]} s"
    for box in timeline.all("input[name=lane]")[:2]:
        box.send_keys(Keys.SPACE)
    timeline.enter_range("0.02", "0.0335").send_keys(Keys.ENTER)
    timeline.wait_until_status("Shown: 0.02 s to 0.0335 s")
    assert not timeline.find("#overview").is_displayed()
    text = timeline.inside("xpux:0")
    assert "interpreter" not in text
    assert "worker" not in text
    timeline.browser.switch_to.default_content()


@pytest.mark.parametrize("timeline", ["localhost"], indirect=True)
class TestFailures:
    def test_missing_file_is_reported_on_the_page(self, timeline):
        (file,) = timeline.upload.files.all()
        object_store.delete(file.object_key)
        timeline.open("failed")
        assert timeline.status == "The file is no longer in storage."

    def test_truncated_trace_is_shown_once_a_failed_request_is_retried(self, timeline):
        timeline.import_file(MLP.read_bytes()[:400_000], name="cut")
        block_urls(timeline.browser, "*/trace/cut/*")
        timeline.open("failed")
        assert timeline.status == "The server did not respond. Try again in a moment."
        block_urls(timeline.browser)
        timeline.find("[data-timeline=again]").click()
        timeline.wait_for("drawn")
        timeline.inside("Process 6706")

    def test_perfetto_error_is_reported_without_a_dialog(self, timeline, monkeypatch):
        broken = gzip.compress(b"no trace at all" * 100), 0
        monkeypatch.setattr("profiles.ingest.trace_excerpts.trace_excerpt", lambda *_: broken)
        timeline.open("failed")
        assert timeline.status == "Perfetto could not show the trace."
        assert timeline.all(".timeline__frame") == []
