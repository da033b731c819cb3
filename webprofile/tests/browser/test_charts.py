"""Browser tests of the charts of a result page: drawing, selection, keyboard."""

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from profiles.tests.make import make_profile, to_json
from profiles.tests.pages import make_result
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.tests.browser.conftest import (
    PHONE,
    PageObject,
    block_urls,
    resize,
    set_colour_scheme,
)
from webprofile.tests.browser.pages import CHART_VIEW, turn_wheel

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

#: the view of each chart
VIEWS = {
    "timeline": "timeline", "types": "scopes", "cumulative": "scopes", "scopes": "scopes",
    "roofline": "roofline", "memory": "memory",
}  # fmt: skip
KINDS = tuple(VIEWS)


class ChartsPage(PageObject):
    """A result page with its charts."""

    levels = ("SEVERE", "WARNING")

    def show(self, kind: str) -> None:
        """Open the view of a chart."""
        tab = self.find(f".tabs [data-view={VIEWS[kind]}]")
        if tab.get_attribute("aria-current") is None:
            self.js("arguments[0].click()", tab)
        self.until(lambda: self.all(f"#chart-{kind}"), f"the view of {kind}")

    def part(self, kind: str, name: str):
        return self.find(f"#chart-{kind} [data-part={name}]")

    def state(self, kind: str) -> str:
        return self.find(f"#chart-{kind}").get_attribute("data-state")

    def draw(self, kind: str) -> None:
        self.show(kind)
        self.js("document.getElementById(arguments[0]).scrollIntoView()", f"chart-{kind}")
        self.until(lambda: self.state(kind) != "loading", f"{kind} drawn")
        assert self.state(kind) == "ready"

    def draw_all(self) -> None:
        for kind in KINDS:
            self.draw(kind)

    def keys(self, kind: str, *keys: str) -> None:
        self.show(kind)
        self.js("arguments[0].focus()", self.part(kind, "stage"))
        self.part(kind, "stage").send_keys(*keys)

    def announcement(self, kind: str) -> str:
        return self.part(kind, "live").get_attribute("textContent")

    def marks(self, kind: str) -> int:
        return self.js("return arguments[0].childElementCount", self.part(kind, "marks"))


@pytest.fixture
def open_charts(browser, storage, live_server, log_in):
    def make_page(profile: bytes, query: str = "") -> ChartsPage:
        owner = make_user("alice")
        result = make_result(profile, owner=owner)
        log_in(owner)
        browser.get(f"{live_server.url}/tasks/{result.attempt.task_id}/{query}")
        return ChartsPage(browser, live_server.url)

    return make_page


def test_charts_are_drawn_when_visible_and_share_the_selection(open_charts):
    page = open_charts(good_profile("resnet18"))
    page.until(lambda: page.all("#operator-table[data-state=ready]"), "the table")
    assert page.js("return typeof window.echarts") == "undefined"
    page.draw_all()
    page.keys("cumulative", Keys.ARROW_RIGHT)
    assert "ConvolutionForward" in page.announcement("cumulative")
    assert page.query == ""
    page.keys("cumulative", Keys.ENTER)
    page.until(lambda: page.query.startswith("?op="), "the selection in the address")
    # host and device; type; rank; leaf; point; step
    expected = dict(zip(KINDS, (2, 1, 1, 1, 1, 1), strict=True))
    # marks of a hidden chart are placed when its view is shown
    for kind in KINDS:
        page.show(kind)
        page.until(lambda kind=kind: page.marks(kind) == expected[kind], f"the mark of {kind}")
    page.keys("memory", Keys.ESCAPE)
    page.until(lambda: page.query == "", "no selection")
    assert [page.marks(kind) for kind in KINDS] == [0] * 6
    assert page.console_errors() == []


def test_chart_of_types_filters_the_table_and_has_one(open_charts):
    page = open_charts(good_profile("resnet18"))
    page.draw("types")
    page.js("document.querySelector('#chart-types summary').click()")
    cells = "return document.querySelector('#chart-types tbody tr').innerText.split(/\\s+/)"
    page.until(lambda: page.js(cells)[0] == "ConvolutionForward", "the table of types")
    page.keys("types", Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    page.until(lambda: page.js(LISTED_TYPES) == ["BatchNormForward"], "the filter")


def test_wheel_scrolls_the_page_and_zooms_with_ctrl(open_charts, browser):
    page = open_charts(good_profile("resnet18"))
    page.draw_all()
    for kind in ("types", "cumulative"):
        page.show(kind)
        assert turn_wheel(browser, page.part(kind, "stage")) == pytest.approx(-60, abs=1)
    page.show("timeline")
    before = page.js(PIXELS)
    assert turn_wheel(browser, page.part("timeline", "stage"), ctrl=True) == 0
    page.until(lambda: page.js(PIXELS) != before, "a zoomed timeline")
    assert page.console_errors() == []


def test_click_on_the_header_of_a_scope_opens_it(open_charts, browser):
    page = open_charts(good_profile("bert_tiny"))
    page.draw("scopes")
    page.until(lambda: page.js(EMPTY) < 0.2, "the tree")
    stage = page.part("scopes", "stage")
    header = (20 - stage.size["width"] // 2, 9 - stage.size["height"] // 2)
    before = page.js(SCOPES)
    ActionChains(browser).move_to_element_with_offset(stage, *header).click().perform()
    page.until(lambda: page.js(SCOPES) != before, "the opened scope")
    page.until(lambda: page.js(EMPTY) < 0.2, "what is in it")
    assert page.console_errors() == []


def test_collapsed_scopes_have_colours_of_types(open_charts):
    count = 900
    times = {str(number): (count - number) * 1e-6 for number in range(count)}
    names = {str(number): f"net.block{number % 30}.part{number}.conv" for number in range(count)}
    page = open_charts(to_json(make_profile(times, names=names)))
    page.draw("scopes")
    page.until(
        lambda: page.js(SHARE_OF_COLOUR, [0, 114, 178]) > 0.5, "a treemap in a type's colour"
    )


LISTED_TYPES = (
    "return [...new Set([...document.querySelectorAll('.grid__body [data-column=type]')]"
    ".map(cell => cell.textContent))]"
)
#: share of pixels above the navigation path that have a colour; #0072b2 is the first type
SHARE_OF_COLOUR = """
const canvas = document.querySelector("#chart-scopes canvas");
const {width, height} = canvas;
const copy = new OffscreenCanvas(width, height).getContext("2d");
copy.drawImage(canvas, 0, 0);
const {data} = copy.getImageData(0, 0, width, Math.floor(height * 0.9));
let count = 0;
for (let at = 0; at < data.length; at += 4) {
  if (arguments[0].every((value, place) => Math.abs(data[at + place] - value) < 8)) count += 1;
}
return count / (data.length / 4);
"""
SCOPES = "return document.querySelector('#chart-scopes canvas').toDataURL()"
#: share of white pixels above the navigation path
EMPTY = """
const canvas = document.querySelector("#chart-scopes canvas");
const {width, height} = canvas;
const copy = new OffscreenCanvas(width, height).getContext("2d");
copy.drawImage(canvas, 0, 0);
const {data} = copy.getImageData(0, 0, width, Math.floor(height * 0.9));
let empty = 0;
for (let at = 0; at < data.length; at += 4) {
  const [red, green, blue, alpha] = data.subarray(at, at + 4);
  if (!alpha || (red > 250 && green > 250 && blue > 250)) empty += 1;
}
return empty / (data.length / 4);
"""


def test_timeline_zooms_in_and_out(open_charts):
    page = open_charts(good_profile("deep_loop"))
    page.draw("timeline")
    whole = _bars(page)
    page.keys("timeline", *("+" * 5))
    page.until(lambda: _bars(page) != whole, "finer bars")
    page.keys("timeline", "0")
    page.until(lambda: _bars(page) == whole, "the first bars")
    assert page.console_errors() == []


def test_timeline_zooms_by_exact_factors(open_charts):
    page = open_charts(good_profile("resnet18"))
    page.draw("timeline")

    def view() -> dict:
        return page.js(CHART_VIEW, page.part("timeline", "canvas"))

    whole = view()
    for buttons, parts in (("+++→→←", 8), ("−−", 2), ("−", 1)):
        for button in buttons:
            page.find(f"#chart-timeline [data-command={COMMANDS[button]}]").click()
        begin, end = view()["range"]
        assert end - begin == pytest.approx(whole["range"][1] / parts)
        # not moved by labels of the axis
        assert view()["edges"] == whole["edges"]
    assert view()["range"] == pytest.approx(whole["range"])


COMMANDS = {"+": "in", "−": "out", "←": "left", "→": "right"}


def _bars(page: ChartsPage) -> str:
    page.keys("timeline", Keys.HOME)
    return page.announcement("timeline").rpartition("/")[2]


def test_charts_fit_a_phone_and_follow_the_colour_scheme(open_charts, browser):
    set_colour_scheme(browser, "dark")
    resize(browser, PHONE, mobile=True)
    page = open_charts(good_profile("hostile_names"), "?op=2")
    page.draw_all()
    widths = "return [...document.querySelectorAll('.charts canvas')].map(c => c.clientWidth)"
    assert all(width <= PHONE[0] for width in page.js(widths))
    page.show("timeline")
    page.until(lambda: page.marks("timeline") == 2, "the marks")
    page.draw("timeline")
    before = page.js(PIXELS)
    set_colour_scheme(browser, "light")
    page.until(lambda: page.js(PIXELS) != before, "other colours")
    assert page.console_errors() == []


PIXELS = "return document.querySelector('#chart-timeline canvas').toDataURL()"


def test_failed_chart_can_be_retried(open_charts, browser):
    block_urls(browser, "*/charts/roofline/*")
    page = open_charts(good_profile("tiny"))
    page.show("roofline")
    page.until(lambda: page.state("roofline") == "error", "the error")
    block_urls(browser)
    page.part("roofline", "retry").click()
    page.until(lambda: page.state("roofline") == "ready", "the chart")
