"""Accessibility tests of all pages: axe rules, keyboard access, and layout at all widths."""

import base64
import time
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from django.test.signals import template_rendered
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.ui import WebDriverWait

from profiles.tests.imports import make_import
from tasks.lifecycle.cancel import cancel_task
from tasks.lifecycle.outcomes import fail_task
from tasks.models import SavedView, Task
from tasks.tests.make import make_task, make_user, make_waiting_task, make_worker
from testdata import good_profile
from webprofile.operations import assets
from webprofile.tests.browser.conftest import DESK, PHONE, resize
from webprofile.tests.browser.pages import (
    MEASURED,
    Page,
    answers_of,
    make_measured,
    page_templates,
    pages_of,
    states_of,
)
from webprofile.tests.permission_site import PermissionSite

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

AXE = Path(settings.BASE_DIR) / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
WIDE = (2560, 1300)
#: the pages are divided among so many tests
PARTS = 3
_ALL_IS_THERE = """
    const busy = [...document.querySelectorAll("[aria-busy=true]")];
    const missing = busy.find((part) => part.checkVisibility());
    missing?.scrollIntoView();
    if (!missing) scrollTo(0, 0);
    return !missing;
"""
_SEND = """
    const [address, fields] = arguments;
    const form = document.createElement("form");
    form.method = "post";
    form.action = address;
    const token = document.querySelector("[name=csrfmiddlewaretoken]").value;
    for (const [name, value] of Object.entries({ ...fields, csrfmiddlewaretoken: token })) {
        const field = document.createElement("input");
        [field.type, field.name, field.value] = ["hidden", name, value];
        form.append(field);
    }
    document.body.append(form);
    form.submit();
"""
#: what the page does when it hears of a change; this server has no socket to tell it
_NEW_ROWS = """
    const [done] = arguments;
    const rows = document.getElementById("task-rows");
    fetch(rows.dataset.url).then((answer) => answer.text()).then((text) => {
        rows.innerHTML = text;
        rows.dispatchEvent(new Event("change"));
        done();
    });
"""
_RUN = """
    const [tags, rules, done] = arguments;
    const runOnly = rules ? { type: "rule", values: rules } : { type: "tag", values: tags };
    const told = (id, { target, html, any }) =>
        `${id}: ${target.join(" ")}: ${html.slice(0, 120)} ${any[0]?.message ?? ""}`;
    // a page that asks again fades what it shows until the answer is there
    const where = { include: [document], exclude: ["[aria-busy=true]"] };
    axe.run(where, { runOnly, resultTypes: ["violations"], iframes: false }).then(
        ({ violations }) =>
            done(violations.flatMap(({ id, nodes }) => nodes.map((node) => told(id, node)))),
        (error) => done([String(error)]));
"""


@pytest.fixture
def root(storage):
    """An administrator, with a row of nearly everything that a page can show."""
    user = make_user("root", is_staff=True, is_superuser=True)
    make_worker("desk", facts={"cpu_model": "Xeon", "cores": 8, "memory_bytes": 1 << 34})
    make_worker("phone", online=False, is_public=False)
    for _ in range(2):
        make_measured(user)
    make_task(user)
    make_waiting_task(user, title="one that waits")
    fail_task(make_waiting_task(user), reason="worker_went_offline")
    cancel_task(make_waiting_task(user))
    make_import(user, good_profile("lstm"), name="opened here")
    SavedView.objects.create(owner=user, name="failures", query="status=failed")
    return user


def page_of(user, address: str) -> Page:
    client = Client()
    client.force_login(user)
    return Page(address, client.cookies["sessionid"].value)


@pytest.fixture
def visit(browser, live_server):
    """Opens a page in a language."""

    def go(page: Page, *, language: str = "en"):
        if not browser.current_url.startswith(live_server.url):
            browser.get(f"{live_server.url}/favicon.ico")
        browser.delete_all_cookies()
        if page.session:
            browser.add_cookie({"name": "sessionid", "value": page.session})
        browser.add_cookie({"name": "django_language", "value": language})
        colours(browser, dark=False)
        browser.get(live_server.url + page.address)
        # what is being fetched is faded, and read by nobody yet; some of it waits to be scrolled to
        WebDriverWait(browser, 30).until(is_settled, f"{page.address} is still being fetched")

    return go


def is_settled(browser) -> bool:
    """Looks twice: one answer may lead to the next question."""
    if not browser.execute_script(_ALL_IS_THERE):
        return False
    time.sleep(0.1)
    return browser.execute_script(_ALL_IS_THERE)


def colours(browser, *, dark: bool) -> None:
    feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    still = {"name": "prefers-reduced-motion", "value": "reduce"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature, still]})


def barriers(browser, axe, *, rules: list[str] | None = None) -> list[str]:
    if not browser.execute_script("return 'axe' in window"):
        browser.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
    return browser.execute_async_script(_RUN, RULES, rules)


def cut_off(browser) -> int:
    """Pixels that lie beside the window."""
    page = "document.documentElement"
    return browser.execute_script(f"return {page}.scrollWidth - {page}.clientWidth")


def inspect(browser, axe, title, faults) -> None:
    """Add what is wrong with the page that is open: in both colours, and in all widths."""
    resize(browser, DESK)
    faults += [f"{title}: {barrier}" for barrier in barriers(browser, axe)]
    colours(browser, dark=True)
    faults += [
        f"{title} dark: {barrier}" for barrier in barriers(browser, axe, rules=["color-contrast"])
    ]
    colours(browser, dark=False)
    measure_width(browser, WIDE, title, faults)
    measure_width(browser, PHONE, title, faults)
    on_phone = barriers(browser, axe, rules=["target-size", "scrollable-region-focusable"])
    faults += [f"{title} phone: {barrier}" for barrier in on_phone]


def measure_width(browser, size, title, faults) -> None:
    """Pictures follow the window's size a moment later."""
    resize(browser, size)
    for _ in range(20):
        if (pixels := cut_off(browser)) <= 0:
            return
        time.sleep(0.1)
    faults.append(f"{title}: {pixels} px beside {size[0]} px")


def send(browser, address, fields) -> None:
    """As by a form on the page that is open."""
    page = browser.find_element(By.TAG_NAME, "html")
    browser.execute_script(_SEND, address, fields)
    WebDriverWait(browser, 20).until(staleness_of(page))


@pytest.fixture
def permission_site(storage, settings, tmp_path):
    """One of everything, and people of all kinds."""
    settings.AGENT_FOLDER = str(tmp_path)
    settings.ROOT_URLCONF = "webprofile.tests.browser.error_urls"
    # to look at many may take longer than five minutes after the login
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 3600
    make_measured(make_user("mary"))
    return PermissionSite(tmp_path)


@pytest.fixture(scope="session")
def axe() -> str:
    """The script; fetched where only the site's own scripts were."""
    if not AXE.exists():
        assert assets.fetch(for_tests=True) == 0
    return AXE.read_text("utf-8")


@pytest.fixture
def rendered():
    """Names of the templates that pages were made of."""
    names: set[str] = set()

    def note(template, **_more):
        names.add(template.name)

    template_rendered.connect(note)
    yield names
    template_rendered.disconnect(note)


@pytest.fixture
def pages(permission_site) -> list[Page]:
    # tasks are asked for while the devices were seen just now
    return [*states_of(permission_site), *pages_of(permission_site)]


def test_each_page_template_is_checked(pages, permission_site, rendered):
    assert {"/tasks/", "/admin/", "/accounts/2fa/", "/api/v1/docs/"} <= {p.address for p in pages}
    rendered.clear()
    for page in pages:
        client_of(page).get(page.address)
    for answer in answers_of(permission_site):
        client_of(answer.form_page).post(answer.address, answer.fields, follow=True)
    assert page_templates() - rendered == set()


def client_of(page: Page) -> Client:
    client = Client()
    if page.session:
        client.cookies["sessionid"] = page.session
    return client


def look_at(browser, axe, visit, page: Page) -> list[str]:
    """What is wrong with a page, in all colours, widths and languages."""
    faults: list[str] = []
    resize(browser, DESK)
    visit(page)
    inspect(browser, axe, page.address, faults)
    visit(page, language="zh-hans")
    measure_width(browser, PHONE, f"{page.address} zh", faults)
    return faults


@pytest.mark.sample
def test_the_pages_of_every_day_have_no_barrier(browser, axe, visit, permission_site):
    session = permission_site.credentials["administrator"].session
    result = f"/tasks/{Task.objects.get(title=MEASURED).pk}/result/"
    pages = [Page(address, session) for address in (result, "/tasks/", "/tasks/new/", "/workers/")]
    pages.append(Page("/accounts/login/"))
    faults = [fault for page in pages for fault in look_at(browser, axe, visit, page)]
    assert faults == [], "\n".join(faults)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(PARTS))
def test_no_page_has_a_barrier(browser, axe, visit, pages, part):
    """Each of the parts makes what the pages show once more, so that they run side by side."""
    faults: list[str] = []
    for page in pages[part::PARTS]:
        faults += look_at(browser, axe, visit, page)
    assert faults == [], "\n".join(sorted(set(faults)))


@pytest.mark.exhaustive
def test_no_answer_to_a_form_has_a_barrier(browser, axe, visit, permission_site):
    faults: list[str] = []
    for answer in answers_of(permission_site):
        resize(browser, DESK)
        visit(answer.form_page)
        send(browser, answer.address, answer.fields)
        inspect(browser, axe, f"POST {answer.address}", faults)
    assert faults == [], "\n".join(sorted(set(faults)))


@pytest.mark.exhaustive
def test_the_apis_page_has_the_readers_colours_also_with_operations_open(browser, axe, visit):
    visit(page_of(make_user(), "/api/v1/docs/"))
    WebDriverWait(browser, 20).until(
        lambda driver: driver.find_elements(By.CSS_SELECTOR, ".opblock-tag")
    )
    for tag in ("tasks", "access-tokens", "profiles"):
        browser.find_element(By.ID, f"operations-tag-{tag}").click()
    for method in ("get", "post", "patch", "delete"):
        selector = f".opblock-{method} .opblock-summary-control"
        WebDriverWait(browser, 20).until(
            lambda driver, selector=selector: driver.find_elements(By.CSS_SELECTOR, selector)
        )[0].click()
    wrong = []
    choose = "document.documentElement.toggleAttribute('data-theme', arguments[0] !== '');"
    choose += "if (arguments[0]) document.documentElement.dataset.theme = arguments[0];"
    # the page looks again when the system's colours change
    for theme, system in (("", "light"), ("", "dark"), ("dark", "light"), ("light", "dark")):
        browser.execute_script(choose, theme)
        colours(browser, dark=system == "dark")
        background = "#fff" if (theme or system) == "light" else "#1c2022"
        WebDriverWait(browser, 10).until(
            lambda driver, background=background: ground_of(driver) == background
        )
        wrong += barriers(browser, axe, rules=["color-contrast"])
    assert wrong == [], "\n" + "\n".join(sorted(set(wrong)))


def ground_of(browser) -> str:
    """The colour of the sheet on which the API is described."""
    sheet = browser.find_element(By.ID, "api-docs").value_of_css_property("background-color")
    return {"rgba(255, 255, 255, 1)": "#fff", "rgba(28, 32, 34, 1)": "#1c2022"}.get(sheet, sheet)


def test_the_keyboard_skips_to_the_content_and_shows_where_it_is(browser, visit, root):
    visit(page_of(root, "/tasks/"))
    reached = []
    for _ in range(14):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        focused = browser.switch_to.active_element
        reached.append(focused.get_attribute("class") or focused.get_attribute("id"))
        outline = browser.execute_script(
            "return getComputedStyle(arguments[0]).outlineStyle", focused
        )
        assert outline != "none", reached
        place = focused.rect
        assert place["x"] >= 0, reached
        assert place["y"] >= 0, reached
    # as they stand on the page: skip link, brand, main menu, language, own menu
    assert reached[:3] == ["skip-link", "header__brand", "header__link"]
    assert reached.index("language__button") < reached.index("menu__title")
    visit(page_of(root, "/tasks/"))
    browser.switch_to.active_element.send_keys(Keys.TAB)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    browser.switch_to.active_element.send_keys(Keys.TAB)
    inside = browser.execute_script(
        "return document.getElementById('main').contains(document.activeElement)"
    )
    assert inside


def test_the_readers_menu_opens_by_the_keyboard_and_gives_the_focus_back(browser, visit, root):
    visit(page_of(root, "/tasks/"))
    title = browser.find_element(By.CSS_SELECTOR, ".menu__title")
    title.send_keys(Keys.ENTER)
    item = browser.find_element(By.LINK_TEXT, "Settings")
    assert item.is_displayed()
    browser.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.switch_to.active_element == item
    item.send_keys(Keys.ESCAPE)
    assert browser.switch_to.active_element == title
    assert not item.is_displayed()


@pytest.mark.exhaustive
def test_ticks_outlive_new_rows_and_the_menu_of_acts_follows_them(browser, visit, root):
    visit(page_of(root, "/tasks/"))
    number = Task.objects.filter(outcome="succeeded").last().pk
    delete = browser.find_element(By.CSS_SELECTOR, "[name=act][value=delete]")
    assert not delete.is_enabled()
    browser.find_element(By.ID, f"tick-{number}").click()
    assert browser.find_element(By.ID, "bulk-count").text == "1 selected"
    make_task(root)
    # as when the socket tells of a change
    browser.execute_script("window.dispatchEvent(new Event('online'))")
    delete.click()
    WebDriverWait(browser, 10).until(lambda driver: "Delete 1 task?" in driver.page_source)


def test_buttons_for_several_tasks_come_with_the_first_task_and_go_with_the_last(
    browser, visit, storage
):
    user = make_user("newcomer")
    visit(page_of(user, "/tasks/"))
    bulk = browser.find_element(By.ID, "bulk")
    assert not bulk.is_displayed()
    for change, shown in ((lambda: make_task(user), True), (Task.objects.all().delete, False)):
        change()
        browser.execute_async_script(_NEW_ROWS)
        assert bulk.is_displayed() is shown


@pytest.mark.exhaustive
def test_a_result_prints_with_its_words_tables_and_pictures_but_without_controls(
    browser, visit, root
):
    task = Task.objects.filter(outcome="succeeded").first()
    visit(page_of(root, f"/tasks/{task.pk}/result/"))
    WebDriverWait(browser, 20).until(
        lambda driver: driver.find_elements(By.CSS_SELECTOR, "#operators tbody tr, [data-row]")
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    text = browser.find_element(By.TAG_NAME, "body").text
    for part in ("net.mge", "Statistics", "Operators"):
        assert part in text
    for control in ("Log out", "Export", "中文", "Skip to the content"):
        assert control not in text, text[:2000]
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
