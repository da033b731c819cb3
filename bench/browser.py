"""Start a headless Chromium for the benchmarks."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-proxy-server", "--window-size=1440,1000",
)  # fmt: skip


@contextlib.contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Run a browser with a temporary profile. Raises SystemExit if it is not installed."""
    # names differ between distributions
    names = ("chromium", "chromium-browser", "google-chrome")
    binary = next((path for name in names if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        raise SystemExit("no chromium: install the distribution's chromium and chromium-driver")
    with tempfile.TemporaryDirectory() as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        for flag in (*FLAGS, f"--user-data-dir={folder}"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=Service(driver))
        browser.set_script_timeout(120)
        try:
            yield browser
        finally:
            browser.quit()


def log_in(browser: webdriver.Chrome, address: str, account: dict[str, str]) -> None:
    """Fill in the login form."""
    browser.get(f"{address}/accounts/login/")
    for name, text in (("login", account["email"]), ("password", account["password"])):
        browser.find_element(By.NAME, name).send_keys(text)
    browser.find_element(By.CSS_SELECTOR, "main form [type=submit]").click()
    WebDriverWait(browser, 20).until(lambda _: "/login/" not in browser.current_url)


def measured(browser: webdriver.Chrome, body: str, *arguments: Any) -> Any:
    """Run an async function with this body in the page and return its result.

    The body can use `args`, `frame()`, `painted()` and `heard(event)`. `painted()` resolves after
    the next frame is painted: the callback of an animation frame runs before that, the timer's
    after it. Raises RuntimeError if the function throws.
    """
    script = f"""
        const done = arguments[arguments.length - 1];
        const frame = () => new Promise((go) => requestAnimationFrame(go));
        const painted = async () => {{ await frame(); await new Promise((go) => setTimeout(go)); }};
        const heard = (name) => new Promise((go) => {{
            document.addEventListener(name, go, {{ once: true }});
        }});
        (async (...args) => {{ {body} }})(...arguments)
            .then((value) => done({{ value }}), (error) => done({{ error: String(error) }}));
    """
    answer = browser.execute_async_script(script, *arguments)
    if "error" in answer:
        raise RuntimeError(f"{answer['error']} on {browser.current_url}")
    return answer.get("value")
