"""Browser tests of a comparison: filters and selection without reloads, chart, graph."""

import pytest

from profiles.tests.pages import make_result
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.tests.browser.conftest import PageObject

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


class ComparePage(PageObject):
    """A comparison."""

    def open(self, query: str = "") -> None:
        self.browser.get(self.address + query)

    def wait(self, script: str) -> None:
        self.until(lambda: self.js(f"return {script}"), script)

    def statuses(self) -> set[str]:
        cells = "document.querySelectorAll('#rows td[data-status]')"
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


def test_operator_of_the_table_is_selected_in_the_graph(page):
    page.open("&view=graph")
    page.wait("document.querySelector('#graph').dataset.state === 'drawn'")
    legend = page.js("return document.querySelector('#graph [data-graph=legend]').children.length")
    assert legend == 9
    page.click("#rows tbody tr:nth-child(1) .operator__name")
    page.wait("new URLSearchParams(location.search).has('op')")
    assert page.js("return document.querySelector('#graph').dataset.state") == "drawn"
    assert page.console_errors() == []
