"""A comparison in a real browser: filters and selection without reloads, picture, graph."""

import pytest
from django.test import Client
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from profiles.tests.pages import make_result
from tasks.tests.make import make_user
from testdata import good_profile

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def address(browser, storage, live_server):
    """The address of a comparison that the browser's reader may see."""
    alice = make_user()
    profiles = [make_result(good_profile(n), owner=alice) for n in ("resnet18", "resnet18_opt")]
    client = Client()
    client.force_login(alice)
    browser.get(live_server.url + "/favicon.ico")
    browser.add_cookie({"name": "sessionid", "value": client.cookies["sessionid"].value})
    return f"{live_server.url}/profiles/compare/?p={profiles[0].pk}&p={profiles[1].pk}"


class Page:
    """What a reader sees of a comparison."""

    def __init__(self, browser) -> None:
        self.browser = browser

    def js(self, script: str):
        return self.browser.execute_script(script)

    def wait(self, script: str) -> None:
        ignored = [StaleElementReferenceException]
        WebDriverWait(self.browser, 20, 0.05, ignored_exceptions=ignored).until(
            lambda _: self.js(f"return {script}"), script
        )

    def click(self, css: str) -> None:
        self.browser.find_element(By.CSS_SELECTOR, css).click()

    def statuses(self) -> set[str]:
        cells = "document.querySelectorAll('#rows td[data-status]')"
        return set(self.js(f"return [...{cells}].map((each) => each.dataset.status)"))

    def errors(self) -> list[str]:
        return [
            each["message"] for each in self.browser.get_log("browser") if each["level"] == "SEVERE"
        ]


def test_filter_selection_and_back_work_without_a_reload(browser, address):
    page = Page(browser)
    browser.get(address)
    page.js("window.unchanged = true")
    assert page.statuses() > {"fused"}
    page.click("[name=status][value=fused]")
    page.wait("new URLSearchParams(location.search).getAll('status').join() === 'fused'")
    page.wait("document.querySelectorAll('#rows tbody tr').length === 17")
    assert page.statuses() == {"fused"}
    assert "status=fused" in browser.find_element(By.ID, "export-csv").get_attribute("href")

    page.click("#rows tbody tr:nth-child(1) .operator__name")
    page.wait("document.querySelector('#selected') !== null")
    assert "ConvBiasForward" in browser.find_element(By.ID, "selected").text
    assert page.js("return document.querySelectorAll('[data-row][aria-current]').length") == 1
    assert "row=" in browser.current_url

    page.js("history.back()")
    page.wait("document.querySelector('#selected') === null")
    assert page.statuses() == {"fused"}
    assert page.js("return window.unchanged") is True
    assert page.errors() == []


def test_the_waterfall_is_drawn_when_it_comes_into_view_and_keeps_its_table(browser, address):
    page = Page(browser)
    browser.get(address)
    page.js("document.querySelector('#waterfall-chart').scrollIntoView()")
    page.wait("document.querySelector('#waterfall-chart canvas') !== null")
    assert page.js("return document.querySelectorAll('#waterfall tbody tr').length") == 15
    page.click("#waterfall-choices a:last-child")
    page.wait("new URLSearchParams(location.search).get('by') === 'scope'")
    page.wait("document.querySelector('#waterfall-chart canvas') !== null")
    assert page.errors() == []


def test_an_operator_of_the_table_is_selected_in_the_graph(browser, address):
    page = Page(browser)
    browser.get(address + "&view=graph")
    page.wait("document.querySelector('#graph').dataset.state === 'drawn'")
    legend = page.js("return document.querySelector('#graph [data-graph=legend]').children.length")
    assert legend == 9
    page.click("#rows tbody tr:nth-child(1) .operator__name")
    page.wait("new URLSearchParams(location.search).has('op')")
    assert page.js("return document.querySelector('#graph').dataset.state") == "drawn"
    assert page.errors() == []
