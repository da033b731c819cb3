"""Browser tests of the tables of a result page: updates without reload, keyboard, selection."""

import json

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from profiles.tables.request import PAGE_ROWS
from profiles.tests.make import make_profile, to_json
from profiles.tests.pages import make_result
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.tests.browser.conftest import PageObject, block_urls

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

#: rows of a profile whose table is loaded in pieces
MANY = 2_500
#: where the selected row is in the scrolled box, px from its top
PLACE_IN_VIEW = (
    "return document.querySelector('tr[aria-selected=true]').getBoundingClientRect().top"
    " - document.querySelector('.operators__scroll').getBoundingClientRect().top"
)


class ResultPage(PageObject):
    """A result page."""

    def open(self, state: str = "") -> None:
        self.browser.get(self.address + state)
        self.until(lambda: self.js("return document.querySelector('[role=grid]') !== null"))
        # a mark that a reload would lose
        self.js("window.unchanged = true")

    def texts(self, css: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
        return self.js(script, css)

    def count(self, css: str) -> int:
        return len(self.all(css))

    def types(self) -> list[str]:
        return self.texts("#tables .operator__type")

    @property
    def announcement(self) -> str:
        return self.texts("#tables [data-said]")[0]

    def press(self, *keys: str) -> None:
        self.browser.switch_to.active_element.send_keys(*keys)

    def focused_place(self) -> int:
        return self.js(
            "return Number(document.activeElement.getAttribute('aria-rowindex') ?? -8) - 2"
        )


@pytest.fixture
def open_page(browser, storage, live_server, log_in):
    """Function that makes a result of profiles and logs in its owner."""

    def make_page(*profiles: bytes) -> ResultPage:
        owner = make_user("alice")
        profile = make_result(*profiles, owner=owner)
        log_in(owner)
        return ResultPage(browser, f"{live_server.url}/tasks/{profile.attempt.task_id}/result/")

    return make_page


def many_operators() -> bytes:
    times = {str(number): (MANY - number) * 1e-6 for number in range(MANY)}
    return to_json(make_profile(times))


def test_sorting_and_filtering_update_table_and_url(open_page):
    page = open_page(good_profile("resnet18"))
    page.open()
    assert page.types()[0] == "ConvolutionForward"
    page.find("#sort-device-mem").click()
    page.until(lambda: page.query == "?order=memory")
    assert page.find("#device-operators th[aria-sort]").text.startswith("Memory")
    page.find("#filter-text").send_keys("batchNORMf")
    page.until(lambda: set(page.types()) == {"BatchNormForward"})
    page.until(lambda: page.query == "?text=batchNORMf&order=memory")
    assert page.count(".presets [aria-current]") == 0
    assert page.count("#tables tbody [role=cell]") == 0

    page.browser.back()
    page.until(lambda: page.query == "?order=memory" and "173 rows" in page.announcement)
    assert page.find("#filter-text").get_attribute("value") == ""
    page.browser.back()
    page.until(lambda: page.query == "" and page.types()[0] == "ConvolutionForward")
    assert page.js("return window.unchanged") is True
    assert page.console_errors() == []


@pytest.mark.exhaustive
def test_filter_error_is_shown_at_its_field_and_the_table_stays(open_page):
    page = open_page(good_profile("tiny"))
    page.open()
    before = page.types()
    page.find("#choose-limits summary").click()
    # pasted, because each typed letter would send a request
    page.js(
        "const field = document.querySelector('#filter-name'); field.value = 'conv(';"
        "field.dispatchEvent(new InputEvent('input', { bubbles: true }))"
    )
    page.until(lambda: page.texts("#problem-name")[0] != "")
    assert page.find("#filter-name").get_attribute("aria-invalid") == "true"
    assert page.types() == before
    page.find("#filter-name").send_keys(Keys.BACKSPACE)
    page.until(lambda: page.texts("#problem-name")[0] == "")
    assert page.find("#filter-name").get_attribute("aria-invalid") is None
    page.until(lambda: "conv" in page.texts("#device-title code"))
    page.find("#filter-name").send_keys("(")
    page.until(lambda: page.count("#problem-name a"))
    page.find("#problem-name a").click()
    page.until(lambda: page.find("#filter-text").get_attribute("value") == "conv(")
    page.until(lambda: page.query == "?text=conv%28")
    assert page.find("#filter-name").get_attribute("value") == ""
    assert page.js("return window.unchanged") is True


@pytest.mark.exhaustive
def test_panel_distinguishes_an_unknown_operator_from_a_failed_request(open_page):
    page = open_page(good_profile("tiny"))
    page.open("?op=9999")
    page.until(lambda: page.texts("#operator-facts") == ["Operator not found."])
    block_urls(page.browser, "*part=1*")
    page.find("#tables tbody tr[data-row] .operator__type").click()
    page.until(lambda: "The server did not respond." in page.texts("#operator-facts")[0])


def test_preset_of_types_leads_to_operators_of_a_type(open_page):
    page = open_page(good_profile("resnet18"))
    page.open()
    page.find("#preset-types").click()
    page.until(lambda: "agg=sum" in page.query)
    page.find("#choose-limits summary").click()
    assert Select(page.find("#filter-agg")).first_selected_option.text == "sum"
    page.find("#tables tbody a").click()
    page.until(lambda: page.query == "?type=ConvolutionForward")
    assert page.js("return window.unchanged") is True
    assert set(page.types()) == {"ConvolutionForward"}


@pytest.mark.exhaustive
def test_long_table_loads_rows_while_scrolling_and_drops_far_ones(open_page):
    page = open_page(many_operators())
    page.open()
    assert page.count("#tables tbody tr[data-row]") == PAGE_ROWS
    height = page.js("return document.querySelector('.operators__scroll').scrollHeight")
    page.js("document.querySelector('.operators__scroll').scrollTop = arguments[0] / 2", height)
    page.until(lambda: page.count('tr[data-row="1250"]'))
    page.js("document.querySelector('.operators__scroll').scrollTop = arguments[0]", height)
    page.until(
        lambda: page.js(f"return document.querySelector('tr[data-row=\"{MANY - 1}\"]') !== null")
    )
    assert page.count("#tables tbody tr[data-row]") < 1_000
    after = page.js("return document.querySelector('.operators__scroll').scrollHeight")
    assert abs(after - height) < 2
    assert page.console_errors() == []


def test_keyboard_moves_selects_clears_and_filters(open_page):
    page = open_page(many_operators())
    page.open()
    page.js("document.querySelector('#tables tr[tabindex=\"0\"]').focus()")
    page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    page.until(lambda: page.focused_place() == 2)
    page.press(Keys.ENTER)
    page.until(lambda: page.query == "?op=2")
    page.until(lambda: "op2" in page.find("#operator-panel").text)
    assert page.texts("tr[aria-selected=true] .operators__name") == ["op2"]
    page.press(Keys.END)
    page.until(lambda: page.focused_place() == MANY - 1)
    page.press(Keys.ESCAPE)
    page.until(lambda: page.query == "")
    assert "op2" not in page.find("#operator-panel").text
    assert page.texts("tr[aria-selected=true]") == []
    page.press("/")
    assert page.js("return document.activeElement.id") == "filter-text"


def test_selected_row_is_scrolled_into_view(open_page):
    page = open_page(many_operators())
    page.open("?op=1700")
    page.until(lambda: page.texts("tr[aria-selected=true] .operators__name") == ["op1700"])
    visible = (
        "const r = document.querySelector('tr[aria-selected=true]').getBoundingClientRect();"
        "const b = document.querySelector('.operators__scroll').getBoundingClientRect();"
        "return r.top >= b.top && r.bottom <= b.bottom"
    )
    assert page.js(visible) is True
    page.js(
        "const page = document.querySelector('script[src*=\"result/page\"]').src;"
        "import(page.replace('page', 'selection')).then((module) => module.select(3, 'test'))"
    )
    page.until(lambda: page.texts("tr[aria-selected=true] .operators__name") == ["op3"])
    assert page.query == "?op=3"


@pytest.mark.exhaustive
def test_far_selected_row_shows_its_name_before_its_figures(open_page):
    page = open_page(many_operators())
    page.open()
    learnt = (
        "return performance.getEntriesByType('resource').some((e) => e.name.includes('/order/'))"
    )
    page.until(lambda: page.js(learnt))
    # hold responses with rows until the test releases them
    page.js(
        "window.held = []; const fetched = window.fetch;"
        "window.fetch = (url, ...rest) => String(url).includes('offset=')"
        " ? new Promise((go) => held.push(() => go(fetched(url, ...rest))))"
        " : fetched(url, ...rest);"
        "const page = document.querySelector('script[src*=\"result/page\"]').src;"
        "import(page.replace('page', 'selection')).then((module) => module.select(1700, 'test'))"
    )
    page.until(lambda: page.texts("tr[aria-selected=true] .operators__name") == ["op1700"])
    row = page.find("tr[aria-selected=true]")
    assert row.get_attribute("aria-busy") == "true"
    assert page.texts("tr[aria-selected=true] .operators__rank") == ["#1700"]
    assert page.texts("tr[aria-selected=true] .operators__time") == ["…"]
    expected = page.js(PLACE_IN_VIEW)
    operator = page.texts("tr[aria-selected=true] .operators__op")
    page.js("for (const go of held) go()")
    page.until(lambda: page.count("tr[aria-selected=true]:not([aria-busy])") == 1)
    assert page.count("tr[aria-selected=true]") == 1
    assert page.texts("tr[aria-selected=true] .operators__name") == ["op1700"]
    assert operator[0] in page.texts("tr[aria-selected=true] .operators__op")[0]
    assert page.texts("tr[aria-selected=true] .operators__time") != ["…"]
    assert abs(page.js(PLACE_IN_VIEW) - expected) < 1
    assert page.console_errors() == []


def test_chart_event_filters_the_table_by_type(open_page):
    page = open_page(good_profile("resnet18"))
    page.open()
    detail = json.dumps({"types": ["Elemwise"]})
    page.js(f"document.dispatchEvent(new CustomEvent('operators:filter', {{detail: {detail}}}))")
    page.until(lambda: page.query == "?type=Elemwise" and set(page.types()) == {"Elemwise"})


def test_html_in_names_is_text(open_page):
    page = open_page(good_profile("hostile_names"))
    page.open()
    assert (
        page.js("return document.querySelectorAll('#tables script, #tables img, #tables b').length")
        == 0
    )
    assert page.console_errors() == []


def test_operator_of_a_recommendation_is_selected_without_a_reload(open_page):
    page = open_page(good_profile("resnet18"))
    page.open()
    link = page.find("#advice-unfused_batch_norm [data-row='90']")
    page.js("arguments[0].scrollIntoView({block: 'center'})", link)
    # until its module is loaded, it is a plain link to the same selection
    page.until(lambda: page.js("return document.readyState") == "complete")
    link.click()

    page.until(lambda: page.query == "?op=90")
    page.until(lambda: link.get_attribute("aria-current") == "true")
    assert page.js("return window.unchanged") is True
    page.until(lambda: "batch_norm(conv1.Convolution" in page.find("#operator-panel").text)

    page.find("#operator-panel [data-clear]").click()
    page.until(lambda: link.get_attribute("aria-current") is None)
