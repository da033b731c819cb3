"""Fixtures of Chromium with Selenium: one browser per test process, one window per test."""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.test import Client
from pytest_django.live_server_helper import LiveServer
from selenium import webdriver
from selenium.common.exceptions import (
    JavascriptException,
    NoSuchElementException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from accounts.models import User
from webprofile.operations import assets
from webprofile.tests.machine import HEADLESS_SHELL
from webprofile.tests.needs import need

#: window sizes of a desktop and of a phone
DESK, PHONE = (1440, 1000), (400, 800)
#: host name of this machine that is no secure context for browsers, unlike localhost
NAMED = "profile.example.org"
AXE = Path(settings.BASE_DIR) / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_RUN = """
    const [tags, rules, done] = arguments;
    const runOnly = rules ? { type: "rule", values: rules } : { type: "tag", values: tags };
    const describe = (id, { target, html, any }) =>
        `${id}: ${target.join(" ")}: ${html.slice(0, 120)} ${any[0]?.message ?? ""}`;
    // a page fades parts that it loads again
    const where = { include: [document], exclude: ["[aria-busy=true]"] };
    axe.run(where, { runOnly, resultTypes: ["violations"], iframes: false }).then(
        ({ violations }) =>
            done(violations.flatMap(({ id, nodes }) => nodes.map((node) => describe(id, node)))),
        (error) => done([String(error)]));
"""
_EXPECT_CLICK = """
    arguments[0].scrollIntoView({ block: "center" });
    window.missesClick = true;
    const seen = () => { window.missesClick = false; };
    arguments[0].addEventListener("click", seen, { capture: true, once: true });
"""
#: exceptions when an element is replaced while it is read
_REPLACED = (StaleElementReferenceException, NoSuchElementException, JavascriptException)


class Window(webdriver.Chrome):
    """The driver in the window of a test."""

    #: the browser context of the window, a parameter of DevTools commands to the browser
    context_id: str = ""


class Chromium:
    """A running Chromium, which tests share because its start takes about a second.

    By default it is the headless shell, because the other headless mode of Chromium draws a user
    interface in each window, which takes 2 s of CPU time instead of 0.2 s.

    Each test gets a new window without cookies, storage, permissions or emulation of other tests.
    The windows share a browser context with its cache, and while a page of the site stays open,
    also its process and what that has compiled: a page then takes 0.25 s of CPU time instead of
    0.5 s. The context is that of a private window; it is created at the DevTools endpoint of the
    browser, because chromedriver does not pass that command on.
    """

    def __init__(self, program: Path, folder: Path) -> None:
        need("chromium", "fonts")
        self._browser = subprocess.Popen(
            [
                program, "--headless=new", "--no-sandbox", "--disable-gpu", "--lang=en",
                "--disable-dev-shm-usage", "--disable-quic", "--disable-background-networking",
                "--disable-popup-blocking", "--no-proxy-server",
                f"--host-resolver-rules=MAP {NAMED} 127.0.0.1",
                f"--window-size={DESK[0]},{DESK[1]}", f"--user-data-dir={folder}",
                # frames of other origins have their own processes, as with users
                "--remote-debugging-port=0", "--site-per-process", "--process-per-site",
                # optimizing the WebAssembly of Perfetto takes 2 s and pays off only after a test
                "--js-flags=--liftoff-only",
            ],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        address = f"127.0.0.1:{self._port(folder / 'DevToolsActivePort')}"
        with urllib.request.urlopen(f"http://{address}/json/version", timeout=60) as response:
            endpoint = json.load(response)["webSocketDebuggerUrl"]
        self._connection = contextlib.ExitStack()
        self._devtools = self._connection.enter_context(
            connect(endpoint, proxy=None, max_size=None, ping_interval=None)
        )
        self._numbers = itertools.count(1)
        # chromedriver waits for a page, and the shell opens none
        self._first = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._context = self._call("Target.createBrowserContext")["browserContextId"]
        #: page that stays open, by the address of the site
        self._kept: dict[str, str] = {}
        options = webdriver.ChromeOptions()
        options.debugger_address = address
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = Window(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.context_id = self._context
        self.driver.implicitly_wait(0)

    def _port(self, file: Path) -> str:
        """Wait until the browser has written the port of its DevTools, and return it."""
        deadline = time.monotonic() + 60
        while not (file.exists() and (lines := file.read_text().splitlines())):
            assert self._browser.poll() is None, "Chromium did not start"
            assert time.monotonic() < deadline, "Chromium opened no DevTools port"
            time.sleep(0.02)
        return lines[0]

    def quit(self) -> None:
        with contextlib.suppress(WebDriverException, OSError):
            self.driver.quit()
        self._connection.close()
        self._browser.terminate()
        self._browser.wait(60)

    @property
    def is_alive(self) -> bool:
        """Whether the browser and its processes still run; a test may have crashed them."""
        try:
            for page in (self._first, *self._kept.values()):
                self.driver.switch_to.window(page)
                self.driver.execute_script("")
        except (WebDriverException, OSError):
            return False
        return True

    @contextlib.contextmanager
    def window(self, site: str) -> Iterator[Window]:
        """Yield the driver in a new window; close it and all windows that the test opens.

        site: the address of the site that the test opens
        """
        if site not in self._kept:
            self._kept[site] = self._open(f"{site}/healthz")
        self.driver.switch_to.window(self._open("about:blank"))
        self.driver.get_log("browser")
        try:
            yield self.driver
        finally:
            with contextlib.suppress(ConnectionClosed, TimeoutError):
                self._clean(site)

    def _open(self, address: str) -> str:
        """Open a window; return its target."""
        size = {"newWindow": True, "width": DESK[0], "height": DESK[1]}
        target = self._call(
            "Target.createTarget", url=address, browserContextId=self._context, **size
        )
        return str(target["targetId"])

    def _clean(self, site: str) -> None:
        """Close the windows of a test, even if a dialog is open, and delete what it stored."""
        origins = {site}
        for target in self._call("Target.getTargets")["targetInfos"]:
            is_own = target.get("browserContextId") == self._context and target["type"] == "page"
            if is_own and target["targetId"] not in self._kept.values():
                self._call("Target.closeTarget", targetId=target["targetId"])
                origins.add("://".join(urlsplit(target["url"])[:2]))
        self._call("Storage.clearCookies", browserContextId=self._context)
        self._call("Browser.resetPermissions", browserContextId=self._context)
        self.driver.switch_to.window(self._kept[site])
        for origin in origins:
            if origin.startswith("http"):
                everything = {"origin": origin, "storageTypes": "all"}
                self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", everything)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a DevTools command to the browser and return its result; one after the other."""
        number = next(self._numbers)
        self._devtools.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            response = json.loads(self._devtools.recv(60))
            if response.get("id") == number:
                return response["result"]


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Chromium]]:
    """Function that returns the browser of this test process, restarted after a crash."""
    running: dict[Path, Chromium] = {}

    def get(program: Path) -> Chromium:
        if program in running and not running[program].is_alive:
            running.pop(program).quit()
        if program not in running:
            running[program] = Chromium(program, tmp_path_factory.mktemp("chromium"))
        return running[program]

    yield get
    for browser in running.values():
        browser.quit()


@pytest.fixture
def browser(
    request: pytest.FixtureRequest, chromium: Callable[[Path], Chromium]
) -> Iterator[Window]:
    """A new window; a test can choose another program by an indirect parameter."""
    if "live_server" in request.fixturenames:
        site = request.getfixturevalue("live_server").url
    else:
        site = request.getfixturevalue("site").address
    with chromium(getattr(request, "param", HEADLESS_SHELL)).window(site) as driver:
        if times := os.environ.get("MGW_SLOW_BROWSER"):
            # reveals tests that do not wait until a slow machine has drawn
            driver.execute_cdp_cmd("Emulation.setCPUThrottlingRate", {"rate": float(times)})
        yield driver


@pytest.fixture(scope="session")
def axe() -> str:
    """Source of the script axe, which is downloaded if it is not installed."""
    if not AXE.exists():
        assert assets.fetch(for_tests=True) == 0
    return AXE.read_text("utf-8")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file that begins like a model."""
    path = tmp_path / "net.mge"
    path.write_bytes(b"mgb0001 and no more")
    return path


@pytest.fixture
def log_in(browser: Window, live_server: LiveServer) -> Callable[..., None]:
    """Function that logs a user in at the live server."""

    def as_user(user: User, address: str = live_server.url) -> None:
        client = Client()
        client.force_login(user)
        set_cookie(browser, address, "sessionid", client.cookies["sessionid"].value)

    return as_user


def set_cookie(browser: Window, address: str, name: str, value: str) -> None:
    """Set a cookie of a site, also before a page of it is open."""
    cookie = {"url": address, "name": name, "value": value}
    browser.execute_cdp_cmd("Network.setCookie", cookie)


def resize(
    browser: Window, size: tuple[int, int], *, mobile: bool = False, scale: float = 1
) -> None:
    """Emulate a screen of this size. `scale` changes the size of the picture, not the layout."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": mobile}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics | {"scale": scale})


def block_urls(browser: Window, *patterns: str) -> None:
    """Block requests to these URLs; without patterns no URL is blocked."""
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": [*patterns]})


def set_colour_scheme(browser: Window, scheme: str) -> None:
    """Emulate a system that prefers "light" or "dark", and reduced motion."""
    features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
    media = [{"name": name, "value": value} for name, value in features.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})


def violations(browser, axe, *, rules: list[str] | None = None) -> list[str]:
    if not browser.execute_script("return 'axe' in window"):
        browser.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
    return browser.execute_async_script(_RUN, RULES, rules)


class PageObject:
    """Base of the page objects: find, click and read elements of the page in the window."""

    #: levels of console messages that `console_errors` returns
    levels: tuple[str, ...] = ("SEVERE",)

    def __init__(self, browser: Window, address: str) -> None:
        self.browser, self.address = browser, address

    def js(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def find(self, css: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def all(self, css: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def click(self, css: str) -> None:
        """Scroll an element to the middle of the window, where no bar covers it, and click it.

        Click again if the page moved the element away from the pointer: then the browser sends the
        event "click" to another one.
        """
        element = self.find(css)
        self.js(_EXPECT_CLICK, element)
        element.click()
        if self.js("return window.missesClick === true"):
            element.click()

    def until(self, condition: Callable[[], Any], what: str = "", within_s: float = 60) -> Any:
        """Wait until `condition` returns something true, and return it.

        Elements that are replaced while they are read count as false. Raises AssertionError.
        """

        def evaluate() -> Any:
            try:
                return condition()
            except _REPLACED:
                return False
            except WebDriverException as error:
                # chromedriver has no specific exception for an element that was replaced
                if "does not belong to the document" in str(error):
                    return False
                raise

        deadline, pause_s = time.monotonic() + within_s, 0.02
        while not (result := evaluate()):
            if time.monotonic() > deadline:
                alerts = [alert.text for alert in self.all("[role=alert]") if alert.text]
                raise AssertionError(f"never saw {what}; the page says {alerts}")
            time.sleep(pause_s)
            # each look takes CPU time from the page
            pause_s = min(0.2, 1.3 * pause_s)
        return result

    def fetch_state(self) -> None:
        """Make a live page fetch its state, because the live server has no WebSockets."""
        self.js("document.dispatchEvent(new Event('visibilitychange'))")

    @property
    def query(self) -> str:
        return str(self.js("return location.search"))

    @property
    def path(self) -> str:
        return self.browser.current_url.removeprefix(self.address)

    def is_too_wide(self) -> bool:
        page = "document.documentElement"
        return bool(self.js(f"return {page}.scrollWidth > {page}.clientWidth"))

    def console_errors(self) -> list[str]:
        """Return messages of the console: policy violations, script errors, missing files."""
        log = self.browser.get_log("browser")
        return [entry["message"] for entry in log if entry["level"] in self.levels]
