"""Browser tests of the explanations of statistics, without JavaScript and by keyboard."""

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tasks.models import Task
from tasks.tests.make import make_user
from webprofile.tests.browser.conftest import DESK, PHONE, resize
from webprofile.tests.browser.pages import make_measured

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def address(storage, live_server, browser, log_in) -> str:
    """Address of a result with a clean pass and three profiled ones. JavaScript is disabled."""
    alice = make_user()
    make_measured(alice)
    log_in(alice)
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    return f"{live_server.url}/tasks/{Task.objects.get().pk}/details/"


def test_explanation_of_a_figure_opens_beside_it_and_escape_closes_it(browser, address):
    for size in (DESK, PHONE):
        resize(browser, size)
        browser.get(address)
        mark = browser.find_element(By.CSS_SELECTOR, "[popovertarget=about-statistics-coverage]")
        text = browser.find_element(By.ID, "about-statistics-coverage")
        assert not text.is_displayed()
        mark.send_keys(Keys.ENTER)
        assert text.is_displayed()
        assert "sum of the operators on the device" in text.text
        place = text.rect
        assert place["x"] >= 0
        assert place["x"] + place["width"] <= size[0]
        assert abs(place["y"] - mark.rect["y"]) < place["height"] + 60
        mark.send_keys(Keys.ESCAPE)
        assert not text.is_displayed()
        bars = browser.find_elements(By.CSS_SELECTOR, ".histogram__bar")
        assert len(bars) >= 5
        assert {bar.value_of_css_property("fill") for bar in bars} != {"rgb(0, 0, 0)"}
    blocked = [
        entry for entry in browser.get_log("browser") if "Content Security" in entry["message"]
    ]
    assert blocked == []
