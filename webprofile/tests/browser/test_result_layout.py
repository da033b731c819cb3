"""Browser tests of the layout of a result: header, totals, advice, operators."""

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from profiles.tests.flows import MLP as FLOW
from profiles.tests.imports import make_import
from profiles.tests.traces import MLP as TRACE
from tasks.models import Task
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.tests.browser.conftest import PHONE, resize
from webprofile.tests.browser.results import LAPTOP, make_disturbed, make_measured

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

#: largest distance of the first row from the top, px, and least number of visible rows
MAX_TOP_PX, MIN_ROWS = 290, 22


def make_imported(owner) -> str:
    upload = make_import(owner, good_profile("resnet18"), name="from my laptop")
    return f"/profiles/{upload.profile.pk}/"


def make_traced(owner) -> str:
    upload = make_import(owner, TRACE.read_bytes(), FLOW.read_bytes(), name="a training step")
    return f"/profiles/{upload.profile.pk}/"


@pytest.fixture
def open_result(browser, storage, live_server, log_in):
    """Function that opens the result that `make` returns, in a window of this size."""

    def open_page(make, size=LAPTOP) -> None:
        owner = make_user("alice")
        log_in(owner)
        resize(browser, size)
        browser.get(live_server.url + make(owner))
        WebDriverWait(browser, 60).until(
            lambda _: browser.find_elements(By.CSS_SELECTOR, "#strip:not([aria-busy])")
        )

    return open_page


def vertical_extents(browser, css: str) -> list[list[float]]:
    script = (
        "return [...document.querySelectorAll(arguments[0])].map("
        "(row) => [row.getBoundingClientRect().top, row.getBoundingClientRect().bottom])"
    )
    return browser.execute_script(script, css)


@pytest.mark.parametrize("make", [make_measured, make_disturbed, make_imported, make_traced])
def test_operators_are_visible_without_scrolling(open_result, browser, make):
    open_result(make)
    rows = sorted(vertical_extents(browser, ".grid__body [data-row]"))
    end = vertical_extents(browser, ".grid")[0][1]
    assert rows[0][0] <= MAX_TOP_PX
    visible = sum(bottom <= end for _top, bottom in rows)
    assert visible >= min(MIN_ROWS, len(rows))
    assert browser.execute_script("return document.documentElement.scrollHeight") <= LAPTOP[1]


def make_with_inputs(owner) -> str:
    address = make_disturbed(owner)
    Task.objects.update(
        inputs=[{"name": f"layer{n}.weight", "text": "1, 2"} for n in range(2)],
        options={"fast_run": True, "iter": 100, "thread": 4, "enable_nchw44": True},
    )
    return address


@pytest.mark.parametrize("size", [LAPTOP, (1280, 900), (1200, 900), PHONE])
def test_facts_of_the_run_are_in_sight_beside_warnings(open_result, browser, size):
    open_result(make_with_inputs, size)
    facts = browser.find_elements(By.CSS_SELECTOR, "#run-facts > div")
    top, bottom = vertical_extents(browser, "#run-facts")[0]
    extents = vertical_extents(browser, "#run-facts > div")
    for fact, (start, end) in zip(facts, extents, strict=True):
        assert top <= start < end <= bottom + 1, fact.get_attribute("textContent")
        assert fact.rect["width"] > 40, fact.get_attribute("textContent")
        assert fact.rect["x"] + fact.rect["width"] <= size[0], fact.get_attribute("textContent")


def test_figures_and_operators_come_before_advice_on_a_phone(open_result, browser):
    open_result(make_measured, PHONE)
    tops = [
        vertical_extents(browser, css)[0][0]
        for css in ("#summary", ".grid__body [data-row]", "#advice-lines")
    ]
    assert tops == sorted(tops)


PHONE_AND_LAPTOP = [LAPTOP, PHONE]


@pytest.mark.parametrize("size", PHONE_AND_LAPTOP)
def test_click_on_a_row_does_not_move_it(open_result, browser, size):
    open_result(make_measured, size)
    row = browser.find_elements(By.CSS_SELECTOR, ".grid__body [data-row]")[3]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", row)
    place = "return arguments[0].getBoundingClientRect().top"
    before = browser.execute_script(place, row)
    row.find_element(By.CSS_SELECTOR, "[data-column=device]").click()
    facts = browser.find_element(By.ID, "operator-facts")
    WebDriverWait(browser, 60).until(lambda _: facts.find_elements(By.CSS_SELECTOR, "h3"))
    assert row.get_attribute("aria-selected") == "true"
    assert browser.execute_script(place, row) == before
    facts.find_element(By.CSS_SELECTOR, "[data-clear]").click()
    WebDriverWait(browser, 60).until(lambda _: row.get_attribute("aria-selected") == "false")
    assert browser.execute_script(place, row) == before


@pytest.mark.parametrize("size", PHONE_AND_LAPTOP)
def test_selects_of_filters_show_their_whole_text(open_result, browser, size):
    open_result(make_imported, size)
    browser.get(f"{browser.current_url}?filters=1")
    browser.execute_script("document.querySelector('#filter-order').closest('details').open = true")
    widths = browser.execute_script(WIDTHS_OF_SELECTS)
    assert len(widths) == 4
    assert [width for width, needed in widths if width < needed] == []
    box, needed = browser.execute_script(
        "const box = document.querySelector('.choices__box--fields');"
        "return [box.clientWidth, box.scrollWidth]"
    )
    assert needed <= box


#: width of each paired select, and the width that its longest option needs
WIDTHS_OF_SELECTS = """
return [...document.querySelectorAll(".table-form__pair select")].map((select) => {
    const copy = select.cloneNode(true);
    copy.style.cssText = "position: absolute; width: max-content; max-width: none";
    select.after(copy);
    const needed = copy.getBoundingClientRect().width;
    copy.remove();
    return [select.getBoundingClientRect().width, needed];
});
"""


@pytest.mark.parametrize("size", PHONE_AND_LAPTOP)
def test_result_fits_the_window(open_result, browser, size):
    open_result(make_disturbed, size)
    wide, room = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= room
    # header and first lines are completely visible or end with an ellipsis
    for css in ("#summary", "#advice-lines", ".operator-table__tools"):
        inner, outer = browser.execute_script(
            "const e = document.querySelector(arguments[0]); return [e.scrollWidth, e.clientWidth]",
            css,
        )
        assert inner <= outer, css
