"""Browser test of a new user's first task, with the embedded site."""

import subprocess
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from webprofile.tests.browser.conftest import DESK, PageObject, block_urls, resize
from webprofile.tests.site import EmbeddedSite

pytestmark = [pytest.mark.browser, pytest.mark.megengine, pytest.mark.embedded]

PASSWORD = "a long enough passphrase"


class Person(PageObject):
    """A user of the site in a browser."""

    def __init__(self, browser, site: EmbeddedSite) -> None:
        super().__init__(browser, site.address)
        self.site = site

    def open(self, path: str) -> None:
        self.browser.get(self.address + path)

    def see(self, css: str, within_s: float = 60) -> WebElement:
        def visible() -> WebElement | None:
            element = self.find(css)
            return element if element.is_displayed() else None

        return self.until(visible, css, within_s)

    def fill(self, **fields: str) -> None:
        for name, value in fields.items():
            field = self.see(f"[name={name}]")
            field.clear()
            field.send_keys(value)

    def send(self) -> None:
        self.see("main form [type=submit]").click()

    @property
    def text(self) -> str:
        return str(self.browser.execute_script("return document.body.innerText"))

    @property
    def path(self) -> str:
        """Path of the page, empty while a page is loading."""
        if self.browser.execute_script("return document.readyState") != "complete":
            return ""
        return super().path

    def status(self, css: str = "#task-status") -> str:
        """Return the status of a badge, by a script, since the page may replace the badge."""
        script = "return document.querySelector(arguments[0])?.dataset.status ?? ''"
        return str(self.browser.execute_script(script, css))

    def register(self, email: str) -> None:
        self.open("/accounts/signup/")
        self.fill(email=email, password1=PASSWORD, password2=PASSWORD)
        self.send()
        self.until(lambda: self.path == "/tasks/", "the list after registering")

    def choose_files(self, model: Path, data: dict[str, Path]) -> None:
        """Choose the plan "quick", a model and its data."""
        self.click("[name=preset][value=quick]")
        self.see("#model").send_keys(str(model))
        for number, (name, file) in enumerate(data.items()):
            if len(self.all(".data-row")) <= number:
                self.click("#add-data")
            row = self.all(".data-row")[number]
            row.find_element(By.NAME, "data-file").send_keys(str(file))
            field = row.find_element(By.NAME, "data-input")
            field.send_keys(Keys.CONTROL, "a")
            field.send_keys(name)


@pytest.fixture
def person(browser, site) -> Person:
    return Person(browser, site)


@pytest.fixture
def resnet(testdata) -> tuple[Path, dict[str, Path]]:
    data = {"data": testdata / "inputs" / "resnet18" / "data.npy"}
    return testdata / "models" / "resnet18.mge", data


def test_new_user_registers_submits_a_task_and_opens_its_result(person, resnet):
    person.register("newcomer@example.com")
    assert "newcomer@example.com" in person.browser.page_source
    person.browser.delete_all_cookies()
    person.open("/tasks/")
    assert person.path.startswith("/accounts/login/")
    person.fill(login="newcomer@example.com", password=PASSWORD)
    person.send()
    person.until(lambda: person.path == "/tasks/", "the list after login")

    person.open("/tasks/new/")
    Select(person.see("#worker")).select_by_visible_text("local (free)")
    person.choose_files(*resnet)
    person.see("#submit").click()
    person.until(
        lambda: "/tasks/" in person.path and person.path != "/tasks/new/", "the task's page"
    )

    # without scrolling or typing, the page opens the result
    person.until(lambda: person.all("#operator-table"), "the result")
    person.until(lambda: "ConvolutionForward" in person.text, "its table")
    assert person.console_errors() == []


def test_task_list_is_updated_without_a_reload(person, resnet, site):
    person.register("lister@example.com")
    person.open("/tasks/new/")
    person.choose_files(*resnet)
    person.see("#submit").click()
    person.until(
        lambda: person.path.count("/") == 3 and "new" not in person.path, "the task's page"
    )
    person.open("/tasks/")
    person.js("window.unchanged = true")
    person.until(
        lambda: person.status("tbody [data-status]") == "succeeded", "succeeded in the list"
    )
    assert person.js("return window.unchanged") is True


def test_language_change_applies_to_all_pages(person):
    person.open("/accounts/login/")
    person.see("[name=language][value=zh-hans]").click()
    person.until(
        lambda: person.js("return document.documentElement.lang") == "zh-hans",
        "Chinese",
    )
    assert "登录" in person.text
    person.open("/accounts/signup/")
    assert "注册" in person.text


def test_admin_site_obeys_the_content_security_policy(person):
    person.open("/accounts/login/")
    person.fill(login="admin@example.com", password=person.site.admin_password)
    person.send()
    person.until(lambda: person.path == "/tasks/", "the list after login")
    for path in (
        "/admin/",
        "/admin/workers/worker/",
        "/admin/accounts/user/",
        "/admin/workers/worker/1/change/",
    ):
        person.open(path)
        assert person.console_errors() == [], path
    person.open("/admin/workers/worker/add/")
    person.fill(name="jetson")
    person.see("[name=_save]").click()
    lines = person.see(".panel").text
    assert "| python3 - --code mge_" in lines
    assert "python -m agent enrol --server" in lines
    assert person.console_errors() == []


def submit_without_storage(person, resnet):
    person.open("/tasks/new/")
    block_urls(person.browser, "*/megengine-web-profile/*")
    person.choose_files(*resnet)
    person.see("#submit").click()


@pytest.mark.exhaustive
def test_interrupted_upload_can_be_retried(person, resnet):
    person.register("patient@example.com")
    submit_without_storage(person, resnet)
    assert "storage" in person.see("#transfer-cause", within_s=60).text
    block_urls(person.browser)
    person.see("#transfer-retry").click()
    person.until(lambda: person.all("#operator-table"), "the result after a retry")


@pytest.mark.exhaustive
def test_interrupted_upload_can_be_abandoned(person, resnet):
    person.register("impatient@example.com")
    submit_without_storage(person, resnet)
    person.see("#transfer-abandon", within_s=60).click()
    person.until(
        lambda: (
            (person.path and "new" not in person.path) or not person.all("#transfer:not([hidden])")
        ),
        "the way out",
    )
    person.open("/tasks/")
    person.until(lambda: person.status("tbody [data-status]") == "cancelled", "cancelled")


@pytest.mark.exhaustive
def test_page_catches_up_after_losing_its_socket(person, testdata):
    """The web process of the site is killed and restarted."""
    person.register("offline@example.com")
    person.open("/tasks/new/")
    (data,) = (testdata / "inputs" / "deep_loop").glob("*.npy")
    person.choose_files(testdata / "models" / "deep_loop.mge", {data.stem: data})
    person.see("#submit").click()
    person.see("#task-status")
    # a reload would lose the mark; a scrolled page does not open the result
    resize(person.browser, (DESK[0], 400))
    person.js("window.unchanged = true; window.scrollBy(0, 300)")
    assert person.js("return window.scrollY") > 0
    subprocess.run(
        ["pkill", "-KILL", "-f", f"webprofile.web.*--port {person.site.address.rsplit(':', 1)[1]}"],
        check=True,
    )
    ended = ("succeeded", "failed")
    person.until(lambda: person.status() in ended, "the end", within_s=120)
    assert person.status() == "succeeded", person.see("main").text
    assert person.js("return window.unchanged") is True
    assert "iter 9/10:" in person.see("#log").text
