"""Opening a profile in a real browser, and the report that it leaves, opened from a file."""

import copy
from pathlib import Path

import pytest
from django.test import Client
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from profiles.actors import build_opened
from profiles.models import Profile, ProfileUpload
from tasks.tests.make import make_user
from testdata import DATA
from webprofile.tests.browser.conftest import DESK, PHONE

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

RESNET = DATA / "profiles" / "resnet18.json"


@pytest.fixture
def client(browser, live_server, storage, settings) -> Client:
    """A logged-in reader, whose browser stands beside the site and may send files to storage."""
    policy = copy.deepcopy(settings.CONTENT_SECURITY_POLICY)
    policy["DIRECTIVES"]["connect-src"] = ["'self'", settings.S3_PUBLIC_ENDPOINT_URL]
    settings.CONTENT_SECURITY_POLICY = policy
    client = Client()
    client.force_login(make_user())
    browser.get(f"{live_server.url}/healthz")
    browser.add_cookie({"name": "sessionid", "value": client.cookies["sessionid"].value})
    return client


def until(browser, condition, what: str) -> None:
    swapped = [StaleElementReferenceException]
    WebDriverWait(browser, 40, ignored_exceptions=swapped).until(
        lambda _: condition(), f"never saw {what}"
    )


def is_whole(browser) -> bool:
    return browser.execute_script("return document.readyState") == "complete"


def choose(browser, address: str, *files: Path) -> None:
    browser.get(f"{address}/profiles/")
    field = browser.find_element(By.ID, "open-files")
    until(browser, lambda: is_whole(browser), "it")
    field.send_keys("\n".join(map(str, files)))
    browser.find_element(By.ID, "open-submit").click()


def read(browser, address: str) -> Profile:
    """Read what was sent, and wait until the page that waits for it has gone to the profile's.

    It goes by itself: who asked for another page meanwhile might not stay there.
    """
    until(browser, lambda: browser.find_elements(By.ID, "opened-wait"), "the wait")
    # this thread and the server share one connection to SQLite, which may be busy with a question
    # of the page while a row is written: here, where sockets lead nowhere, it asks every 15 s
    build_opened(ProfileUpload.objects.get().pk)
    profile = Profile.objects.get()
    page = f"{address}/profiles/{profile.pk}/"
    until(browser, lambda: browser.current_url == page, "the profile's page")
    until(browser, lambda: is_whole(browser), "all of it")
    return profile


def errors(browser) -> list[str]:
    """What the console tells; the server of these tests has no sockets."""
    found = [each["message"] for each in browser.get_log("browser") if each["level"] == "SEVERE"]
    return [each for each in found if "WebSocket" not in each]


def test_files_go_to_storage_and_the_page_goes_on_by_itself(browser, client, live_server, tmp_path):
    again = tmp_path / "resnet18-2.json"
    again.write_bytes(RESNET.read_bytes() + b"\n")
    choose(browser, live_server.url, again, RESNET)
    until(browser, lambda: browser.find_elements(By.ID, "opened-wait"), "the wait")
    upload = ProfileUpload.objects.get()
    assert [file.name for file in upload.files.all()] == ["resnet18.json", "resnet18-2.json"]
    read(browser, live_server.url)
    assert browser.find_element(By.TAG_NAME, "h1").text == "resnet18"
    assert browser.find_element(By.ID, "device-total").text == "13.75 ms"
    assert errors(browser) == []


def test_files_of_a_folder_are_called_after_it(browser, client, live_server, tmp_path):
    run = tmp_path / "Monday's run"
    (run / "deeper").mkdir(parents=True)
    for name in ("resnet18.json", "notes.txt", "deeper/other.json"):
        (run / name).write_bytes(RESNET.read_bytes())
    browser.get(f"{live_server.url}/profiles/")
    field = browser.find_element(By.ID, "open-folder")
    until(browser, field.is_displayed, "the folder's field")
    field.send_keys(str(run))
    name = browser.find_element(By.ID, "open-name")
    until(browser, lambda: name.get_attribute("placeholder"), "the name")
    browser.find_element(By.ID, "open-submit").click()
    until(browser, lambda: browser.find_elements(By.ID, "opened-wait"), "the wait")
    upload = ProfileUpload.objects.get()
    assert upload.name == "Monday's run/resnet18"
    assert [file.name for file in upload.files.all()] == ["resnet18.json"]


def test_another_tools_file_is_refused_in_place(browser, client, live_server):
    choose(browser, live_server.url, DATA / "models/tiny.mge")
    place = browser.find_element(By.ID, "open-error")
    until(browser, place.is_displayed, "the refusal")
    assert "is a model" in place.text
    assert browser.switch_to.active_element == place
    assert not ProfileUpload.objects.exists()
    assert browser.find_element(By.ID, "open-submit").is_enabled()


def test_the_export_follows_the_table_of_the_page(browser, client, live_server):
    choose(browser, live_server.url, RESNET)
    profile = read(browser, live_server.url)
    browser.get(f"{live_server.url}/profiles/{profile.pk}/?type=Reduce")
    browser.find_element(By.CSS_SELECTOR, "#export summary").click()
    link = browser.find_element(By.CSS_SELECTOR, "#export a[href*='csv']")
    browser.execute_script("arguments[0].focus()", link)
    assert link.get_attribute("href").endswith(f"/profiles/{profile.pk}/export/csv/?type=Reduce")


@pytest.mark.parametrize(("size", "scheme"), [(DESK, "light"), (PHONE, "dark")])
def test_the_report_works_from_a_file_alone(
    browser, client, live_server, tmp_path, size, scheme, screenshots
):
    choose(browser, live_server.url, RESNET)
    profile = read(browser, live_server.url)
    report = tmp_path / "report.html"
    report.write_bytes(client.get(f"/profiles/{profile.pk}/export/report/").content)
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get_log("browser")
    browser.get(report.as_uri())
    first = "#device tbody tr:first-child .operator"
    assert "ConvolutionForward" in browser.find_element(By.CSS_SELECTOR, first).text
    browser.find_element(By.CSS_SELECTOR, "#device thead th:nth-child(2) button").click()
    assert "ADD(fc.bias" in browser.find_element(By.CSS_SELECTOR, first).text
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(wide) <= 0
    loaded = "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    assert browser.execute_script(loaded) == []
    assert errors(browser) == []
    if screenshots:
        browser.save_screenshot(str(screenshots / f"report-{scheme}.png"))
