"""A real Chromium, driven by selenium."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

#: the sizes that pages are looked at in: a desk and a phone
DESK, PHONE = (1440, 1000), (400, 800)
#: a name of this machine that browsers trust no more than any other
NAMED = "profile.example.org"


def program(*names: str) -> str:
    """The distribution's program of one of these names; without it CI fails, others skip."""
    for name in names:
        if found := shutil.which(name):
            return found
    reason = f"no {names[0]}: install the distribution's chromium and chromium-driver"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = program("chromium", "chromium-browser", "google-chrome")
    for flag in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'chromium'}",
        "--lang=en", "--no-proxy-server", f"--host-resolver-rules=MAP {NAMED} 127.0.0.1",
        f"--window-size={DESK[0]},{DESK[1]}",
    ):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(program("chromedriver")))
    driver.implicitly_wait(0)
    if times := os.environ.get("MGW_SLOW_BROWSER"):
        # finds tests that read what a slower machine has not drawn yet
        driver.execute_cdp_cmd("Emulation.setCPUThrottlingRate", {"rate": float(times)})
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def screenshots() -> Path | None:
    """Where to leave pictures of the pages, if `MGW_SCREENSHOTS` names a folder."""
    folder = os.environ.get("MGW_SCREENSHOTS")
    if not folder:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)
