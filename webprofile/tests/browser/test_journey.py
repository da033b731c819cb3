"""What a new user does, in a real browser against a real site."""

import subprocess
from pathlib import Path

import pytest
from selenium.common.exceptions import (
    JavascriptException,
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support import expected_conditions as until
from selenium.webdriver.support.ui import Select, WebDriverWait

from webprofile.tests.browser.conftest import DESK, PHONE
from webprofile.tests.site import Site

pytestmark = [pytest.mark.browser, pytest.mark.megengine, pytest.mark.embedded]

PASSWORD = "a long enough passphrase"


#: what looking at a page brings that is replaced at this moment: look again
GONE = (StaleElementReferenceException, NoSuchElementException, JavascriptException)


class Person:
    """Somebody who looks at pages."""

    def __init__(self, browser, site: Site) -> None:
        self.browser, self.site = browser, site

    def open(self, path: str) -> None:
        self.browser.get(self.site.address + path)

    def see(self, css: str, within_s: float = 20) -> WebElement:
        found = until.visibility_of_element_located((By.CSS_SELECTOR, css))
        wait = WebDriverWait(self.browser, within_s, ignored_exceptions=GONE)
        return wait.until(found, f"never saw {css}")

    def wait(self, condition, what: str, within_s: float = 60) -> None:
        WebDriverWait(self.browser, within_s, ignored_exceptions=GONE).until(
            lambda _: condition(), what
        )

    def click(self, css: str) -> None:
        """In the middle of the window: the form's bar covers what is at its lower edge."""
        element = self.see(css)
        script = "arguments[0].scrollIntoView({block: 'center'})"
        self.browser.execute_script(script, element)
        element.click()

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
        """Of the page that is here as a whole; none while one is on its way."""
        if self.browser.execute_script("return document.readyState") != "complete":
            return ""
        return self.browser.current_url.removeprefix(self.site.address)

    def status(self, css: str = "#task-status") -> str:
        """What a badge says; asked in the page, which may swap it at any moment."""
        script = "return document.querySelector(arguments[0])?.dataset.status ?? ''"
        return str(self.browser.execute_script(script, css))

    def register(self, email: str) -> None:
        self.open("/accounts/signup/")
        self.fill(email=email, password1=PASSWORD, password2=PASSWORD)
        self.send()
        self.wait(lambda: self.path == "/tasks/", "the list after registering")

    def choose_files(self, model: Path, data: dict[str, Path]) -> None:
        """Fill in the files; the quick plan keeps the run short."""
        self.click("[name=preset][value=quick]")
        self.see("#model").send_keys(str(model))
        for number, (name, file) in enumerate(data.items()):
            if len(self.browser.find_elements(By.CSS_SELECTOR, ".data-row")) <= number:
                self.click("#add-data")
            row = self.browser.find_elements(By.CSS_SELECTOR, ".data-row")[number]
            row.find_element(By.NAME, "data-file").send_keys(str(file))
            field = row.find_element(By.NAME, "data-input")
            field.send_keys(Keys.CONTROL, "a")
            field.send_keys(name)

    def complaints(self) -> list[str]:
        """What the browser's console holds against the pages: CSP, scripts, missing files."""
        log = self.browser.get_log("browser")
        return [entry["message"] for entry in log if entry["level"] == "SEVERE"]


@pytest.fixture
def person(browser, site) -> Person:
    return Person(browser, site)


@pytest.fixture
def resnet(testdata) -> tuple[Path, dict[str, Path]]:
    data = {"data": testdata / "inputs" / "resnet18" / "data.npy"}
    return testdata / "models" / "resnet18.mge", data


def test_register_log_in_upload_watch_and_open_the_result(person, resnet, screenshots):
    person.register("newcomer@example.com")
    assert "newcomer@example.com" in person.browser.page_source
    person.browser.delete_all_cookies()
    person.open("/tasks/")
    assert person.path.startswith("/accounts/login/")
    person.fill(login="newcomer@example.com", password=PASSWORD)
    person.send()
    person.wait(lambda: person.path == "/tasks/", "the list after login")

    person.open("/tasks/new/")
    Select(person.see("#worker")).select_by_visible_text("local (free)")
    person.choose_files(*resnet)
    person.see("#submit").click()
    person.wait(
        lambda: "/tasks/" in person.path and person.path != "/tasks/new/", "the task's page"
    )

    # the page goes on by itself, since nobody scrolls or types
    person.wait(lambda: person.path.endswith("/result/"), "the result")
    person.wait(lambda: "ConvolutionForward" in person.text, "its table")
    assert person.complaints() == []
    if screenshots:
        person.browser.save_screenshot(str(screenshots / "result.png"))


def test_the_list_follows_without_a_reload(person, resnet, site):
    person.register("lister@example.com")
    person.open("/tasks/new/")
    person.choose_files(*resnet)
    person.see("#submit").click()
    person.wait(lambda: person.path.count("/") == 3 and "new" not in person.path, "the task's page")
    person.open("/tasks/")
    person.browser.execute_script("window.unchanged = true")
    person.wait(
        lambda: person.status("tbody [data-status]") == "succeeded", "succeeded in the list"
    )
    assert person.browser.execute_script("return window.unchanged") is True


@pytest.mark.parametrize(
    ("email", "first", "second", "says"),
    [
        ("no-address", PASSWORD, PASSWORD, "email"),
        ("weak@example.com", "12345", "12345", "too short"),
        ("weak@example.com", "weak@example.com", "weak@example.com", "too similar"),
        ("differs@example.com", PASSWORD, PASSWORD + "!", "same password"),
        ("demo@example.com", PASSWORD, PASSWORD, "already registered"),
    ],
)
def test_a_registration_that_cannot_be_is_refused_with_the_cause(
    person, email, first, second, says
):
    person.open("/accounts/signup/")
    # the server has to answer, not the browser's own check of the field
    person.browser.execute_script("document.querySelector('main form').noValidate = true")
    person.fill(email=email, password1=first, password2=second)
    person.send()
    person.wait(lambda: says in person.text.lower(), f"never saw {says!r}", 10)


def test_the_language_can_be_changed_on_every_page(person):
    person.open("/accounts/login/")
    person.see("[name=language][value=zh-hans]").click()
    person.wait(
        lambda: person.browser.execute_script("return document.documentElement.lang") == "zh-hans",
        "Chinese",
    )
    assert "登录" in person.text
    person.open("/accounts/signup/")
    assert "注册" in person.text


def test_a_file_that_cannot_be_is_refused_before_anything_is_sent(person, tmp_path):
    person.register("careless@example.com")
    person.open("/tasks/new/")
    empty = tmp_path / "empty.mge"
    empty.touch()
    person.see("#model").send_keys(str(empty))
    person.see("#submit").click()
    assert "empty" in person.see("#model-about").text
    person.open("/tasks/")
    assert not person.browser.find_elements(By.CSS_SELECTOR, "tbody [data-status]")


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("path", ["/accounts/login/", "/tasks/", "/tasks/new/", "/workers/"])
def test_no_page_is_wider_than_the_window(person, size, path):
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    person.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    if path != "/accounts/login/":
        person.open("/accounts/login/")
        account = person.site.account
        person.fill(login=account["email"], password=account["password"])
        person.send()
        person.wait(lambda: person.path == "/tasks/", "the list after login")
    person.open(path)
    width = person.browser.execute_script("return document.documentElement.scrollWidth")
    assert width <= size[0]
    assert person.complaints() == []


def test_the_administration_runs_under_the_same_strict_policy(person):
    person.open("/accounts/login/")
    person.fill(login="admin@example.com", password=person.site.admin_password)
    person.send()
    person.wait(lambda: person.path == "/tasks/", "the list after login")
    for path in (
        "/admin/",
        "/admin/workers/worker/",
        "/admin/accounts/user/",
        "/admin/workers/worker/1/change/",
    ):
        person.open(path)
        assert person.complaints() == [], path
    person.open("/admin/workers/worker/add/")
    person.fill(name="jetson")
    person.see("[name=_save]").click()
    lines = person.see(".panel").text
    assert "| python3 - --code mge_" in lines
    assert "python -m agent enrol --server" in lines
    assert person.complaints() == []


def submit_without_storage(person, resnet):
    person.open("/tasks/new/")
    person.browser.execute_cdp_cmd("Network.enable", {})
    person.browser.execute_cdp_cmd(
        "Network.setBlockedURLs", {"urls": ["*/megengine-web-profile/*"]}
    )
    person.choose_files(*resnet)
    person.see("#submit").click()


@pytest.mark.exhaustive
def test_an_upload_that_breaks_off_can_be_retried(person, resnet):
    person.register("patient@example.com")
    submit_without_storage(person, resnet)
    assert "storage" in person.see("#transfer-cause", within_s=60).text
    person.browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    person.see("#transfer-retry").click()
    person.wait(lambda: person.path.endswith("/result/"), "the result after a retry")


@pytest.mark.exhaustive
def test_an_upload_that_breaks_off_can_be_abandoned(person, resnet):
    person.register("impatient@example.com")
    submit_without_storage(person, resnet)
    person.see("#transfer-abandon", within_s=60).click()
    person.wait(
        lambda: (
            (person.path and "new" not in person.path)
            or not person.browser.find_elements(By.CSS_SELECTOR, "#transfer:not([hidden])")
        ),
        "the way out",
    )
    person.open("/tasks/")
    person.wait(lambda: person.status("tbody [data-status]") == "cancelled", "cancelled")


@pytest.mark.exhaustive
def test_a_page_that_lost_its_socket_catches_up(person, testdata):
    """The site's web process is restarted under the page: the socket is gone for a while."""
    person.register("offline@example.com")
    person.open("/tasks/new/")
    (data,) = (testdata / "inputs" / "deep_loop").glob("*.npy")
    person.choose_files(testdata / "models" / "deep_loop.mge", {data.stem: data})
    person.see("#submit").click()
    person.see("#task-status")
    # a mark that a reload would lose; a page that is read does not go on to the result
    person.browser.execute_script("window.unchanged = true; window.scrollBy(0, 300)")
    subprocess.run(
        ["pkill", "-KILL", "-f", f"uvicorn.*--port {person.site.address.rsplit(':', 1)[1]}"],
        check=True,
    )
    person.wait(
        lambda: person.status() == "succeeded",
        "the end",
        within_s=120,
    )
    assert person.browser.execute_script("return window.unchanged") is True
    assert "iter 9/10:" in person.see("#log").text
