"""Browser tests of multipart uploads: interrupted networks and reloaded pages."""

import functools
import hashlib
import os
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import OperationalError

from agent.protocol.multipart import PART_BYTES, Checksum
from agent.tests.cutting import cutting_proxy
from profiles.models import OpenedFile, PartedUpload, ProfileUpload
from tasks.tests.make import make_user
from webprofile.storage import storage as object_store
from webprofile.tests.browser.conftest import DESK, PHONE, PageObject, resize
from webprofile.tests.browser.pages import allow

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.object_storage,
]

MIB = 1 << 20
SIZE = 72 * MIB


@functools.cache
def content() -> bytes:
    return b"{" + os.urandom(SIZE // 2 - 1).hex().encode() + b"}"


@pytest.fixture
def cuts(storage, settings):
    """A proxy between the browser and storage that breaks connections."""
    place = urlsplit(settings.S3_ENDPOINT_URL)
    with cutting_proxy((place.hostname, place.port)) as proxy:
        settings.S3_PUBLIC_ENDPOINT_URL = proxy.address
        allow(settings, "connect-src", "'self'", proxy.address)
        yield proxy


@pytest.fixture
def page(browser, live_server, cuts, log_in):
    log_in(make_user())
    yield UploadPage(browser, live_server.url)
    browser.get("about:blank")  # ends its requests before the storage


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "night.json"
    path.write_bytes(content())
    return path


class UploadPage(PageObject):
    """The page that imports a profile or continues its upload."""

    def open_profile(self, file: Path) -> None:
        self.browser.get(f"{self.address}/profiles/")
        self.find("#open-files").send_keys(str(file))
        self.find("#open-submit").click()

    def reopen(self) -> None:
        """Open the page of the interrupted upload, as after a reload."""
        self.browser.get("about:blank")
        self.browser.get(f"{self.address}/profiles/opened/{ProfileUpload.objects.get().pk}/")

    def choose_again(self, file: Path) -> None:
        self.find("#resume-files").send_keys(str(file))
        self.until(lambda: self.find("#resume-start").is_enabled(), "the button")
        self.find("#resume-start").click()

    def text(self, selector: str) -> str:
        return self.js("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def until_state(self, text: str) -> None:
        self.until(lambda: text in self.text(".transfer__state"), text)

    def until_stored(self) -> None:
        self.until(lambda: self.all("#opened-wait"), "the wait")
        file = OpenedFile.objects.get()
        checksum = Checksum(PART_BYTES)
        checksum.update(content())
        assert file.md5 == checksum.hexdigest()
        assert object_store.head(file.object_key)[0] == SIZE
        assert not PartedUpload.objects.exists()

    def confirmed_parts(self) -> int:
        """Return how many responses of storage arrived; it may have stored more parts."""
        return self.js(
            "return performance.getEntriesByType('resource').filter((entry) =>"
            " entry.name.includes('partNumber=') && entry.responseStatus === 200).length"
        )

    def check_width(self) -> None:
        """Assert that the page fits a phone."""
        resize(self.browser, PHONE)
        assert not self.is_too_wide()
        resize(self.browser, DESK)


def upload_under_way() -> PartedUpload | None:
    """Return the upload. SQLite may lock the table while the site writes."""
    while True:
        try:
            return PartedUpload.objects.first()
        except OperationalError:
            time.sleep(0.02)


def stored_sizes() -> list[int]:
    """Return the sizes of the parts that storage has."""
    row = upload_under_way()
    parts = object_store.stored_parts(row.object_key, row.upload_id) if row else None
    return [size for size, _ in (parts or {}).values()]


def test_interrupted_network_loses_only_unfinished_parts(page, cuts, file):
    cuts.slow_s = 0.005
    page.open_profile(file)
    page.until(lambda: "MiB/s" in page.text(".transfer__detail"), "the speed")
    assert "left" in page.text(".transfer__detail")
    page.check_width()
    page.until(page.confirmed_parts, "a part of which the page knows")
    cuts.up = [1] * 500
    cuts.end_all()
    page.until_state("Waiting for the network")
    assert page.text(".transfer__detail") == f"{page.confirmed_parts()} of 9 parts uploaded"
    assert 1 <= page.confirmed_parts() <= len(stored_sizes())
    page.check_width()
    cuts.up, cuts.slow_s = [], 0
    page.until_stored()
    assert sum(cuts.sent) < SIZE + 4 * PART_BYTES + MIB


def test_paused_upload_sends_nothing(page, cuts, file):
    cuts.slow_s = 0.005
    page.open_profile(file)
    page.until(stored_sizes, "a part in storage")
    # so slow that parts are still being sent when the browser handles the click
    cuts.slow_s = 0.2
    page.find("#transfer-pause").click()
    page.until_state("Paused")
    assert page.find("#transfer-pause").text == "Continue"
    before = len(cuts.sent)
    page.browser.execute_async_script("setTimeout(arguments[0], 1500)")
    assert len(cuts.sent) == before
    assert page.text(".transfer__state") == "Paused"
    cuts.slow_s = 0
    page.find("#transfer-pause").click()
    page.until_stored()


#: Sends two files in parts to a storage that takes them at once; the site joins them on request
_TWO_FILES = """
    const done = arguments[0];
    const answers = [];
    window.fetch = () => new Promise((resolve) => answers.push(resolve));
    window.join = () => answers.shift()(new Response("{}"));
    const request = XMLHttpRequest.prototype;
    Object.defineProperty(request, "status", { get: () => 200 });
    request.getResponseHeader = () => "0".repeat(32);
    request.send = function () { this.dispatchEvent(new Event("load")); };
    document.getElementById("transfer").dataset.partsFrom = "1";
    const { src } = document.querySelector("script[src*='profiles/list/page']");
    import(src.replace("profiles/list/page", "transfer/transfer")).then(({ Transfer }) => {
        const address = { number: 1, url: "/", headers: {} };
        const parts = { upload: 1, part_bytes: 1, count: 1, done: {}, addresses: [address] };
        const transfer = new Transfer(["a", "b"].map((name) => new File([name], name)), "");
        const targets = [1, 2].map((file) => ({ file, parts: structuredClone(parts) }));
        transfer.release();
        transfer.sendAll(targets, { files: "/", uploads: "/", submit: "/", page: "/" });
        done();
    });
"""


def test_pause_at_the_end_of_a_file_holds_for_the_next(page):
    page.browser.get(f"{page.address}/profiles/")
    page.browser.execute_async_script(_TWO_FILES)
    button = page.find("#transfer-pause")
    page.until_state("Joining parts")
    button.click()
    page.js("window.join()")
    page.until_state("Stored")
    last = page.all(".transfer__state")[1]
    page.until(lambda: last.text == "Paused", "the pause")
    assert button.text == "Continue"
    button.click()
    page.until(lambda: last.text == "Joining parts", "the other file")
    assert button.text == "Pause"


def test_upload_continues_after_a_reload_with_the_same_file_only(page, cuts, file, tmp_path):
    cuts.slow_s = 0.005
    page.open_profile(file)
    page.until(lambda: len(stored_sizes()) >= 2, "two parts in storage")
    cuts.slow_s = 0.2  # so that no third part is stored before the page stops
    page.browser.execute_cdp_cmd("Page.enable", {})
    page.browser.execute_script("window.stop()")
    # buffered data would arrive after the page has requested the stored parts
    cuts.end_all()
    page.reopen()
    cuts.slow_s = 0
    progress = ".file-list__progress"
    page.until(lambda: page.text(progress), "what is here")
    sizes = stored_sizes()
    assert page.text(progress) == f"{len(sizes) * 8}.0 MiB of 72.0 MiB already uploaded"
    page.check_width()
    other = tmp_path / "other" / file.name
    other.parent.mkdir()
    other.write_bytes(content()[::-1])
    page.choose_again(other)
    page.until(lambda: page.find("#transfer-problem").is_displayed(), "the refusal")
    assert "not the file of the interrupted upload" in page.text("#transfer-cause")
    row = upload_under_way()
    for number, (size, md5) in object_store.stored_parts(row.object_key, row.upload_id).items():
        start = (number - 1) * PART_BYTES
        # no part is from the other file
        assert md5 == hashlib.md5(content()[start : start + size]).hexdigest()
    page.reopen()
    before = sum(cuts.sent)
    missing = SIZE - sum(stored_sizes())
    page.choose_again(file)
    page.until_stored()
    assert sum(cuts.sent) - before < missing + MIB


def test_upload_restarts_if_storage_lost_it(page, cuts, file):
    cuts.slow_s = 0.005
    page.open_profile(file)
    page.until(stored_sizes, "a part in storage")
    row = upload_under_way()
    object_store.abort_parts(row.object_key, row.upload_id)
    cuts.slow_s = 0
    page.until_stored()
