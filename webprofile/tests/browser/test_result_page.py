"""Browser tests of a result: the table of operators, its keyboard, selection and views."""

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.mouse_button import MouseButton
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from profiles.comparison import loading
from profiles.tests.make import make_profile, to_json
from profiles.tests.pages import make_result
from profiles.tests.passes import another_pass
from tasks.baselines import pin_baseline
from tasks.models import Task
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.tests.browser.conftest import PageObject, block_urls

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

#: rows of a long profile
MANY = 2_500
IMPORT_SELECTION = (
    "const page = document.querySelector('script[src*=\"result/page\"]').src;"
    "import(page.replace('page', 'selection')).then((module) => module.select({}, 'test'))"
)


class ResultPage(PageObject):
    """A result page."""

    def open(self, state: str = "") -> None:
        self.browser.get(self.address + state)
        self.until(lambda: self.count("#operator-table[data-state=ready]"))
        # a mark that a reload would lose
        self.js("window.unchanged = true")

    def texts(self, css: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
        return self.js(script, css)

    def count(self, css: str) -> int:
        return len(self.all(css))

    def column(self, key: str) -> list[str]:
        """Return the texts of a column, in the order of the rows in view."""
        script = (
            "return [...document.querySelectorAll('.grid__body [role=row]')]"
            ".sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)"
            ".map(row => row.querySelector(`[data-column=${arguments[0]}]`)?.textContent ?? '')"
        )
        return self.js(script, key)

    def rows(self) -> list[int]:
        """Return the operators of the rows in view, in order."""
        script = (
            "return [...document.querySelectorAll('.grid__body [data-row]')]"
            ".sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map(row => Number(row.dataset.row))"
        )
        return self.js(script)

    def filter(self, text: str) -> None:
        field = self.find("#operator-filter")
        field.clear()
        field.send_keys(text)

    def sort(self, key: str) -> None:
        self.find(f"[data-sort={key}]").click()

    def toggle_column(self, key: str) -> None:
        self.find("[popovertarget=operator-columns]").click()
        choice = f"#operator-columns [value={key}]"
        # the list is made when it is opened
        self.until(lambda: self.all(choice), "the columns")
        self.find(choice).click()

    def press(self, *keys: str) -> None:
        self.browser.switch_to.active_element.send_keys(*keys)

    def click_finding(self) -> set[int]:
        """Click the operators of the first finding; return their rows."""
        button = self.find("#advice-lines [data-rows]")
        rows = {int(row) for row in button.get_attribute("data-rows").split(",")}
        button.click()
        return rows

    @property
    def selected(self) -> list[str]:
        return self.texts(".grid__row--selected [data-column=op]")


@pytest.fixture
def open_page(browser, storage, live_server, log_in):
    """Function that makes a result of profiles and logs in its owner."""

    def make_page(*profiles: bytes) -> ResultPage:
        owner = make_user("alice")
        profile = make_result(*profiles, owner=owner)
        log_in(owner)
        return ResultPage(browser, f"{live_server.url}/tasks/{profile.attempt.task_id}/")

    return make_page


def many_operators() -> bytes:
    times = {str(number): (MANY - number) * 1e-6 for number in range(MANY)}
    return to_json(make_profile(times))


def test_sorting_and_filtering_are_told_by_the_address(open_page):
    page = open_page(good_profile("resnet18"))
    page.open()
    assert page.column("type")[0] == "ConvolutionForward"
    page.sort("op")
    page.until(lambda: page.query == "?sort=op")
    assert page.texts("[aria-sort]") == ["Operator ↑"]
    page.filter("batchNORMf layer3")
    page.until(lambda: set(page.column("type")) == {"BatchNormForward"})
    page.until(lambda: page.query == "?sort=op&q=batchNORMf+layer3")
    assert all(text.startswith("layer3") for text in page.column("op"))
    assert page.find("#operator-count").text.startswith("5 operators")

    page.browser.back()
    page.until(lambda: page.query == "?sort=op")
    page.until(lambda: len(page.column("op")) > 20)
    assert page.find("#operator-filter").get_attribute("value") == ""
    page.browser.back()
    page.until(lambda: page.query == "" and page.column("type")[0] == "ConvolutionForward")
    assert page.js("return window.unchanged") is True

    page.filter("colour:red")
    page.until(lambda: page.find(".grid__empty").is_displayed())
    assert "colour" in page.find("#operator-filter-problem").text
    page.find(".grid__empty [data-clear-filter]").click()
    page.until(lambda: page.rows())
    page.until(lambda: page.query == "")

    page.open("?q=type%3Aelemwise&sort=-host")
    assert set(page.column("type")) == {"Elemwise"}
    assert page.find("#operator-filter").get_attribute("value") == "type:elemwise"
    assert page.console_errors() == []


def test_constants_are_behind_a_chip_and_groups_add_up_and_open(open_page):
    page = open_page(good_profile("resnet18"))
    page.open()
    assert "ImmutableTensor" not in page.column("type")
    chip = page.find("[data-table=constants]")
    assert chip.text == "+94 constants"
    chip.click()
    page.until(lambda: page.find("#operator-count").text.startswith("173 operators"))
    assert page.query == "?constants=1"
    assert chip.get_attribute("aria-pressed") == "true"
    chip.click()
    page.until(lambda: page.query == "")

    Select(page.find("[data-table=group]")).select_by_value("type")
    page.until(lambda: page.query == "?group=type")
    assert page.column("op")[0] == "▸ ConvolutionForward ×20"
    page.find(".grid__body [role=row]").click()
    page.until(lambda: page.column("op")[0].startswith("▾"))
    assert page.column("op")[1] == "conv1 · conv"
    Select(page.find("[data-table=group]")).select_by_value("scope")
    page.until(lambda: "▸ layer2 ×" in "".join(page.column("op")))


@pytest.mark.exhaustive
def test_several_rows_are_added_up_and_copied(open_page):
    page = open_page(good_profile("resnet18"))
    page.open()
    # a browser without a window does not let a script read the clipboard
    page.js("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    rows = page.all(".grid__body [data-row]")
    rows[0].click()
    ActionChains(page.browser).key_down(Keys.SHIFT).click(rows[2]).key_up(Keys.SHIFT).perform()
    page.until(lambda: page.find("[data-table=sum]").text.startswith("3 marked: "))
    page.find("[data-table=copy]").click()
    page.until(lambda: page.find("[data-table=copied]").text == "3 rows copied.")
    copied = page.js("return window.copied")
    head, *lines = copied.strip().split("\n")
    assert head.split("\t")[:3] == ["Operator", "Type", "Device ms"]
    assert [line.split("\t")[0] for line in lines] == page.column("op")[:3]
    # rows that a filter hides are no longer marked; the first one is still selected
    page.filter("type:batchnorm layer3")
    page.until(lambda: len(page.rows()) == 5)
    assert not page.find("[data-table=foot]").is_displayed()
    page.find("[data-table=copy]").click()
    page.until(lambda: page.find("[data-table=copied]").text == "1 rows copied.")


def test_columns_are_chosen_and_moved_and_kept(open_page):
    page = open_page(good_profile("resnet18"))
    page.open()
    page.toggle_column("out")
    page.until(lambda: "Output shapes" not in "".join(page.texts("[role=columnheader]")))
    page.find("#operator-columns [value=mem]").click()
    page.find("#operator-columns [data-act=up][data-key=host]").click()
    expected = page.texts("[role=columnheader]")
    assert any(text.startswith("Memory") for text in expected)
    page.open()
    assert page.texts("[role=columnheader]") == expected
    page.find("[popovertarget=operator-columns]").click()
    page.until(lambda: page.all("#operator-columns [data-act=reset]"), "the columns")
    page.find("#operator-columns [data-act=reset]").click()
    page.until(lambda: "Output shapes" in page.texts("[role=columnheader]"))


@pytest.mark.exhaustive
def test_widths_and_columns_of_one_result_leave_the_columns_of_others(
    browser, storage, live_server, log_in
):
    owner = make_user("alice")
    first = good_profile("resnet18")
    results = (
        make_result(first, owner=owner),
        make_result(first, another_pass(first, 1), owner=owner),
    )
    log_in(owner)
    one_pass, two_passes = (
        ResultPage(browser, f"{live_server.url}/tasks/{result.attempt.task_id}/")
        for result in results
    )
    heading = ".grid__head [data-column=type]"
    one_pass.open()
    width = one_pass.find(heading).size["width"]
    handle = one_pass.find("[data-resize=type]")
    ActionChains(browser).click_and_hold(handle).move_by_offset(60, 0).release().perform()
    two_passes.open()
    assert two_passes.find(heading).size["width"] == pytest.approx(width + 60, abs=2)
    assert two_passes.count(".grid__head [data-column=passes]")

    two_passes.toggle_column("mem")
    one_pass.open()
    one_pass.toggle_column("out")
    two_passes.open()
    assert two_passes.count(".grid__head [data-column=passes]")
    assert not two_passes.count(".grid__head [data-column=out]")


@pytest.fixture
def with_baseline(browser, storage, live_server, log_in) -> tuple[ResultPage, int]:
    """The page of a result, and the task that is its pinned baseline."""
    owner = make_user("alice")
    base, profile = (
        make_result(to_json(make_profile(times)), owner=owner)
        for times in ({"0": 4e-3, "1": 1e-3}, {"0": 3e-3, "1": 1e-3})
    )
    Task.objects.filter(pk=profile.attempt.task_id).update(worker=base.attempt.task.worker)
    pin_baseline(base.attempt.task)
    log_in(owner)
    page = ResultPage(browser, f"{live_server.url}/tasks/{profile.attempt.task_id}/")
    return page, base.attempt.task_id


def test_differences_to_the_pinned_baseline_have_a_column(with_baseline):
    page, number = with_baseline
    page.open("?sort=-diff")
    page.until(lambda: page.column("diff") == ["0", "−1.00"])
    heading = page.find(".grid__head [data-column=diff]").text
    assert heading.startswith(f"Δ #{number} ms")
    page.open("?group=type")
    page.until(lambda: page.column("diff") == ["−1.00"])


@pytest.mark.exhaustive
def test_table_says_why_it_has_no_differences_to_the_baseline(with_baseline, monkeypatch):
    page, _ = with_baseline
    monkeypatch.setattr(loading, "MOST_OPERATORS", 1)
    page.open("?sort=-diff")
    page.until(lambda: page.find("#operator-filter-problem").text)
    reason = page.find("#operator-filter-problem").text
    assert reason.startswith("The differences to the baseline could not be loaded. These results")
    assert not page.count("[data-column=diff]")
    page.filter("op1")
    page.until(lambda: len(page.rows()) == 1)
    assert page.find("#operator-filter-problem").text == reason
    assert page.texts("[aria-sort]")[0].startswith("Device")


def test_only_rows_in_view_are_in_the_page_and_a_selected_one_is_scrolled_into_view(open_page):
    page = open_page(many_operators())
    page.open()
    assert page.rows()[0] == 0
    assert len(page.rows()) < 100
    page.js("document.querySelector('.grid').scrollTop = 1e9")
    page.until(lambda: page.rows()[-1] == MANY - 1)
    assert len(page.rows()) < 100
    assert page.console_errors() == []

    page.open("?op=1700")
    page.until(lambda: page.selected == ["op1700"])
    visible = (
        "const r = document.querySelector('.grid__row--selected').getBoundingClientRect();"
        "const b = document.querySelector('.grid').getBoundingClientRect();"
        "return r.top >= b.top && r.bottom <= b.bottom"
    )
    assert page.js(visible) is True
    page.js(IMPORT_SELECTION.format(3))
    page.until(lambda: page.selected == ["op3"])
    assert page.js(visible) is True
    page.until(lambda: page.query == "?op=3")


@pytest.mark.exhaustive
def test_keyboard_moves_selects_clears_and_filters_and_rows_are_released_after_printing(open_page):
    page = open_page(many_operators())
    page.open()
    page.find(".grid").send_keys(Keys.ARROW_DOWN, "j")
    page.press(Keys.ENTER)
    page.until(lambda: page.query == "?op=2")
    page.until(lambda: "op2" in page.find("#operator-panel").text)
    assert page.selected == ["op2"]
    page.press(Keys.END)
    page.until(lambda: page.rows()[-1] == MANY - 1)
    active = "return document.querySelector('.grid').getAttribute('aria-activedescendant')"
    assert page.js(active) == f"operator-row-{MANY - 1}"
    page.press("k", Keys.ENTER)
    page.until(lambda: page.query == f"?op={MANY - 2}")
    page.press(Keys.ESCAPE)
    page.until(lambda: page.query == "")
    assert not page.find("#operator-panel").is_displayed()
    assert page.selected == []
    page.press("/")
    assert page.js("return document.activeElement.id") == "operator-filter"

    page.browser.execute_async_script(
        "const done = arguments[0];"
        "const page = document.querySelector('script[src*=\"result/page\"]').src;"
        "import(page.replace('page', 'printing')).then(m => m.makeWhole()).then(done)"
    )
    assert len(page.rows()) == 2_000
    page.js("dispatchEvent(new Event('afterprint'))")
    assert len(page.rows()) < 100
    page.js("document.querySelector('.grid').scrollTop = 1e9")
    page.until(lambda: page.rows()[-1] == MANY - 1)


def test_the_key_of_the_filter_opens_the_table(open_page):
    page = open_page(good_profile("resnet18"))
    page.browser.get(f"{page.address}details/")
    page.until(lambda: page.count("#statistics"))
    page.press("/")
    page.until(lambda: page.js("return document.activeElement.id") == "operator-filter")
    page.until(lambda: page.count("#operator-table[data-state=ready]"))
    assert page.js("return document.activeElement.id") == "operator-filter"


@pytest.mark.exhaustive
def test_panel_distinguishes_an_unknown_operator_from_a_failed_request(open_page):
    page = open_page(good_profile("tiny"))
    page.open("?op=9999")
    page.until(lambda: page.texts("#operator-facts") == ["Operator not found."])
    block_urls(page.browser, "*part=1*")
    page.find(".grid__body [data-row]").click()
    page.until(lambda: "The server did not respond." in page.texts("#operator-facts")[0])


def test_each_view_keeps_the_selection_and_the_filter(open_page):
    page = open_page(good_profile("resnet18"))
    page.open("?q=conv&op=90")
    page.until(lambda: "batch_norm(conv1.Convolution" in page.find("#operator-panel").text)
    for view, content in (("timeline", "[data-chart=timeline]"), ("details", "#statistics")):
        page.find(f".tabs [data-view={view}]").click()
        page.until(lambda content=content: page.find(content).is_displayed())
        assert page.path.partition("?")[0].endswith(f"{view}/")
        assert set(page.query[1:].split("&")) == {"q=conv", "op=90"}
        assert not page.find("#operator-table").is_displayed()
    page.browser.back()
    page.until(lambda: page.find("[data-chart=timeline]").is_displayed())
    page.browser.back()
    page.until(lambda: page.find("#operator-table").is_displayed())
    assert page.js("return window.unchanged") is True
    assert set(page.column("type")) <= {"ConvolutionForward", "BatchNormForward", "Elemwise"}
    assert page.console_errors() == []


def test_a_view_that_cannot_be_loaded_is_tried_again(open_page):
    page = open_page(good_profile("tiny"))
    page.open()
    block_urls(page.browser, "*part=1*")
    page.find(".tabs [data-view=details]").click()
    page.until(lambda: page.count(".view [role=alert]"))
    block_urls(page.browser)
    page.find(".tabs [data-view=operators]").click()
    page.find(".tabs [data-view=details]").click()
    page.until(lambda: page.count("#statistics"))
    assert page.count(".view[data-view=details]") == 1
    assert page.count(".view [role=alert]") == 0


@pytest.mark.exhaustive
def test_a_range_of_the_timeline_filters_the_table(open_page):
    page = open_page(good_profile("resnet18"))
    page.open()
    page.until(lambda: page.count("#strip:not([aria-busy])"))
    before = page.find("#operator-count").text
    canvas = page.find("#strip canvas")
    # the right button opens a menu, which may swallow its release
    menu = ActionBuilder(page.browser)
    menu.pointer_action.move_to(canvas, -100, 0).pointer_down(MouseButton.RIGHT)
    menu.pointer_action.move_to(canvas, 50, 0).pointer_up(MouseButton.RIGHT)
    menu.perform()
    assert page.find("#operator-count").text == before
    page.find(".grid").send_keys(Keys.END)
    drag = ActionChains(page.browser).move_to_element_with_offset(canvas, -100, 0)
    drag.click_and_hold().move_by_offset(150, 0).release().perform()
    page.until(lambda: page.find("#operator-count").text != before)
    assert "busy" in page.find("#strip [data-strip=about]").text
    # the row that the keyboard was on is not in the range
    page.find(".grid").send_keys(Keys.ENTER)
    page.until(lambda: "op=" in page.query)
    page.find("[data-table=clear]").click()
    page.until(lambda: page.find("#operator-count").text == before)
    assert "Drag" in page.find("#strip [data-strip=about]").text


@pytest.mark.exhaustive
def test_a_touch_that_scrolls_the_page_leaves_the_range_of_the_timeline(open_page):
    page = open_page(good_profile("resnet18"))
    page.open()
    page.until(lambda: page.count("#strip:not([aria-busy])"))
    canvas = page.find("#strip canvas")
    page.js("arguments[0].scrollIntoView()", canvas)
    box = page.js("return arguments[0].getBoundingClientRect().toJSON()", canvas)
    picture = "return arguments[0].toDataURL()"
    before = page.js(picture, canvas)

    def touch(kind: str, *xs: float) -> None:
        points = [{"x": x, "y": box["y"] + box["height"] / 2} for x in xs]
        event = {"type": kind, "touchPoints": points}
        page.browser.execute_cdp_cmd("Input.dispatchTouchEvent", event)

    touch("touchStart", box["x"] + 100)
    touch("touchMove", box["x"] + 300)
    page.until(lambda: page.js(picture, canvas) != before)
    touch("touchCancel")
    page.until(lambda: page.js(picture, canvas) == before)


@pytest.mark.exhaustive
def test_the_operators_of_a_finding_replace_a_range_and_end_with_the_back_button(open_page):
    page = open_page(good_profile("resnet18"))
    page.open("?q=conv")
    page.until(lambda: page.count("#strip:not([aria-busy])"))
    all_rows = page.find("#operator-count").text
    page.find("#strip canvas").send_keys("w", "w", Keys.ENTER)
    page.until(lambda: page.find("#operator-count").text != all_rows)
    rows = page.click_finding()
    page.until(lambda: set(page.rows()) == rows)
    assert "Drag" in page.find("#strip [data-strip=about]").text
    page.until(lambda: page.query == "")
    page.browser.back()
    page.until(lambda: page.find("#operator-count").text == all_rows)
    assert page.find("#operator-filter").get_attribute("value") == "conv"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("view", "ready"),
    [("timeline/", "#chart-timeline[data-state=ready]"), ("", "#strip:not([aria-busy])")],
    ids=["chart", "strip"],
)
def test_a_pass_that_fails_late_leaves_the_timeline_of_another(open_page, view, ready):
    first = good_profile("resnet18")
    page = open_page(first, another_pass(first, 2))
    page.browser.get(page.address + view)
    page.until(lambda: page.count(ready))
    page.js(HOLD_SECOND_PASS)
    passes = Select(page.find(f"{ready} [data-part=pass]"))
    passes.select_by_value("2")
    page.until(lambda: page.js("return window.fail !== undefined"))
    passes.select_by_value("1")
    page.until(lambda: page.count(f"{ready}:not(:has([aria-busy=true]))"))
    page.browser.execute_async_script("window.fail(); setTimeout(arguments[0])")
    assert page.count(ready)
    assert page.find(f"{ready} canvas").is_displayed()


@pytest.mark.exhaustive
def test_a_pass_that_cannot_be_loaded_leaves_the_strip_as_it_is(open_page):
    first = good_profile("resnet18")
    page = open_page(first, another_pass(first, 2))
    page.open()
    page.until(lambda: page.count("#strip:not([aria-busy])"))
    passes = Select(page.find("#strip [data-part=pass]"))
    about = "#strip [data-strip=about]"
    block_urls(page.browser, "*pass=2*")
    passes.select_by_value("2")
    page.until(lambda: page.texts(about) == ["The server did not respond. Try again."])
    assert page.count("#strip:not([aria-busy])")
    assert page.find("#strip canvas").is_displayed()
    passes.select_by_value("1")
    page.until(lambda: "Drag" in page.find(about).text)


#: the request for the second pass fails when the test calls `fail`
HOLD_SECOND_PASS = """
const real = window.fetch;
window.fetch = (url, ...rest) => String(url).includes("pass=2")
  ? new Promise((_, reject) => { window.fail = () => reject(new TypeError("no network")); })
  : real(url, ...rest);
"""


@pytest.mark.exhaustive
def test_the_timelines_follow_the_chosen_pass(open_page):
    first = good_profile("resnet18")
    page = open_page(first, another_pass(first, 2))
    page.open("?timeline=2")
    page.until(lambda: page.count("#strip:not([aria-busy])"))
    strip = Select(page.find("#strip [data-part=pass]"))
    assert strip.first_selected_option.text.startswith("2 ·")
    drawn = "return document.querySelector('.strip__canvas').toDataURL()"
    picture = page.browser.execute_script(drawn)
    page.find("#strip canvas").send_keys(Keys.ENTER)
    assert "busy" in page.find("#strip [data-strip=about]").text
    strip.select_by_value("1")
    page.until(lambda: page.browser.execute_script(drawn) != picture)
    # a range is one of the pass that it was dragged in
    page.until(lambda: "Drag" in page.find("#strip [data-strip=about]").text)
    assert "timeline=" not in page.browser.current_url
    strip.select_by_value("2")
    page.until(lambda: "timeline=2" in page.browser.current_url)
    for link in page.all("#strip a[data-with-pass], #export a[data-with-pass]"):
        page.browser.execute_script(
            "arguments[0].dispatchEvent(new Event('pointerdown', { bubbles: true }))", link
        )
        assert link.get_attribute("href").endswith("/?pass=2")
    page.find(".tabs [data-view=timeline]").click()
    chart = "#chart-timeline"
    page.until(lambda: page.count(f"{chart}[data-state=ready]"))
    assert "Profiled pass 2" in page.find(f"{chart} .chart__sentence").text
    assert "timeline=2" in page.browser.current_url
    Select(page.find(f"{chart} [data-part=pass]")).select_by_value("1")
    page.until(lambda: "Profiled pass 1" in page.find(f"{chart} .chart__sentence").text)
    page.find(".tabs [data-view=operators]").click()
    assert strip.first_selected_option.get_attribute("value") == "1"


@pytest.mark.exhaustive
def test_the_timelines_draw_the_pass_of_the_address_after_back(open_page):
    first = good_profile("resnet18")
    page = open_page(first, another_pass(first, 2))
    page.open("?timeline=2")
    page.until(lambda: page.count("#strip:not([aria-busy])"))
    page.find(".tabs [data-view=timeline]").click()
    chart = "#chart-timeline"
    page.until(lambda: page.count(f"{chart}[data-state=ready]"))
    Select(page.find(f"{chart} [data-part=pass]")).select_by_value("1")
    page.until(lambda: page.query == "")
    page.browser.back()
    page.until(lambda: page.query == "?timeline=2")
    strip = Select(page.find("#strip [data-part=pass]"))
    page.until(lambda: strip.first_selected_option.get_attribute("value") == "2")
    page.find(".tabs [data-view=timeline]").click()
    page.until(lambda: "Profiled pass 2" in page.find(f"{chart} .chart__sentence").text)


@pytest.mark.exhaustive
def test_times_on_the_host_have_a_heading_of_their_own(open_page):
    page = open_page(to_json(make_profile({"1": {}}, host={"1": 0.5})))
    page.open()
    headings = page.texts("[role=columnheader]")
    assert any(text.startswith("Host ms") for text in headings)
    assert not any(text.startswith("Device") for text in headings)
    assert page.column("device") == ["500"]
    assert "device time" not in page.texts("#operator-help")[0]
    page.until(lambda: page.count("#strip:not([aria-busy])"))
    page.find("#strip canvas").send_keys(Keys.ENTER)
    assert "busy 500 ms, idle 0 s" in page.find("#strip [data-strip=about]").text


@pytest.mark.exhaustive
def test_a_range_is_idle_only_while_no_device_works(open_page):
    one, other = (f'CompNode("gpu{number}:0" from "gpu{number}:0")' for number in range(2))
    times = {
        "1": {one: {"start": 1, "kern": 1, "end": 4}},
        "2": {other: {"start": 2, "kern": 2, "end": 5}},
        "3": {one: {"start": 7, "kern": 7, "end": 8}},
    }
    page = open_page(to_json(make_profile(times)))
    page.open()
    page.until(lambda: page.count("#strip:not([aria-busy])"))
    page.find("#strip canvas").send_keys(Keys.ENTER)
    assert "busy 5.00 s, idle" in page.find("#strip [data-strip=about]").text


@pytest.mark.exhaustive
def test_the_filters_of_the_server_stay_in_the_address_of_its_table(open_page):
    page = open_page(good_profile("resnet18"))
    page.browser.get(f"{page.address}?text=conv&op=3")
    page.until(lambda: page.count("#tables tr[data-row]"))
    page.until(lambda: page.find("#operator-facts h3").is_displayed())
    page.find(".tabs [data-view=details]").click()
    page.until(lambda: page.count("#statistics"))
    page.find("#operator-panel [data-clear]").click()
    page.find(".tabs [data-view=operators]").click()
    page.until(lambda: page.query == "?text=conv")
    assert page.find("#tables").is_displayed()


@pytest.mark.exhaustive
def test_the_table_of_the_server_is_exported_from_every_view(open_page):
    page = open_page(good_profile("resnet18"))
    page.browser.get(f"{page.address}?text=conv")
    page.until(lambda: page.count("#tables tr[data-row]"))
    page.find(".tabs [data-view=details]").click()
    page.until(lambda: page.count("#statistics"))
    link = "#export [data-asks][href*=csv]"
    page.js(
        "document.querySelector(arguments[0]).dispatchEvent(new Event('focusin', {bubbles: true}))",
        link,
    )
    assert page.find(link).get_attribute("href").endswith("/csv/?text=conv")


def test_a_finding_replaces_the_table_of_the_server(open_page):
    page = open_page(good_profile("resnet18"))
    page.browser.get(f"{page.address}?text=conv")
    page.until(lambda: page.count("#advice-lines [data-rows]"))
    button = page.find("#advice-lines [data-rows]")
    rows = {int(row) for row in button.get_attribute("data-rows").split(",")}
    page.find("#tables tr[data-row] a").click()
    page.until(lambda: "op=" in page.query)
    button.click()
    page.until(lambda: page.count("#operator-table[data-state=ready]"))
    page.until(lambda: set(page.rows()) == rows)
    assert not page.count("#to-table")
    assert "text=" not in page.query
    assert "all operators" in page.texts("#export [data-asks]")[0]
    page.browser.back()
    page.until(lambda: page.count("#to-table"))


def test_a_view_that_was_opened_first_still_filters_the_table(open_page):
    page = open_page(good_profile("resnet18"))
    page.browser.get(f"{page.address}scopes/")
    page.until(lambda: page.count("#advice-lines [data-rows]"))
    rows = page.click_finding()
    page.until(lambda: page.count("#operator-table[data-state=ready]"))
    page.until(lambda: set(page.rows()) == rows)


@pytest.mark.exhaustive
def test_the_page_has_its_colours_again_after_two_clicks_on_print(open_page):
    page = open_page(good_profile("tiny"))
    page.open()
    page.js(
        "window.printed = 0;"
        "window.print = () => { window.printed += 1; dispatchEvent(new Event('afterprint')); };"
        "document.documentElement.dataset.theme = 'dark';"
        "const button = document.querySelector('#print'); button.click(); button.click();"
    )
    page.until(lambda: page.js("return window.printed") and page.count("#print:not([aria-busy])"))
    assert page.js("return document.documentElement.dataset.theme") == "dark"
    assert page.js("return window.printed") == 1


def test_html_in_names_is_text(open_page):
    page = open_page(good_profile("hostile_names"))
    page.open("?constants=1")
    script = "return document.querySelectorAll('.grid :is(script, img, b)').length"
    assert page.js(script) == 0
    assert page.console_errors() == []


def test_operators_of_a_recommendation_are_listed_and_selected_without_a_reload(open_page):
    page = open_page(good_profile("resnet18"))
    page.open()
    rows = page.click_finding()
    page.until(lambda: set(page.rows()) == rows)
    page.find("[data-table=clear]").click()
    page.until(lambda: len(page.rows()) > len(rows))

    page.find("#advice-lines [data-open-view]").click()
    page.until(lambda: page.count("#advice-unfused_batch_norm [data-row='90']"))
    link = page.find("#advice-unfused_batch_norm [data-row='90']")
    page.js("arguments[0].scrollIntoView({block: 'center'})", link)
    link.click()
    page.until(lambda: page.query == "?op=90")
    page.until(lambda: link.get_attribute("aria-current") == "true")
    assert page.js("return window.unchanged") is True
    page.until(lambda: "batch_norm(conv1.Convolution" in page.find("#operator-panel").text)
    page.find("#operator-panel [data-clear]").click()
    page.until(lambda: link.get_attribute("aria-current") is None)


@pytest.mark.exhaustive
def test_more_filters_show_the_table_of_the_server(open_page):
    page = open_page(good_profile("resnet18"))
    page.open()
    page.find("#more-filters").click()
    page.until(lambda: page.count("#table-form"))
    page.find("#choose-limits summary").click()
    page.find("#filter-name").send_keys("conv(", Keys.ENTER)
    page.until(lambda: page.texts("#problem-name") and page.texts("#problem-name")[0])
    assert page.find("#filter-name").get_attribute("aria-invalid") == "true"
    page.find("#tables tr[data-row]").click()
    page.until(lambda: page.find("#operator-facts h3").is_displayed())
    page.find("#to-table").click()
    page.until(lambda: page.count("#operator-table[data-state=ready]"))
