"""Measure load and response times of the result page with many operators, in Chromium.

`python -m bench.bench_pages [--operators 10000] [--rounds 9]` starts a complete embedded site in a
temporary folder, opens an enlarged profile, and sorts, filters, selects and scrolls. The browser's
cache is disabled; the server has the profile in memory.
"""

import argparse
import gzip
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from selenium import webdriver
from tabulate import tabulate

from bench.browser import chromium, log_in, measured
from bench.scaling import write_scaled
from testdata import DATA
from webprofile.operations.devserver.demo import Visitor, file_fields
from webprofile.tests.site import ROOT, running_site

#: measurement -> goal (upper limit) in ms, frames or kB
GOALS = {
    "HTML received": 300.0,
    "first paint": 1000.0,
    "first rows painted": 1000.0,
    "sort, click to painted rows": 100.0,
    "filter, key to painted rows": 100.0,
    "select, row in the page": 50.0,
    "select, row far away: marked": 50.0,
    "select, row far away: all figures": 50.0,
    "frames over 50 ms while scrolling": 0.0,
    "JavaScript without charts, kB": 600.0,
    "JavaScript with charts, kB": 600.0,
}
#: (pixels per frame, frames): a fast mouse wheel, and a flick through the whole table
SCROLLING = ((100, 300), (2_000, 250))
READY_WITHIN_S = 120.0
OPENED = "/api/v1/profiles/opened/"
#: pause between selections, in which the page has loaded the neighbours of the previous row
REST_S = 0.5
_FIRST_ROWS = """
    const look = () => {
        const row = document.querySelector("#tables tbody tr[data-row]");
        requestAnimationFrame(row ? seen : look);
    };
    const seen = () => {
        setTimeout(() => { window.firstRows = performance.now(); });
    };
    requestAnimationFrame(look);
"""
_LOADED = """
    const paint = () => performance.getEntriesByName("first-contentful-paint")[0];
    const isReady = () => document.querySelector("#tables [role=grid]");
    while (!window.firstRows || !paint() || !isReady()) await frame();
    const page = performance.getEntriesByType("navigation")[0];
    return [page.responseEnd, paint().startTime, window.firstRows];
"""
_SORT = """
    const [key] = args;
    const swapped = heard("htmx:afterSettle");
    const begin = performance.now();
    document.querySelector(`#sort-device-${key}`).click();
    await swapped;
    await painted();
    return performance.now() - begin;
"""
_FILTER = """
    const [text] = args;
    const field = document.querySelector("#filter-name");
    const swapped = heard("htmx:afterSettle");
    const begin = performance.now();
    field.value = text;
    field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    await swapped;
    await painted();
    return performance.now() - begin;
"""
#: ms until the row is painted as selected, and ms until all its figures are painted
_SELECT = """
    const [row] = args;
    const loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
    const selection = await import(loaded.find((name) => name.includes("/result/selection.")));
    const begin = performance.now();
    selection.select(row, "bench");
    const marked = `tr[data-row="${row}"][aria-selected=true]`;
    const seen = async (selector) => {
        while (!document.querySelector(selector)) await new Promise((go) => setTimeout(go));
        await painted();
        return performance.now() - begin;
    };
    return Promise.all([seen(marked), seen(`${marked}:not([aria-busy])`)]);
"""
_FIRST_ROW_NUMBERS = """
    const rows = document.querySelectorAll("#tables tr[data-row]");
    return [...rows].slice(1, 6).map((row) => Number(row.dataset.row));
"""
_SCROLL = """
    const [step, steps] = args;
    const box = document.querySelector(".operators__scroll");
    const frames = [];
    let last = performance.now();
    for (let number = 0; number < steps; number += 1) {
        box.scrollTop = (number * step) % (box.scrollHeight - box.clientHeight);
        await frame();
        const now = performance.now();
        frames.push(now - last);
        last = now;
    }
    box.scrollTop = 0;
    await painted();
    return frames;
"""
_SCRIPTS = """
    const loaded = performance.getEntriesByType("resource");
    return loaded.map((row) => new URL(row.name).pathname).filter((name) => name.endsWith("js"));
"""
_SEE_CHARTS = """
    document.querySelector("#part-charts").scrollIntoView();
    for (let at = 0; at < 40; at += 1) {
        scrollBy(0, 300);
        await new Promise((go) => setTimeout(go, 50));
        if (document.querySelector("#part-graph").getBoundingClientRect().top < 300) break;
    }
    while (!document.querySelector("#part-charts canvas")) await frame();
    await new Promise((go) => setTimeout(go, 1500));
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_site(Path(folder) / "site") as site:
        profile = Path(folder) / "large.json"
        write_scaled(DATA / "profiles" / "resnet18.json", args.operators, profile)
        with site.login() as visitor, chromium() as browser:
            page = open_profile(visitor, profile)
            log_in(browser, site.address, site.account)
            measurements = look(browser, site.address + page, args.rounds, args.operators)
    print(report(measurements))


def open_profile(visitor: Visitor, file: Path) -> str:
    """Import a profile as a user does; return the path of its page."""
    opened = visitor.post(OPENED, {"files": [file_fields(file)]})
    for target in opened["uploads"]:
        visitor.put(target["url"], target["headers"], file)
    visitor.post(f"{OPENED}{opened['id']}/submit/", {})
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        if visitor.get(f"{OPENED}{opened['id']}/").json()["state"] == "ready":
            return f"/profiles/opened/{opened['id']}/"
        time.sleep(0.2)
    raise SystemExit(f"the profile was not read within {READY_WITHIN_S:.0f} s")


def look(
    browser: webdriver.Chrome, page: str, rounds: int, operators: int
) -> dict[str, list[float]]:
    """Return all measurements by name."""
    measurements: dict[str, list[float]] = {name: [] for name in GOALS}
    browser.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _FIRST_ROWS})
    browser.get(page)
    page = browser.current_url
    for _round in range(rounds):
        browser.get(page)
        times = measured(browser, _LOADED)
        for name, time_ms in zip(GOALS, times, strict=False):
            measurements[name].append(time_ms)
    measurements["JavaScript without charts, kB"].append(scripts_kb(browser))
    for number in range(rounds):
        key = ("mem", "flo", "bw", "op", "time")[number % 5]
        measurements["sort, click to painted rows"].append(measured(browser, _SORT, key))
    for number in range(rounds):
        text = ("conv", "batch", "r1", "r.*weight", "")[number % 5]
        measurements["filter, key to painted rows"].append(measured(browser, _FILTER, text))
    # the times within one load are alike, and differ by a factor of three between loads
    for _round in range(rounds):
        browser.get(page)
        measured(browser, _LOADED)
        for row in browser.execute_script(_FIRST_ROW_NUMBERS):
            measurements["select, row in the page"].append(measured(browser, _SELECT, row)[0])
    for number in range(rounds):
        row = (number + 1) * operators // (rounds + 2)
        time.sleep(REST_S)
        marked_ms, whole_ms = measured(browser, _SELECT, row)
        measurements["select, row far away: marked"].append(marked_ms)
        measurements["select, row far away: all figures"].append(whole_ms)
    for step, steps in SCROLLING:
        frames = measured(browser, _SCROLL, step, steps)
        slow = sum(frame > 50 for frame in frames)
        measurements["frames over 50 ms while scrolling"].append(slow)
        print(f"{steps} frames, {step} px each: the longest {max(frames):.0f} ms")
    browser.get(page)
    measured(browser, _LOADED)
    measured(browser, _SEE_CHARTS)
    measurements["JavaScript with charts, kB"].append(scripts_kb(browser))
    return measurements


def scripts_kb(browser: webdriver.Chrome) -> float:
    """Return the size in kB of the page's scripts, gzipped as a production site sends them."""
    paths = [name.partition("/static/")[2] for name in measured(browser, _SCRIPTS)]
    scripts = [(ROOT / "static" / path).read_bytes() for path in dict.fromkeys(paths)]
    return sum(len(gzip.compress(content, 9)) for content in scripts) / 1000


def report(measurements: dict[str, list[float]]) -> str:
    rows: Iterable[list[Any]] = [
        [name, statistics.median(values), min(values), max(values), GOALS[name], verdict]
        for name, values in measurements.items()
        for verdict in ["met" if statistics.median(values) <= GOALS[name] else "MISSED"]
    ]
    headers = ["ms, unless said", "median", "min", "max", "goal", ""]
    return tabulate(rows, headers=headers, floatfmt=".1f")


if __name__ == "__main__":
    main()
