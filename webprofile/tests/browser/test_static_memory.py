"""Browser tests of a memory plan: drawing, keyboard, link to the operators' table."""

import pytest
from selenium.webdriver.common.keys import Keys

from profiles.tests.imports import make_import
from profiles.tests.static_plans import graph_of, plan_of
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.tests.browser.conftest import PageObject
from webprofile.tests.browser.pages import turn_wheel

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

FIGURE = "#chart-static-memory"


class StaticMemoryPage(PageObject):
    """The page of a profile with its memory plan."""

    levels = ("SEVERE", "WARNING")

    def part(self, name: str):
        return self.find(f"{FIGURE} [data-part={name}]")

    def draw(self) -> None:
        figure = self.find(FIGURE)
        self.js("arguments[0].scrollIntoView()", figure)
        self.until(lambda: figure.get_attribute("data-state") == "ready", "the chart")

    def keys(self, *keys: str) -> str:
        """Press keys; return the announcement for screen readers."""
        self.js("arguments[0].focus()", self.part("stage"))
        self.part("stage").send_keys(*keys)
        return self.part("live").get_attribute("textContent")

    def colours_drawn(self) -> int:
        return self.js(
            """
            const canvas = document.querySelector(arguments[0] + " canvas");
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            return new Set(new Uint32Array(data.buffer)).size;
            """,
            FIGURE,
        )


@pytest.fixture
def open_plan(browser, storage, live_server, log_in):
    def make_page(*files: bytes) -> StaticMemoryPage:
        owner = make_user("alice")
        upload = make_import(owner, *files, name="a plan")
        log_in(owner)
        browser.get(f"{live_server.url}/profiles/{upload.profile.pk}/memory/")
        return StaticMemoryPage(browser, live_server.url)

    return make_page


def test_memory_plan_is_drawn_and_keyboard_visits_chunks(open_plan):
    page = open_plan(plan_of("resnet18_opt"), graph_of("resnet18_opt"))
    page.draw()
    assert page.colours_drawn() > 10
    first = page.keys(Keys.ARROW_RIGHT)
    assert "written by" in first
    assert "(1 / 55)" in first
    page.keys("+", "+", Keys.END)
    assert "(55 / 55)" in page.keys(Keys.END)
    assert turn_wheel(page.browser, page.part("stage")) == pytest.approx(-60, abs=1)
    assert page.query == ""
    assert page.console_errors() == []


def test_tensor_selects_the_operator_that_writes_it(open_plan):
    files = [good_profile("resnet18_opt"), plan_of("resnet18_opt"), graph_of("resnet18_opt")]
    page = open_plan(*files)
    page.draw()
    page.keys(Keys.ARROW_RIGHT, Keys.ENTER)
    page.until(lambda: page.query.startswith("?op="), "the selection")
    chosen = page.query
    page.js("document.querySelector('#static-memory-chunks tr:last-child a[data-row]').click()")
    page.until(lambda: page.query not in ("", chosen), "another one")
    marks = "return arguments[0].childElementCount"
    page.until(lambda: page.js(marks, page.part("marks")) > 0, "its mark")
    assert page.console_errors() == []
