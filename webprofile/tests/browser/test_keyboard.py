"""Browser tests of the keyboard: command palette, shortcuts, and the way to the operators."""

import pytest
from selenium.webdriver import ActionChains, Keys

from profiles.tests.imports import make_import
from profiles.tests.pages import make_result
from profiles.tests.traces import MLP
from tasks.models import OptionPreset
from tasks.tests.make import make_task, make_user, make_worker
from testdata import good_profile
from webprofile.tests.browser.conftest import (
    PageObject,
    resize,
    set_colour_scheme,
    violations,
)
from webprofile.tests.browser.pages import allow
from webprofile.tests.browser.results import LAPTOP, make_disturbed, make_measured

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

#: Tab stops before the first operator without the skip link
MAX_STOPS = 25


class KeyboardPage(PageObject):
    """A page that is used by keyboard alone."""

    def open(self, path: str) -> None:
        self.browser.get(self.address + path)
        # scripts of the page have run
        self.until(lambda: self.js("return document.readyState === 'complete'"), "the page")

    def open_result(self, path: str) -> None:
        self.open(path)
        self.until(lambda: self.all("#strip:not([aria-busy])"), "the timeline below the table")

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()

    def open_palette(self) -> None:
        keys = ActionChains(self.browser)
        keys.key_down(Keys.CONTROL).send_keys("k").key_up(Keys.CONTROL).perform()
        self.until(lambda: self.all(".palette[open]"), "the palette")

    def search(self, query: str, label: str) -> None:
        """Type a query, wait until an entry with this label is listed, and make it active."""
        self.press(query)
        self.until(lambda: label in self.labels(), f"{label} among {self.labels()}")
        for _ in range(100):
            if self.active() == label:
                return
            self.press(Keys.ARROW_DOWN)
        raise AssertionError(f"{label} did not become active")

    def labels(self) -> list[str]:
        return self._texts(".palette__label")

    def active(self) -> str:
        """Return the label of the entry that a screen reader announces."""
        return self.js(
            "const field = document.activeElement;"
            "const id = field.getAttribute('aria-activedescendant');"
            "return document.getElementById(id)?.querySelector('.palette__label').textContent ?? ''"
        )

    def groups(self) -> list[str]:
        return self._texts(".palette__group")

    def _texts(self, css: str) -> list[str]:
        # in one call, because the list is replaced while its parts arrive
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return self.js(script, css)

    def focused(self, name: str = "id") -> str:
        return self.js("return document.activeElement.getAttribute(arguments[0]) ?? ''", name)

    def strip(self) -> str:
        """Return the picture of the strip, as a data URL."""
        return self.js("return document.querySelector('.strip__canvas').toDataURL()")


@pytest.fixture
def page(browser, storage, live_server, log_in):
    """A page of alice, who is logged in."""
    keyboard = KeyboardPage(browser, live_server.url)
    keyboard.user = make_user("alice")
    log_in(keyboard.user)
    resize(browser, LAPTOP)
    return keyboard


class TestPalette:
    def test_an_operator_is_found_and_selected_everywhere(self, page):
        page.open_result(make_measured(page.user))
        page.open_palette()
        page.search("conv layer4.0", "layer4.0.conv2 · conv")
        page.press(Keys.ENTER)
        page.until(lambda: page.all(".grid__row--selected"), "the selected row")
        assert "layer4.0.conv2" in page.find(".grid__row--selected").text
        assert "op=" in page.browser.current_url

    def test_operator_is_found_from_another_view(self, page):
        page.open(f"{make_measured(page.user)}memory/")
        page.until(lambda: page.all(".charts[data-started]"), "the charts")
        page.open_palette()
        page.search("layer4.0.conv2", "layer4.0.conv2 · conv")
        page.press(Keys.ENTER)
        page.until(lambda: page.all(".grid__row--selected"), "the selected row")

    def test_tasks_are_found_by_title_and_by_number(self, page):
        other = make_task(make_user("bob"), title="night run of bob")
        task = make_task(page.user, title="night run")
        page.open("/workers/")
        page.open_palette()
        page.search("night", f"#{task.pk} night run")
        assert f"#{other.pk} night run of bob" not in page.labels()
        page.press(Keys.ENTER)
        page.until(lambda: page.path == f"/tasks/{task.pk}/", "the task")
        page.open_palette()
        page.search(f"#{task.pk}", f"#{task.pk} night run")

    def test_devices_and_options_are_found(self, page):
        make_worker("lab-board")
        make_worker("secret-board", is_public=False)
        page.open("/tasks/")
        page.open_palette()
        page.search("board", "lab-board")
        assert "secret-board" not in page.labels()
        page.press(Keys.ENTER)
        page.until(lambda: page.path == "/workers/lab-board/", "the device")
        page.open_palette()
        page.search("fast_run", "fast_run")
        page.press(Keys.ENTER)
        page.until(lambda: page.path == "/docs/options/#fast_run", "the reference of the option")

    def test_option_opens_its_field_in_the_form(self, page):
        make_worker("lab-board")
        page.open("/tasks/new/")
        page.open_palette()
        page.search("weight_preprocess", "weight_preprocess")
        page.press(Keys.ENTER)
        field = page.find("[data-option=weight_preprocess] input")
        assert page.browser.switch_to.active_element == field
        assert field.is_displayed()

    def test_actions_of_the_page_are_run(self, page):
        path = make_measured(page.user)
        page.open_result(path)
        page.open_palette()
        page.search("timeline", "Timeline")
        page.press(Keys.ENTER)
        page.until(lambda: page.path.endswith("/timeline/"), "the view")
        page.open_palette()
        page.search("edit", "Edit and repeat")
        page.press(Keys.ENTER)
        page.until(lambda: page.path.startswith("/tasks/new/?from="), "the form")

    def test_colours_are_changed_and_saved(self, page):
        page.open("/tasks/")
        page.open_palette()
        page.search("dark", "Colours: dark")
        page.press(Keys.ENTER)
        page.until(lambda: page.find("html").get_attribute("data-theme") == "dark", "dark")

        def is_saved() -> bool:
            page.user.refresh_from_db()
            return page.user.theme == "dark"

        page.until(is_saved, "the saved choice")

    def test_language_is_changed(self, page):
        page.open("/tasks/")
        page.open_palette()
        page.search("language", "Language: 中文")
        page.press(Keys.ENTER)
        page.until(lambda: page.find("html").get_attribute("lang") == "zh-hans", "Chinese")
        page.open_palette()
        page.until(lambda: "设备" in page.groups() or "页面" in page.groups(), "Chinese groups")
        placeholder = page.find(".palette__input").get_attribute("placeholder")
        assert placeholder == "任务、设备、算子、选项或命令"

    def test_focus_returns_when_it_is_closed(self, page):
        page.open_result(make_measured(page.user))
        page.press("/")
        assert page.focused() == "operator-filter"
        page.open_palette()
        assert page.focused("role") == "combobox"
        page.press(Keys.ESCAPE)
        assert page.all(".palette[open]") == []
        assert page.focused() == "operator-filter"

    def test_button_in_the_header_opens_it(self, page):
        page.open("/tasks/")
        page.click(".header__search")
        page.until(lambda: page.all(".palette[open]"), "the palette")

    def test_it_loads_when_it_is_first_used(self, page):
        page.open("/tasks/")
        names = "return performance.getEntriesByType('resource').map(({ name }) => name)"
        assert not any("palette" in name for name in page.js(names))
        page.open_palette()
        assert any("palette" in name for name in page.js(names))

    def test_it_is_accessible(self, page, axe):
        page.open_result(make_measured(page.user))
        page.open_palette()
        page.until(lambda: "Operators" in page.groups(), "operators")
        faults = violations(page.browser, axe)
        set_colour_scheme(page.browser, "dark")
        faults += violations(page.browser, axe, rules=["color-contrast"])
        set_colour_scheme(page.browser, "light")
        resize(page.browser, (400, 800))
        assert not page.is_too_wide()
        assert faults == []


class TestShortcuts:
    def test_question_mark_lists_the_shortcuts_of_the_page(self, page, axe):
        page.open("/tasks/")
        page.press("?")
        page.until(lambda: page.all("#shortcut-list[open]"), "the list")
        assert "Next row of a list" in page.find("#shortcut-list").text
        assert "Zoom in" not in page.find("#shortcut-list").text
        page.open_result(make_measured(page.user))
        page.press("?")
        page.until(lambda: page.all("#shortcut-list[open]"), "the list")
        for text in ("Ctrl", "Search and run commands", "Focus the filter", "Zoom in"):
            assert text in page.find("#shortcut-list").text
        faults = violations(page.browser, axe)
        set_colour_scheme(page.browser, "dark")
        faults += violations(page.browser, axe, rules=["color-contrast"])
        assert faults == []

    def test_single_characters_can_be_turned_off(self, page):
        page.open("/tasks/")
        page.press("?")
        page.until(lambda: page.all("#shortcut-list[open]"), "the list")
        page.click("#shortcut-list input")
        page.press(Keys.ESCAPE)
        page.press("?")
        page.open_palette()
        assert page.all("#shortcut-list[open]") == []

    def test_letters_are_typed_into_fields(self, page):
        make_task(page.user)
        page.open("/tasks/")
        field = page.find("#filters [type=search], form [type=search], [name=q]")
        field.send_keys("jk?wasd")
        assert field.get_attribute("value") == "jk?wasd"
        assert page.all("dialog[open]") == []

    @pytest.mark.parametrize("list_name", ["tasks", "profiles", "workers"])
    def test_j_and_k_move_in_lists(self, page, list_name):
        for number in range(3):
            make_result(good_profile("tiny"), owner=page.user)
            make_worker(f"board-{number}")
        for name in ("first", "second"):
            make_import(page.user, good_profile("tiny"), name=name)
        page.open(f"/{list_name}/")
        rows = page.all("table[data-list] tbody tr")
        assert len(rows) >= 3

        def row_in_focus() -> int:
            focused = page.browser.switch_to.active_element
            return next((n for n, row in enumerate(rows) if page.js(HOLDS, row, focused)), -1)

        page.press("j")
        assert row_in_focus() == 0
        page.press("jj")
        assert row_in_focus() == 2
        page.press("k")
        assert row_in_focus() == 1
        page.press(Keys.ENTER)
        page.until(lambda: page.path != f"/{list_name}/", "the page of the row")

    def test_j_and_k_move_in_the_table_of_operators(self, page):
        page.open_result(make_measured(page.user))
        page.press("j")
        assert page.focused() == "operator-grid"
        page.press("jjk")
        assert page.focused("aria-activedescendant") == "operator-row-1"

    def test_w_a_s_d_move_the_strip(self, page):
        page.open_result(make_measured(page.user))
        canvas = page.find(".strip__canvas")
        page.js("arguments[0].focus()", canvas)
        pictures = [page.strip()]
        for key in ("w", "d", "a", "s"):
            page.press(key)
            pictures.append(page.strip())
        assert len(set(pictures[:3])) == 3
        assert pictures[3] == pictures[1]
        assert pictures[4] == pictures[0]
        # also under the pointer, whatever has the focus
        page.js("arguments[0].blur()", canvas)
        ActionChains(page.browser).move_to_element(canvas).perform()
        page.press("w")
        assert page.strip() != pictures[0]

    def test_w_a_s_d_move_the_timeline(self, page):
        page.open(f"{make_measured(page.user)}timeline/")
        stage = "#chart-timeline[data-state=ready] [data-part=stage]"
        page.until(lambda: page.all(stage), "the timeline")
        page.js("arguments[0].focus()", page.find(stage))
        before = page.js(PIXELS)
        page.press("w")
        page.until(lambda: page.js(PIXELS) != before, "a zoomed timeline")
        page.press("s")
        page.until(lambda: page.js(PIXELS) == before, "the whole timeline")

    def test_w_a_s_d_move_the_trace(self, page, settings):
        allow(settings, "connect-src", "'self'", settings.S3_PUBLIC_ENDPOINT_URL)
        upload = make_import(page.user, MLP.read_bytes(), name="mlp")
        page.open(f"/profiles/{upload.profile.pk}/trace/")
        page.until(lambda: page.all("#timeline[data-state=drawn]"), "the trace")
        page.press("w")
        assert page.focused("class") == "timeline__frame"


class TestTabStops:
    @pytest.mark.parametrize("make", [make_measured, make_disturbed])
    def test_operators_are_a_few_stops_away(self, page, make):
        page.open_result(make(page.user))
        links = []
        for _ in range(MAX_STOPS):
            page.press(Keys.TAB)
            links.append(page.focused("href"))
            if page.focused() == "operator-grid":
                break
        assert page.focused() == "operator-grid"
        assert "#operator-grid" in links[:2]

    def test_groups_of_a_view_that_is_opened_later_have_one_stop(self, page):
        page.open(f"{make_measured(page.user)}details/")
        page.find("#tabs [data-view=operators]").click()
        page.until(lambda: page.all("#operator-table[data-state=ready]"), "the table")
        controls = ".operator-table__tools > :is(a, button), .operator-table__end > :is(a, button)"
        stops = [each for each in page.all(controls) if each.is_displayed()]
        assert [each.get_attribute("tabindex") for each in stops].count("0") == 1

    def test_skip_link_leads_to_the_operators(self, page):
        page.open_result(make_measured(page.user))
        page.press(Keys.TAB, Keys.TAB, Keys.ENTER)
        page.until(lambda: page.focused() == "operator-grid", "the operators")

    def test_arrows_move_in_groups_with_one_stop(self, page):
        page.open_result(make_measured(page.user))
        page.js("document.querySelector('#rerun').focus()")
        page.press(Keys.ARROW_RIGHT)
        assert page.focused() == "check"
        page.js("document.querySelector('#tabs [aria-current]').focus()")
        page.press(Keys.ARROW_RIGHT)
        assert page.focused("data-view") == "timeline"
        page.press(Keys.ARROW_LEFT)
        assert page.focused("data-view") == "operators"


#: Presses a key that ends the text of an input method, as Chromium reports it and as Safari does.
PRESS_COMPOSING = """
    for (const how of [{ isComposing: true }, { keyCode: 229 }]) {
        const key = { key: arguments[1], bubbles: true, cancelable: true, ...how };
        arguments[0].dispatchEvent(new KeyboardEvent("keydown", key));
    }
"""


class TestInputMethod:
    """Enter takes, and Escape drops, the letters that an input method holds, and nothing else."""

    def test_enter_takes_letters_into_the_palette(self, page):
        page.open("/tasks/")
        page.open_palette()
        page.search("Devices", "Devices")
        page.js(PRESS_COMPOSING, page.find(".palette__input"), "Enter")
        assert page.all(".palette[open]")
        page.press(Keys.ENTER)
        page.until(lambda: page.path == "/workers/", "the page of the entry")

    def test_enter_takes_letters_into_the_name_of_a_preset(self, page):
        make_worker()
        page.open("/tasks/new/")
        page.js("document.getElementById('option-iter').value = '7'")
        page.find("#own-preset summary").click()
        page.find("#preset-name").send_keys("ce")
        page.js(PRESS_COMPOSING, page.find("#preset-name"), "Enter")
        assert page.find("#preset-name").get_property("value") == "ce"
        page.find("#preset-name").send_keys("shi")
        page.press(Keys.ENTER)
        page.until(lambda: page.all("#option-presets [data-preset]"), "the preset")
        assert list(OptionPreset.objects.values_list("name", flat=True)) == ["ceshi"]

    def test_escape_drops_letters_and_leaves_the_menu_open(self, page):
        page.open("/tasks/?q=net")
        page.find("#save-view summary").click()
        page.js(PRESS_COMPOSING, page.find("#save-view [name=name]"), "Escape")
        assert page.all("#save-view[open]")
        page.find("#save-view [name=name]").send_keys(Keys.ESCAPE)
        assert not page.all("#save-view[open]")


def test_nobody_gets_the_palette_without_a_login(browser, storage, live_server):
    page = KeyboardPage(browser, live_server.url)
    page.open("/accounts/login/")
    assert page.all("#palette, .header__search") == []
    keys = ActionChains(browser)
    keys.key_down(Keys.CONTROL).send_keys("k").key_up(Keys.CONTROL).perform()
    assert page.all("dialog") == []


#: whether a row contains an element
HOLDS = "return arguments[0].contains(arguments[1])"
PIXELS = "return document.querySelector('#chart-timeline canvas').toDataURL()"
