"""Browser tests of share links: created by their owner, read by anybody."""

import re

import pytest
from selenium.webdriver.common.by import By

from profiles.models import Share
from profiles.sharing import create_share
from profiles.tests.imports import make_import
from profiles.tests.pages import make_result
from profiles.tests.traces import RESNET as TRACE
from tasks.models import Task
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.tests.browser.conftest import PageObject
from webprofile.tests.browser.pages import MEASURED, make_measured

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


class SharedPage(PageObject):
    """The page behind a link."""

    def open(self, owner, kind, *ids, query: str = "") -> None:
        _, token = create_share(owner, kind=kind, ids=ids, parts=(), days=1)
        self.browser.get(f"{self.address}/s/{token}/{query}")

    def show(self, view: str, loaded: str) -> None:
        """Click a tab and wait for an element of its view."""
        self.find(f".tabs__tab[data-view={view}]").click()
        self.until(lambda: self.all(loaded), f"{view} was not loaded")


@pytest.fixture
def page(browser, live_server, storage) -> SharedPage:
    return SharedPage(browser, live_server.url)


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_owner", [False, True], ids=["nobody", "owner"])
def test_a_reader_uses_the_views_of_a_result(page, log_in, is_owner):
    owner = make_user("alice")
    if is_owner:
        log_in(owner)
    make_measured(owner)
    page.open(owner, "task", Task.objects.get(title=MEASURED).pk)
    page.until(lambda: page.all("#operator-table[data-state=ready]"))
    page.until(lambda: page.all(".strip:not([aria-busy])"))
    page.find(".grid__body [data-row]").click()
    page.until(lambda: page.all("#operator-facts .operator-panel__head"))
    page.show("timeline", "#chart-timeline[data-state=ready]")
    page.show("graph", "#graph[data-state=drawn]")
    page.show("roofline", "#chart-roofline[data-state=ready]")
    page.show("scopes", "#chart-scopes[data-state=ready]")
    page.show("details", "#measurement")
    assert not page.all(".tabs__tab[data-view=files]")
    for absent in ("#rerun", "#change", "#share", "#export", ".menu__user", "form[method=post]"):
        assert not page.all(absent), absent
    assert page.console_errors() == []
    names = {cookie["name"] for cookie in page.browser.get_cookies()}
    assert names == ({"sessionid"} if is_owner else set())


@pytest.mark.exhaustive
def test_a_reader_opens_a_trace_in_perfetto(page):
    owner = make_user("alice")
    profile = make_import(owner, TRACE.read_bytes(), name="step").profile
    page.open(owner, "import", profile.pk, query="timeline/")
    page.find("#trace-timeline").click()
    page.until(lambda: page.all("#timeline[data-state=drawn]"), "Perfetto did not open the trace")
    assert page.console_errors() == []


def test_a_reader_filters_and_selects_in_a_comparison(page):
    owner = make_user("alice")
    ids = [make_result(good_profile("tiny"), owner=owner).pk for _ in range(2)]
    page.open(owner, "comparison", *ids, query="?rows=all")
    page.js("document.querySelector('#compare-part a[href*=\\'row=\\']').click()")
    page.until(lambda: page.all("#compare-selected [data-close]"))
    assert "/s/mws_" in page.browser.current_url
    assert page.console_errors() == []


@pytest.mark.exhaustive
def test_two_clicks_share_a_result(page, log_in, live_server):
    owner = make_user("alice")
    profile = make_result(good_profile("tiny"), owner=owner)
    log_in(owner)
    page.browser.execute_cdp_cmd(
        "Browser.grantPermissions",
        {
            "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"],
            "browserContextId": page.browser.context_id,
        },
    )
    page.browser.get(f"{live_server.url}/tasks/{profile.attempt.task_id}/")
    page.find("#share").click()
    page.until(lambda: page.all("#share-create"))
    page.find("#share-create").click()
    page.until(lambda: page.all("#secret"), "no link was created")
    link = page.find("#secret").get_attribute("value")
    assert re.fullmatch(rf"{live_server.url}/s/mws_[\w-]{{43}}/", link)
    page.until(lambda: page.find("#share-made").text == "Link created and copied")
    assert page.js("return navigator.clipboard.readText()") == link
    assert Share.objects.get().ids == [profile.attempt.task_id]
    # still the page of the result, and ready for another link
    assert page.browser.current_url.endswith(f"/tasks/{profile.attempt.task_id}/")
    page.find("#share-dialog [method=dialog] button").click()
    page.find("#share").click()
    page.until(lambda: page.all("#share-create"))
    page.find("#share-list").click()
    page.until(lambda: page.all("#shares"))
    assert page.find("#shares").find_elements(By.CSS_SELECTOR, ".confirm")
    page.find("#share-create").click()
    page.until(lambda: Share.objects.count() == 2)
    page.until(lambda: page.all("#secret"))
    assert page.console_errors() == []
