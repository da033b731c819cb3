"""Browser tests of memory over time: drawing, search, keyboard, and the file as an image."""

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from profiles.tests.flows import MLP, RESNET, tensor, to_flow
from profiles.tests.imports import make_import
from tasks.tests.make import make_user
from webprofile.tests.browser.conftest import PageObject
from webprofile.tests.browser.pages import CHART_VIEW, turn_wheel

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


class MemoryFlowPage(PageObject):
    """A result page with memory over time."""

    levels = ("SEVERE", "WARNING")

    def part(self, name: str):
        return self.find(f"#memory-flow-chart [data-part={name}]")

    def draw(self) -> None:
        self.js("document.getElementById('memory-flow-chart').scrollIntoView()")
        chart = self.find("#memory-flow-chart")
        self.until(lambda: chart.get_attribute("data-state") == "ready", "chart drawn")

    def keys(self, *keys: str) -> None:
        self.js("arguments[0].focus()", self.part("stage"))
        self.part("stage").send_keys(*keys)

    @property
    def announcement(self) -> str:
        return self.part("live").get_attribute("textContent")

    @property
    def rows(self) -> list[str]:
        return self.js(
            "return [...document.querySelectorAll('#memory-flow-rows tbody th')]"
            ".map((cell) => cell.textContent.trim())"
        )


@pytest.fixture
def open_flow(browser, storage, live_server, log_in):
    def make_page(data: bytes, query: str = "") -> MemoryFlowPage:
        owner = make_user("alice")
        profile = make_import(owner, data).profile
        log_in(owner)
        flow = MemoryFlowPage(browser, f"{live_server.url}/profiles/{profile.pk}/memory/{query}")
        browser.get(flow.address)
        return flow

    return make_page


def test_memory_flow_is_drawn_and_keyboard_visits_tensors(open_flow):
    flow = open_flow(RESNET.read_bytes())
    flow.draw()
    assert flow.part("sentence").text.startswith("Maximum usage: 1.6 MiB")
    flow.keys(Keys.ARROW_RIGHT)
    assert "(1 / 589)" in flow.announcement
    flow.keys(Keys.END)
    assert "step[152].ADD:0" in flow.announcement or "(589 / 589)" in flow.announcement
    assert "45." in flow.announcement and "at 0x7f65" in flow.announcement
    tip = flow.part("tip")
    assert tip.is_displayed() and "256 B, 1 × 64 × 1 × 1 Float32" in tip.text
    flow.keys("+", "+", Keys.ARROW_LEFT, "0", Keys.ESCAPE)
    assert not flow.part("tip").is_displayed()
    assert turn_wheel(flow.browser, flow.part("stage")) == pytest.approx(-60, abs=1)
    assert flow.console_errors() == []


def test_charts_of_memory_are_aligned_and_zoom_by_exact_factors(open_flow):
    flow = open_flow(MLP.read_bytes())
    flow.draw()

    def view() -> dict:
        return flow.js(CHART_VIEW, flow.part("canvas"))

    curve, addresses = view()["edges"]
    assert curve == addresses
    span = view()["range"][1]
    for keys, parts in (("+++", 8), ("-", 4), ("--", 1)):
        flow.keys(*keys)
        begin, end = view()["range"]
        assert end - begin == pytest.approx(span / parts)
    assert view()["range"] == pytest.approx([0, span], abs=1e-6)


def test_search_updates_table_chart_and_url_without_a_reload(open_flow):
    flow = open_flow(MLP.read_bytes())
    flow.draw()
    flow.js("window.stays = true")
    Select(flow.find("#flow-every")).select_by_value("all")
    flow.until(lambda: "tensors=all" in flow.query and len(flow.rows) == 50, "all tensors")
    flow.find("#flow-tag").send_keys("fc1", Keys.ENTER)
    flow.until(lambda: flow.rows and all("fc1" in row for row in flow.rows), "tensors of fc1")
    assert flow.query == "?tag=fc1&tensors=all"
    flow.until(lambda: "fc1" in flow.part("notes").text, "the chart's note")
    assert flow.find("#memory-flow-status").get_attribute("textContent").strip()
    assert flow.js("return document.activeElement.id") == "flow-tag"
    flow.browser.back()
    flow.until(lambda: flow.query == "?tensors=all" and len(flow.rows) == 50, "all once more")
    flow.find("#memory-flow-tags a").click()
    flow.until(lambda: "tag=" in flow.query and len(flow.rows) < 50, "tensors of a tag")
    assert flow.js("return window.stays") is True
    assert flow.console_errors() == []


def test_a_search_that_fails_late_leaves_the_results_of_a_later_one(open_flow):
    flow = open_flow(MLP.read_bytes(), "?tensors=all")
    flow.draw()
    flow.js(HOLD_FIRST_SEARCH)
    flow.find("#flow-tag").send_keys("fc2", Keys.ENTER)
    flow.until(lambda: flow.js("return window.fail.length") == 2, "the chart and the table")
    flow.find("#flow-tag").clear()
    flow.find("#flow-tag").send_keys("fc1", Keys.ENTER)
    flow.until(lambda: flow.rows and all("fc1" in row for row in flow.rows), "tensors of fc1")
    flow.until(lambda: "fc1" in flow.part("notes").text, "the chart's note")
    status = flow.find("#memory-flow-status").get_attribute("textContent")
    flow.browser.execute_async_script(
        "for (const fail of window.fail) fail(); setTimeout(arguments[0])"
    )
    assert flow.find("#memory-flow-chart").get_attribute("data-state") == "ready"
    assert flow.find("#memory-flow-status").get_attribute("textContent") == status


#: requests for fc2 fail when the test calls the functions in `fail`
HOLD_FIRST_SEARCH = """
const real = window.fetch;
window.fail = [];
window.fetch = (url, ...rest) => String(url).includes("tag=fc2")
  ? new Promise((_, reject) => { window.fail.push(() => reject(new TypeError("no network"))); })
  : real(url, ...rest);
"""


def test_scripts_in_the_svg_do_not_run(open_flow):
    script = "<script>top.document.title = 'ran'; alert(1)</script>\n"
    handler = "<circle r='9' onload=\"top.document.title = 'ran'\"/>\n"
    data = to_flow(script, handler, tensor("a", at=64, size=64, begin=1, end=9))
    flow = open_flow(data)
    flow.js("document.querySelector('.memory-flow__original').open = true")
    image = flow.find(".memory-flow__image")
    flow.js("arguments[0].scrollIntoView()", image)
    flow.until(lambda: image.get_property("naturalWidth") > 0, "the image")
    assert "ran" not in flow.browser.title
    flow.browser.get(image.get_attribute("src"))
    # the browser saves the file and stays on the page
    assert "/memory-flow/image.svg" not in flow.js("return location.pathname")


def test_search_works_without_javascript(open_flow):
    flow = open_flow(MLP.read_bytes(), "?tag=fc2&tensors=all")
    flow.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    flow.browser.refresh()
    assert flow.rows and all("fc2" in row for row in flow.rows)
    flow.find("#flow-tag").clear()
    # sending a key does not wait until the next page is loaded
    flow.find("#flow-tag").send_keys("fc1", Keys.ENTER)
    flow.until(lambda: flow.rows and all("fc1" in row for row in flow.rows), "tensors of fc1")
    instead = "Charts need JavaScript"
    flow.until(lambda: instead in flow.find("#memory-flow-chart").text, "the sentence instead")
