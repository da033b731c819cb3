"""A memory plan in a real browser: drawn, reached by keyboard, joined with the operators' table."""

import pytest
from django.test import Client
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from profiles.tests.opened import make_opened
from profiles.tests.static_plans import graph_of, plan_of
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.tests.browser.conftest import DESK, PHONE
from webprofile.tests.browser.pages import turn_wheel

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

FIGURE = "#picture-static-memory"


class Page:
    """The page of one run, at its memory plan."""

    def __init__(self, browser, address: str) -> None:
        self.browser = browser
        browser.get(address)

    def js(self, script: str, *arguments):
        return self.browser.execute_script(script, *arguments)

    def wait(self, condition, what: str) -> None:
        WebDriverWait(self.browser, 15, 0.05).until(lambda _: condition(), f"never saw {what}")

    def part(self, name: str):
        return self.browser.find_element(By.CSS_SELECTOR, f"{FIGURE} [data-part={name}]")

    def draw(self) -> None:
        figure = self.browser.find_element(By.CSS_SELECTOR, FIGURE)
        self.js("arguments[0].scrollIntoView()", figure)
        self.wait(lambda: figure.get_attribute("data-state") == "ready", "the picture")

    def keys(self, *keys: str) -> str:
        """What is said after these keys."""
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

    def complaints(self) -> list[str]:
        log = self.browser.get_log("browser")
        return [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]


@pytest.fixture
def open_plan(browser, storage, live_server):
    def opened(*files: bytes, query: str = "") -> Page:
        owner = make_user("alice")
        upload = make_opened(owner, *files, name="a plan")
        client = Client()
        client.force_login(owner)
        browser.get(f"{live_server.url}/favicon.ico")
        browser.add_cookie({"name": "sessionid", "value": client.cookies["sessionid"].value})
        return Page(browser, f"{live_server.url}/profiles/{upload.profile.pk}/{query}")

    return opened


def test_a_plan_alone_is_drawn_and_told_by_the_keyboard(open_plan):
    page = open_plan(plan_of("resnet18_opt"), graph_of("resnet18_opt"))
    page.draw()
    assert page.colours_drawn() > 10
    first = page.keys(Keys.ARROW_RIGHT)
    assert "written by" in first
    assert "(1 / 55)" in first
    page.keys("+", "+", Keys.END)
    assert "(55 / 55)" in page.keys(Keys.END)
    assert turn_wheel(page.browser, page.part("stage")) == pytest.approx(-60, abs=1)
    assert page.js("return location.search") == ""
    assert page.complaints() == []


def test_a_tensor_leads_to_the_operator_that_writes_it(open_plan):
    files = [good_profile("resnet18_opt"), plan_of("resnet18_opt"), graph_of("resnet18_opt")]
    page = open_plan(*files)
    page.draw()
    page.keys(Keys.ARROW_RIGHT, Keys.ENTER)
    page.wait(lambda: page.js("return location.search").startswith("?op="), "the selection")
    chosen = page.js("return location.search")
    page.js("document.querySelector('#static-memory-chunks tr:last-child a[data-row]').click()")
    page.wait(lambda: page.js("return location.search") not in ("", chosen), "another one")
    marks = "return arguments[0].childElementCount"
    page.wait(lambda: page.js(marks, page.part("marks")) > 0, "its mark")
    assert page.complaints() == []


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_nothing_is_wider_than_the_page(open_plan, browser, screenshots, size):
    browser.set_window_size(*size)
    files = [good_profile("bert_tiny"), plan_of("bert_tiny"), graph_of("bert_tiny")]
    page = open_plan(*files, query="?peak=2&chunk=layer")
    page.draw()
    wide = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.js(wide)
    if screenshots:
        browser.set_window_size(size[0], 3_500)
        for theme in ("light", "dark"):
            page.js("document.documentElement.dataset.theme = arguments[0]", theme)
            page.js("dispatchEvent(new Event('colours'))")
            section = browser.find_element(By.ID, "static-memory")
            section.screenshot(str(screenshots / f"static-memory-{size[0]}-{theme}.png"))
