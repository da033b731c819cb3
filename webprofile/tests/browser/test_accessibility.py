"""Accessibility tests of all pages: axe rules, keyboard access, and layout at all widths."""

import base64
import time

import pytest
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
from webprofile.tests.browser.conftest import (
    DESK,
    PHONE,
    resize,
    set_colour_scheme,
    set_cookie,
    violations,
)
from webprofile.tests.browser.pages import (
    MEASURED,
    Page,
    form_responses_of,
    make_measured,
    page_templates,
    pages_of,
    session_of,
    states_of,
)
from webprofile.tests.permission_site import PermissionSite

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDE = (2560, 1300)
#: faults are found in the layout, so nearly no pixels have to be drawn
SCALE = 0.1
_IS_LOADED = """
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
#: update the rows as the page does after a message; the live server has no WebSockets
_NEW_ROWS = """
    const [done] = arguments;
    const rows = document.getElementById("task-rows");
    fetch(rows.dataset.url).then((response) => response.text()).then((text) => {
        rows.innerHTML = text;
        rows.dispatchEvent(new Event("change"));
        done();
    });
"""


@pytest.fixture
def root(storage):
    """An administrator with a row of nearly everything that a page can show."""
    user = make_user("root", is_staff=True, is_superuser=True)
    make_worker("desk", facts={"cpu_model": "Xeon", "cores": 8, "memory_bytes": 1 << 34})
    make_worker("phone", online=False, is_public=False)
    for _ in range(2):
        make_measured(user)
    make_task(user)
    make_waiting_task(user, title="waiting")
    fail_task(make_waiting_task(user), reason="worker_went_offline")
    cancel_task(make_waiting_task(user))
    make_import(user, good_profile("lstm"), name="opened here")
    SavedView.objects.create(owner=user, name="failures", query="status=failed")
    return user


@pytest.fixture
def visit(browser, live_server):
    """Function that opens a page in a language and waits until it is loaded."""

    def go(page: Page, *, language: str = "en"):
        browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
        if page.session:
            set_cookie(browser, live_server.url, "sessionid", page.session)
        set_cookie(browser, live_server.url, "django_language", language)
        set_colour_scheme(browser, "light")
        browser.get(live_server.url + page.address)
        WebDriverWait(browser, 60).until(is_loaded, f"{page.address} is still being loaded")

    return go


def is_loaded(browser) -> bool:
    """Check twice, because a response may lead to another request."""
    if not browser.execute_script(_IS_LOADED):
        return False
    time.sleep(0.1)
    return browser.execute_script(_IS_LOADED)


def overflow_px(browser) -> int:
    """Return by how many pixels the page is wider than the window."""
    page = "document.documentElement"
    return browser.execute_script(f"return {page}.scrollWidth - {page}.clientWidth")


def check_open_page(browser, axe, title, faults) -> None:
    """Add the faults of the open page, in a window of size DESK, in all schemes and widths."""
    faults += [f"{title}: {violation}" for violation in violations(browser, axe)]
    set_colour_scheme(browser, "dark")
    faults += [
        f"{title} dark: {violation}"
        for violation in violations(browser, axe, rules=["color-contrast"])
    ]
    measure_width(browser, WIDE, title, faults)
    measure_width(browser, PHONE, title, faults)
    on_phone = violations(browser, axe, rules=["target-size", "scrollable-region-focusable"])
    faults += [f"{title} phone: {violation}" for violation in on_phone]


def measure_width(browser, size, title, faults) -> None:
    """Add a fault if the page is too wide. Charts follow the size of the window a moment later."""
    resize(browser, size, scale=SCALE)
    for _ in range(20):
        if (pixels := overflow_px(browser)) <= 0:
            return
        time.sleep(0.1)
    faults.append(f"{title}: {pixels} px beside {size[0]} px")


def send(browser, address, fields) -> None:
    """Send a form of the open page."""
    page = browser.find_element(By.TAG_NAME, "html")
    browser.execute_script(_SEND, address, fields)
    WebDriverWait(browser, 60).until(staleness_of(page))


@pytest.fixture
def permission_site(storage, settings, tmp_path):
    """One object of each kind, and people with all kinds of permissions."""
    settings.AGENT_FOLDER = str(tmp_path)
    settings.ROOT_URLCONF = "webprofile.tests.browser.error_urls"
    # checking many pages may take longer than five minutes after the login
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 3600
    make_measured(make_user("mary"))
    return PermissionSite(tmp_path)


@pytest.fixture
def rendered_templates():
    """Names of the templates of the documents that were opened, without what scripts fetch."""
    names: set[str] = set()

    def record(template, context, **_kwargs):
        request = getattr(context, "request", None)
        if request and request.headers.get("Sec-Fetch-Dest") == "document":
            names.add(template.name)

    template_rendered.connect(record)
    yield names
    template_rendered.disconnect(record)


@pytest.fixture
def pages(permission_site) -> list[Page]:
    # first, because tasks can only be created while the devices are online
    return [*states_of(permission_site), *pages_of(permission_site)]


def client_of(page: Page) -> Client:
    """Return a client that opens documents with the session of a page."""
    client = Client(headers={"Sec-Fetch-Dest": "document"})
    if page.session:
        client.cookies["sessionid"] = page.session
    return client


def check_page(browser, axe, visit, page: Page) -> list[str]:
    """Return the faults of a page in all colour schemes, widths and languages."""
    faults: list[str] = []
    resize(browser, DESK, scale=SCALE)
    visit(page)
    check_open_page(browser, axe, page.address, faults)
    visit(page, language="zh-hans")
    measure_width(browser, PHONE, f"{page.address} zh", faults)
    return faults


@pytest.mark.sample
def test_daily_pages_are_accessible(browser, axe, visit, permission_site):
    session = permission_site.credentials["administrator"].session
    result = f"/tasks/{Task.objects.get(title=MEASURED).pk}/"
    pages = [Page(address, session) for address in (result, "/tasks/", "/tasks/new/", "/workers/")]
    pages.append(Page("/accounts/login/"))
    faults = [fault for page in pages for fault in check_page(browser, axe, visit, page)]
    assert faults == [], "\n".join(faults)


@pytest.mark.exhaustive
def test_all_pages_are_accessible(browser, axe, visit, pages, permission_site, rendered_templates):
    assert {"/tasks/", "/admin/", "/accounts/2fa/", "/api/v1/docs/"} <= {p.address for p in pages}
    faults = [fault for page in pages for fault in check_page(browser, axe, visit, page)]
    assert faults == [], "\n".join(sorted(set(faults)))
    # the test below checks these responses
    for response in form_responses_of(permission_site):
        client_of(response.form_page).post(response.address, response.fields, follow=True)
    assert page_templates() - rendered_templates == set()


@pytest.mark.exhaustive
def test_form_responses_are_accessible(browser, axe, visit, permission_site):
    faults: list[str] = []
    for response in form_responses_of(permission_site):
        resize(browser, DESK, scale=SCALE)
        visit(response.form_page)
        send(browser, response.address, response.fields)
        check_open_page(browser, axe, f"POST {response.address}", faults)
    assert faults == [], "\n".join(sorted(set(faults)))


@pytest.mark.exhaustive
def test_api_page_follows_theme_and_system_colours(browser, axe, visit):
    visit(Page("/api/v1/docs/", session_of(make_user())))
    WebDriverWait(browser, 60).until(
        lambda driver: driver.find_elements(By.CSS_SELECTOR, ".opblock-tag")
    )
    for tag in ("tasks", "access-tokens", "profiles"):
        browser.find_element(By.ID, f"operations-tag-{tag}").click()
    for method in ("get", "post", "patch", "delete"):
        selector = f".opblock-{method} .opblock-summary-control"
        WebDriverWait(browser, 60).until(
            lambda driver, selector=selector: driver.find_elements(By.CSS_SELECTOR, selector)
        )[0].click()
    # fields of a schema to which the operation refers
    example = ".opblock-post .responses-wrapper .example"
    WebDriverWait(browser, 60).until(
        lambda driver: any(
            '"expires_at"' in part.text for part in driver.find_elements(By.CSS_SELECTOR, example)
        )
    )
    faults = []
    choose = "document.documentElement.toggleAttribute('data-theme', arguments[0] !== '');"
    choose += "if (arguments[0]) document.documentElement.dataset.theme = arguments[0];"
    # the page follows changes of the system's scheme, and of the user's theme
    for theme, system in (("", "light"), ("", "dark"), ("light", "dark"), ("dark", "light")):
        browser.execute_script(choose, theme)
        set_colour_scheme(browser, system)
        background = "#fff" if (theme or system) == "light" else "#1c2022"
        WebDriverWait(browser, 60).until(
            lambda driver, background=background: background_of(driver) == background
        )
        faults += violations(browser, axe, rules=["color-contrast"])
    assert faults == [], "\n".join(sorted(set(faults)))


def background_of(browser) -> str:
    """Return the background colour of the description of the API."""
    sheet = browser.find_element(By.ID, "api-docs").value_of_css_property("background-color")
    return {"rgba(255, 255, 255, 1)": "#fff", "rgba(28, 32, 34, 1)": "#1c2022"}.get(sheet, sheet)


def test_keyboard_reaches_the_content_with_visible_focus(browser, visit, root):
    visit(Page("/tasks/", session_of(root)))
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
    # in the order of the page: skip link, brand, main menu, language, user menu
    assert reached[:3] == ["skip-link", "header__brand", "header__link"]
    assert reached.index("language__button") < reached.index("menu__title")
    visit(Page("/tasks/", session_of(root)))
    browser.switch_to.active_element.send_keys(Keys.TAB)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    browser.switch_to.active_element.send_keys(Keys.TAB)
    inside = browser.execute_script(
        "return document.getElementById('main').contains(document.activeElement)"
    )
    assert inside


def test_user_menu_opens_by_keyboard_and_returns_the_focus(browser, visit, root):
    visit(Page("/tasks/", session_of(root)))
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
def test_selected_tasks_stay_selected_when_rows_are_updated(browser, visit, root):
    visit(Page("/tasks/", session_of(root)))
    number = Task.objects.filter(outcome="succeeded").last().pk
    delete = browser.find_element(By.CSS_SELECTOR, "[name=act][value=delete]")
    assert not delete.is_enabled()
    browser.find_element(By.ID, f"tick-{number}").click()
    assert browser.find_element(By.ID, "bulk-count").text == "1 selected"
    make_task(root)
    # the page fetches the rows again
    browser.execute_script("window.dispatchEvent(new Event('online'))")
    delete.click()
    WebDriverWait(browser, 60).until(lambda driver: "Delete 1 task?" in driver.page_source)


def test_bulk_actions_are_shown_only_with_tasks(browser, visit, storage):
    user = make_user("newcomer")
    visit(Page("/tasks/", session_of(user)))
    bulk = browser.find_element(By.ID, "bulk")
    assert not bulk.is_displayed()
    for change, shown in ((lambda: make_task(user), True), (Task.objects.all().delete, False)):
        change()
        browser.execute_async_script(_NEW_ROWS)
        assert bulk.is_displayed() is shown


@pytest.mark.exhaustive
def test_printed_result_has_texts_and_tables_but_no_controls(browser, visit, root):
    task = Task.objects.filter(outcome="succeeded").first()
    visit(Page(f"/tasks/{task.pk}/", session_of(root)))
    WebDriverWait(browser, 60).until(
        lambda driver: driver.find_elements(By.CSS_SELECTOR, "#operator-table[data-state=ready]")
    )
    browser.set_script_timeout(60)
    browser.execute_async_script(
        "const done = arguments[0];"
        "const page = document.querySelector('script[src*=\"result/page\"]').src;"
        "import(page.replace('page', 'printing')).then(m => m.makeWhole()).then(done)"
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    text = browser.find_element(By.TAG_NAME, "body").text
    for part in ("net.mge", "Statistics", "Operators"):
        assert part in text
    for control in ("Log out", "Export", "中文", "Skip to content"):
        assert control not in text, text[:2000]
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
