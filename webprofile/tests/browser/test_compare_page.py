"""Browser tests of a comparison: filters and selection without reloads, chart, graph."""

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from accounts.models import User
from profiles.tests.pages import make_result
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.tests.browser.conftest import PHONE, PageObject, resize

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


class ComparePage(PageObject):
    """A comparison."""

    def open(self, query: str = "") -> None:
        self.browser.get(self.address + query)

    def wait(self, script: str) -> None:
        self.until(lambda: self.js(f"return {script}"), script)

    def statuses(self) -> set[str]:
        cells = "document.querySelectorAll('#rows [data-status]')"
        return set(self.js(f"return [...{cells}].map((cell) => cell.dataset.status)"))


@pytest.fixture
def page(browser, storage, live_server, log_in) -> ComparePage:
    """A comparison of two results of the user, who is logged in."""
    alice = make_user()
    profiles = [make_result(good_profile(n), owner=alice) for n in ("resnet18", "resnet18_opt")]
    log_in(alice)
    query = f"?p={profiles[0].pk}&p={profiles[1].pk}"
    return ComparePage(browser, f"{live_server.url}/profiles/compare/{query}")


def test_filter_selection_and_back_button_work_without_a_reload(page):
    page.open()
    page.js("window.unchanged = true")
    assert page.statuses() > {"fused"}
    page.click("[name=status][value=fused]")
    page.wait("new URLSearchParams(location.search).getAll('status').join() === 'fused'")
    page.wait("document.querySelectorAll('#rows tbody tr').length === 17")
    assert page.statuses() == {"fused"}
    assert "status=fused" in page.find("#export-csv").get_attribute("href")

    page.click("#rows tbody tr:nth-child(1) .operator__name")
    page.wait("document.querySelector('#selected') !== null")
    assert "ConvBiasForward" in page.find("#selected").text
    assert page.js("return document.querySelectorAll('[data-row][aria-current]').length") == 1
    assert "row=" in page.query

    page.js("history.back()")
    page.wait("document.querySelector('#selected') === null")
    assert page.statuses() == {"fused"}
    assert page.js("return window.unchanged") is True
    assert page.console_errors() == []


def test_waterfall_is_drawn_when_visible_and_keeps_its_table(page):
    page.open()
    page.js("document.querySelector('#waterfall-chart').scrollIntoView()")
    page.wait("document.querySelector('#waterfall-chart canvas') !== null")
    assert page.js("return document.querySelectorAll('#waterfall tbody tr').length") == 15
    # high enough for a row of text for each
    assert (
        page.js("return document.querySelector('#waterfall-chart canvas').clientHeight") > 15 * 20
    )
    page.click("#waterfall-choices a:last-child")
    page.wait("new URLSearchParams(location.search).get('by') === 'scope'")
    page.wait("document.querySelector('#waterfall-chart canvas') !== null")
    assert page.console_errors() == []


def test_rows_have_24_px_and_nothing_is_wider_than_a_phone(page):
    page.open("&rows=all")
    heights = "[...document.querySelectorAll('.compare-table tbody tr')].map((r) => r.offsetHeight)"
    found = page.js(f"return {heights}")
    assert len(found) > 50
    # the border of the table belongs to its last row
    assert max(found) <= 25
    assert sorted(found)[len(found) // 2] <= 24
    resize(page.browser, PHONE)
    assert page.js("return document.documentElement.scrollWidth <= innerWidth")
    # the change and its verdict are next to the name
    right = "getBoundingClientRect().right"
    change = f"document.querySelector('#rows tbody td:nth-child(5)').{right}"
    assert page.js(f"return {change} <= document.querySelector('#rows').parentNode.{right}")


@pytest.mark.exhaustive
def test_a_result_is_added_and_removed_on_the_page_of_a_comparison(page):
    third = make_result(good_profile("resnet18_fbs1"), owner=User.objects.get())
    page.open()
    Select(page.find("#compare-side")).select_by_value("host")
    page.wait("location.search.includes('side=host')")
    page.click("#add summary")
    page.wait("document.querySelectorAll('#add-results a').length === 1")
    page.find("#add-find").send_keys("nothing")
    page.wait("document.querySelector('#add-results').textContent.includes('No other matching')")
    page.js("document.querySelector('#add-find').value = ''")
    page.find("#add-find").send_keys("net")
    page.wait("document.querySelectorAll('#add-results a').length === 1")
    Select(page.find("#compare-side")).select_by_value("device")
    page.wait("!document.querySelector('#add-results a').href.includes('side=host')")
    Select(page.find("#compare-side")).select_by_value("host")
    page.wait("document.querySelector('#add-results a').href.includes('side=host')")
    page.click("#add-results a")
    page.wait("document.querySelectorAll('#runs li').length === 3")
    assert f"p={third.pk}&side=host" in page.query
    page.click("#runs li:nth-child(2) .compare-run__actions a:last-child")
    page.wait("document.querySelectorAll('#runs li').length === 2")
    assert page.query.endswith(f"p={third.pk}&side=host")
    Select(page.find("#compare-side")).select_by_value("device")
    page.wait("!location.search.includes('side=host')")
    page.click("#runs li:nth-child(2) .compare-run__actions a")
    page.wait(f"location.search.startsWith('?p={third.pk}&')")
    assert "side=host" not in page.query
    assert page.console_errors() == []


@pytest.mark.exhaustive
def test_timelines_are_loaded_when_opened_and_join_the_bars_of_a_row(page):
    page.open()
    loaded = "performance.getEntriesByType('resource').filter((e) => e.name.includes('timelines'))"
    assert page.js(f"return {loaded}.length") == 0
    page.click("#timelines summary")
    page.wait("document.querySelector('#chart-timelines').dataset.state === 'ready'")
    stage = page.find("#chart-timelines [data-part=stage]")
    stage.send_keys(Keys.END)
    marks = "document.querySelectorAll('#chart-timelines .chart__marks--cursor i')"
    # the last bar is one of B, and its counterparts in A are marked with it
    page.wait(f"new Set([...{marks}].map((m) => m.style.transform.split(',')[1])).size === 2")
    stage.send_keys(Keys.ENTER)
    page.wait("document.querySelector('#selected') !== null")
    assert "row=" in page.query
    assert (
        page.js("return document.querySelectorAll('#chart-timelines .chart__marks i').length") > 2
    )

    page.click("#chart-timelines [data-part=table] summary")
    page.wait("document.querySelectorAll('#chart-timelines tbody tr').length > 30")
    Select(page.find("#compare-side")).select_by_value("host")
    page.wait("document.querySelector('#chart-timelines').dataset.url.includes('side=host')")
    page.wait("document.querySelector('#chart-timelines').dataset.state === 'ready'")
    assert page.console_errors() == []


@pytest.mark.exhaustive
def test_timelines_end_when_others_replace_them(page):
    page.open("&side=host")
    page.click("#timelines summary")
    drawn = "document.querySelector('#chart-timelines').dataset.state === 'ready'"
    page.wait(drawn)
    page.js("window.old = document.querySelector('#chart-timelines')")
    Select(page.find("#compare-side")).select_by_value("device")
    page.wait("!window.old.isConnected")
    page.wait(drawn)
    canvas = "window.old.querySelector('[data-part=canvas]')"
    assert page.js(f"return window.echarts.getInstanceByDom({canvas}) === undefined")
    assert page.console_errors() == []


def test_letters_typed_while_rows_are_fetched_stay(page):
    page.open()
    page.js(HOLD_RESPONSES)
    page.find("#compare-text").send_keys("con")
    page.wait("window.held.length > 0")
    page.find("#compare-text").send_keys("v")
    page.js(RELEASE_RESPONSES)
    # the browser types where the caret is, a driver would begin at the end
    page.browser.switch_to.active_element.send_keys("1")
    asked = "return new URLSearchParams(location.search).get('q')"
    page.until(lambda: page.js(RELEASE_RESPONSES + asked) == "conv1", "its rows")
    page.find("#compare-text").send_keys(Keys.ARROW_LEFT, ".")
    page.until(lambda: page.js(RELEASE_RESPONSES + asked) == "conv.1", "other rows")
    field = "document.activeElement"
    assert page.js(f"return [{field}.id, {field}.selectionStart]") == ["compare-text", 5]
    assert page.console_errors() == []


HOLD_RESPONSES = """
const real = window.fetch;
window.held = [];
window.fetch = async (...request) => {
  const response = await real(...request);
  await new Promise((resolve) => window.held.push(resolve));
  return response;
};
"""
RELEASE_RESPONSES = "for (const release of window.held.splice(0)) release();"


@pytest.mark.exhaustive
def test_filter_keeps_the_graph_of_the_baseline(page):
    page.open("&graph=0")
    page.click("[name=status][value=fused]")
    page.wait("new URLSearchParams(location.search).has('status')")
    assert "graph=0" in page.query


@pytest.mark.exhaustive
def test_title_of_the_breakdown_names_a_result_that_has_nothing_in_common(page):
    alice = User.objects.get()
    others = [make_result(good_profile(name), owner=alice) for name in ("lstm", "lstm")]
    page.open("".join(f"&p={other.pk}" for other in others) + "&with=2")
    page.js("window.unchanged = true")
    assert page.find("#waterfall-title").text.startswith("A → C")
    page.click("#waterfall-choices a:nth-of-type(3)")
    page.wait("document.querySelector('#waterfall-title').textContent.startsWith('A → D')")
    assert page.js("return window.unchanged") is True


@pytest.mark.exhaustive
def test_graph_is_that_of_the_result_and_side_in_the_address(page):
    third = make_result(good_profile("resnet18_fbs1"), owner=User.objects.get())
    page.open(f"&p={third.pk}&view=graph#graph")
    page.wait(GRAPH_IS_DRAWN)
    page.js("window.unchanged = true")
    page.click("#waterfall-choices a:nth-of-type(2)")
    page.wait("document.querySelector('#graph').dataset.document.includes('with=2')")
    letters = "[...document.querySelectorAll('#graph-choices a')].map((link) => link.textContent)"
    assert page.js(f"return {letters}") == ["A", "C"]
    # browsers draw a frame only while it is in view
    page.js("document.querySelector('#graph').scrollIntoView()")
    page.wait(GRAPH_IS_DRAWN)
    page.browser.switch_to.frame(page.find(".graph__frame"))
    node = page.until(lambda: page.all(".graph-node")[10], "the nodes")
    # its id is the number and the name of the operator, and the page leaves out the numbers
    operator = node.get_attribute("id").partition("] ")[2].rpartition("[")[0]
    page.js("arguments[0].scrollIntoView({block: 'center'})", node)
    node.find_element("css selector", ".node-item-type").click()
    page.browser.switch_to.default_content()
    page.wait("document.querySelector('#selected') !== null")
    assert operator in page.find("#selected tbody:nth-of-type(3)").text

    Select(page.find("#compare-side")).select_by_value("host")
    fetched = "performance.getEntriesByType('resource').map(({ name }) => name)"
    page.wait(f"{fetched}.some((name) => /graph.*side=host/.test(name))")
    page.js("document.querySelector('#graph').scrollIntoView()")
    page.wait(GRAPH_IS_DRAWN)
    assert page.js("return window.unchanged") is True
    assert page.console_errors() == []


GRAPH_IS_DRAWN = "document.querySelector('#graph[data-state=drawn]:not([aria-busy])') !== null"


def test_operator_of_the_table_is_selected_in_the_graph(page):
    # the address of the link: browsers draw a frame only while it is in view
    page.open("&view=graph#graph")
    page.wait("document.querySelector('#graph').dataset.state === 'drawn'")
    # two single passes have no verdict, so nothing is coloured
    assert page.all("[data-graph=legend] li") == []
    page.click("#rows tbody tr:nth-child(1) .operator__name")
    page.wait("new URLSearchParams(location.search).has('op')")
    assert page.js("return document.querySelector('#graph').dataset.state") == "drawn"
    assert page.console_errors() == []
