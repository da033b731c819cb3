"""Browser tests of importing a profile, and of the exported report opened from a file."""

from pathlib import Path

import pytest

from profiles.actors import build_opened
from profiles.models import ProfileUpload
from profiles.tests.imports import make_import
from tasks.tests.make import make_user
from testdata import DATA
from webprofile.tests.browser.conftest import DESK, PHONE, PageObject, resize, set_colour_scheme
from webprofile.tests.browser.pages import allow

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

RESNET = DATA / "profiles" / "resnet18.json"


class ImportPage(PageObject):
    """The list of imported profiles."""

    def choose(self, *files: Path) -> None:
        self.browser.get(f"{self.address}/profiles/")
        self.until(lambda: self.js("return document.readyState") == "complete", "the list")
        self.find("#open-files").send_keys("\n".join(map(str, files)))
        self.find("#open-submit").click()

    def until_sent(self) -> ProfileUpload:
        self.until(lambda: self.all("#opened-wait"), "the wait")
        return ProfileUpload.objects.get()

    def console_errors(self) -> list[str]:
        # the live server has no WebSockets
        return [message for message in super().console_errors() if "WebSocket" not in message]


@pytest.fixture
def page(browser, live_server, storage, settings, log_in, alice) -> ImportPage:
    """The page of a user who is logged in. It may send files to storage."""
    allow(settings, "connect-src", "'self'", settings.S3_PUBLIC_ENDPOINT_URL)
    log_in(alice)
    return ImportPage(browser, live_server.url)


def test_imported_files_are_uploaded_and_the_profile_opens(page, tmp_path):
    again = tmp_path / "resnet18-2.json"
    again.write_bytes(RESNET.read_bytes() + b"\n")
    page.choose(again, RESNET)
    upload = page.until_sent()
    assert [file.name for file in upload.files.all()] == ["resnet18.json", "resnet18-2.json"]
    build_opened(upload.pk)
    upload.refresh_from_db()
    page.fetch_state()
    page.until(lambda: page.path == f"/profiles/{upload.profile.pk}/", "the profile's page")
    page.until(lambda: page.find("h1").text == "resnet18", "its title")
    assert page.find("#device-total").text == "13.7 ms"
    assert page.console_errors() == []


def test_imported_folder_names_the_profile(page, tmp_path):
    run = tmp_path / "Monday's run"
    (run / "deeper").mkdir(parents=True)
    for name in ("resnet18.json", "notes.txt", "deeper/other.json"):
        (run / name).write_bytes(RESNET.read_bytes())
    page.browser.get(f"{page.address}/profiles/")
    field = page.find("#open-folder")
    page.until(field.is_displayed, "the folder's field")
    field.send_keys(str(run))
    page.until(lambda: page.find("#open-name").get_attribute("placeholder"), "the name")
    page.find("#open-submit").click()
    upload = page.until_sent()
    assert upload.name == "Monday's run/resnet18"
    assert [file.name for file in upload.files.all()] == ["resnet18.json"]


#: drops a profile; returns whether the page prevents what the browser does with it
_DROP = """
const dataTransfer = new DataTransfer();
dataTransfer.items.add(new File(["{}"], "profile.json"));
const drop = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
return !arguments[0].dispatchEvent(drop);
"""


def test_unsupported_file_is_refused_on_the_page_until_another_is_dropped(page):
    page.choose(DATA / "models/tiny.mge")
    place = page.find("#open-error")
    page.until(place.is_displayed, "the refusal")
    assert "is a model" in place.text
    assert page.browser.switch_to.active_element == place
    assert not ProfileUpload.objects.exists()
    assert page.find("#open-submit").is_enabled()
    # the browser would leave the page for a file that is dropped elsewhere
    assert page.js(_DROP, page.find("h1"))
    assert place.is_displayed()
    assert page.js(_DROP, page.find("[data-drop=files]"))
    page.until(lambda: not place.is_displayed(), "the dropped file instead")


def test_export_link_has_the_filter_of_the_table(page, alice):
    profile = make_import(alice, RESNET.read_bytes()).profile
    page.browser.get(f"{page.address}/profiles/{profile.pk}/?type=Reduce")
    page.find("#export summary").click()
    link = page.find("#export a[href*='csv']")
    page.js("arguments[0].focus()", link)
    assert link.get_attribute("href").endswith(f"/profiles/{profile.pk}/export/csv/?type=Reduce")


@pytest.mark.parametrize(("size", "scheme"), [(DESK, "light"), (PHONE, "dark")])
def test_exported_report_works_offline(page, client, alice, tmp_path, size, scheme):
    profile = make_import(alice, RESNET.read_bytes()).profile
    client.force_login(alice)
    report = tmp_path / "report.html"
    report.write_bytes(client.get(f"/profiles/{profile.pk}/export/report/").content)
    resize(page.browser, size)
    set_colour_scheme(page.browser, scheme)
    page.browser.get(report.as_uri())
    first = "#device tbody tr:first-child .operator"
    assert "ConvolutionForward" in page.find(first).text
    page.find("#device thead th:nth-child(2) button").click()
    assert "ADD(fc.bias" in page.find(first).text
    assert not page.is_too_wide()
    loaded = "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    assert page.js(loaded) == []
    assert page.console_errors() == []


def test_long_name_leaves_room_for_the_columns_of_the_admin_list(browser, live_server, log_in):
    root = make_user("root", is_staff=True, is_superuser=True)
    ProfileUpload.objects.create(owner=root, name="x" * 255, size_bytes=1)
    log_in(root)
    resize(browser, DESK)
    page = PageObject(browser, live_server.url)
    browser.get(f"{live_server.url}/admin/profiles/profileupload/")
    table = page.find("#changelist .results")
    needed, width = page.js("return [arguments[0].scrollWidth, arguments[0].clientWidth]", table)
    assert needed <= width
