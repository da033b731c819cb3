"""Browser tests of the layout of a result: header, totals, advice, operators."""

import pytest

from profiles.tests.flows import MLP as FLOW
from profiles.tests.imports import make_import
from profiles.tests.traces import MLP as TRACE
from tasks.models import Task
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.tests.browser.conftest import PHONE, PageObject, resize
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


class ResultPage(PageObject):
    """A result in a window of some size."""

    def open(self, path: str, size: tuple[int, int] = LAPTOP) -> None:
        resize(self.browser, size)
        self.browser.get(self.address + path)
        self.until(lambda: self.all("#strip:not([aria-busy])"), "the timeline")

    def vertical_extents(self, css: str) -> list[list[float]]:
        script = (
            "return [...document.querySelectorAll(arguments[0])].map("
            "(row) => [row.getBoundingClientRect().top, row.getBoundingClientRect().bottom])"
        )
        return self.js(script, css)

    def check_operators_are_visible(self) -> None:
        """Many operators are visible without scrolling."""
        rows = sorted(self.vertical_extents(".grid__body [data-row]"))
        end = self.vertical_extents(".grid")[0][1]
        assert rows[0][0] <= MAX_TOP_PX
        visible = sum(bottom <= end for _top, bottom in rows)
        assert visible >= min(MIN_ROWS, len(rows))
        assert self.js("return document.documentElement.scrollHeight") <= LAPTOP[1]

    def check_fits(self) -> None:
        assert not self.is_too_wide()
        # header and first lines are completely visible or end with an ellipsis
        for css in ("#summary", "#advice-lines", ".operator-table__tools"):
            inner, outer = self.js(
                "const e = document.querySelector(arguments[0]);"
                "return [e.scrollWidth, e.clientWidth]",
                css,
            )
            assert inner <= outer, css

    def check_click_moves_nothing(self) -> None:
        """Select an operator and close its facts."""
        row = self.all(".grid__body [data-row]")[3]
        self.js("arguments[0].scrollIntoView({block: 'center'})", row)
        place = "return arguments[0].getBoundingClientRect().top"
        before = self.js(place, row)
        row.find_element("css selector", "[data-column=device]").click()
        self.until(lambda: self.all("#operator-facts h3"), "the facts of the operator")
        assert row.get_attribute("aria-selected") == "true"
        assert self.js(place, row) == before
        self.find("#operator-facts [data-clear]").click()
        self.until(lambda: row.get_attribute("aria-selected") == "false", "no selection")
        assert self.js(place, row) == before


@pytest.fixture
def owner():
    return make_user("alice")


@pytest.fixture
def page(browser, storage, live_server, log_in, owner) -> ResultPage:
    log_in(owner)
    return ResultPage(browser, live_server.url)


@pytest.mark.parametrize("make", [make_imported, make_traced])
def test_operators_are_visible_without_scrolling(page, owner, make):
    page.open(make(owner))
    page.check_operators_are_visible()


def test_click_on_an_operator_does_not_move_it(page, owner):
    page.open(make_measured(owner))
    page.check_operators_are_visible()
    page.check_click_moves_nothing()


def test_result_with_warnings_fits_the_window(page, owner):
    path = make_disturbed(owner)
    page.open(path)
    page.check_operators_are_visible()
    page.check_fits()
    page.open(path, PHONE)
    page.check_fits()


def test_figures_and_operators_come_before_advice_on_a_phone(page, owner):
    page.open(make_measured(owner), PHONE)
    tops = [
        page.vertical_extents(css)[0][0]
        for css in ("#summary", ".grid__body [data-row]", "#advice-lines")
    ]
    assert tops == sorted(tops)
    page.check_click_moves_nothing()


def make_with_inputs(owner) -> str:
    address = make_disturbed(owner)
    Task.objects.update(
        inputs=[{"name": f"layer{n}.weight", "text": "1, 2"} for n in range(2)],
        options={"fast_run": True, "iter": 100, "thread": 4, "enable_nchw44": True},
    )
    return address


def test_facts_of_the_run_are_in_sight_beside_warnings(page, owner):
    page.open(make_with_inputs(owner))
    for size in (LAPTOP, (1280, 900), (1200, 900), PHONE):
        resize(page.browser, size)
        top, bottom = page.vertical_extents("#run-facts")[0]
        facts, extents = page.all("#run-facts > div"), page.vertical_extents("#run-facts > div")
        for fact, (start, end) in zip(facts, extents, strict=True):
            assert top <= start < end <= bottom + 1, fact.get_attribute("textContent")
            assert fact.rect["width"] > 40, fact.get_attribute("textContent")
            assert fact.rect["x"] + fact.rect["width"] <= size[0], fact.get_attribute("textContent")


def test_selects_of_filters_show_their_whole_text(page, owner):
    page.browser.get(f"{page.address}{make_imported(owner)}?filters=1")
    page.js("document.querySelector('#filter-order').closest('details').open = true")
    for size in (LAPTOP, PHONE):
        resize(page.browser, size)
        widths = page.js(WIDTHS_OF_SELECTS)
        assert len(widths) == 4
        assert [width for width, needed in widths if width < needed] == []
        box, needed = page.js(
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
