"""How soon the executed graph of over 5,000 operators is there, in Chromium.

`python -m bench.bench_graph [--rounds 9]` starts a whole embedded site in a folder of its own,
opens two real profiles (one whose names have scopes, made larger, and one whose names have none)
and shows their graphs as a reader does. Times end when the frame with the first nodes was painted.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from selenium import webdriver
from tabulate import tabulate

from bench.bench_pages import open_profile
from bench.browser import chromium, log_in, measured
from bench.scaling import write_scaled
from testdata import DATA
from webprofile.embedded.demo import Visitor
from webprofile.tests.site import running_site

GOAL_MS = 1500.0
#: rows of the table; almost half of them are operators that are drawn, the rest are weights
ROWS = 12_000
#: a reader clicks when the pictures that came into sight are drawn
_QUIET = """
    const quiet = async () => {
        let seen = -1;
        for (let since = performance.now(); performance.now() - since < 1000; ) {
            const begin = performance.now();
            await painted();
            const now = performance.getEntriesByType("resource").length;
            if (now !== seen || performance.now() - begin > 60) since = performance.now();
            seen = now;
        }
    };
"""
_DRAWN = """
    const isDrawn = () => document.querySelector("#graph").dataset.state === "drawn";
    while (!isDrawn()) await frame();
    await painted();
"""
_OPENED = f"{_DRAWN} return performance.now();"
_CLICKED = f"""
    {_QUIET}
    const part = document.querySelector("#graph");
    part.scrollIntoView();
    await quiet();
    const begin = performance.now();
    part.querySelector("[data-graph=start]").click();
    {_DRAWN}
    return performance.now() - begin;
"""
_BLOCK = f"""
    {_QUIET}
    await quiet();
    const part = document.querySelector("#graph");
    const begin = performance.now();
    const loaded = performance.getEntriesByType("resource").map((each) => each.name);
    const {{ select }} = await import(loaded.find((name) => name.includes("/result/selection.")));
    select(args[0], "bench");
    while (part.hasAttribute("aria-busy") === false) await frame();
    while (part.hasAttribute("aria-busy")) await frame();
    await painted();
    return performance.now() - begin;
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    table = []
    with (
        tempfile.TemporaryDirectory() as folder,
        running_site(Path(folder) / "site") as site,
        site.login() as visitor,
        chromium() as browser,
    ):
        log_in(browser, site.address, site.account)
        for name, file in profiles(Path(folder)).items():
            page = address_of(visitor, browser, site.address, file)
            for what, times in look(browser, page, rounds).items():
                median = statistics.median(times)
                verdict = "met" if median <= GOAL_MS else "MISSED"
                table.append([name, what, median, min(times), max(times), GOAL_MS, verdict])
    headers = ["profile", "ms", "median", "min", "max", "goal", ""]
    print(tabulate(table, headers=headers, floatfmt=".0f"))


def profiles(folder: Path) -> dict[str, Path]:
    """Profiles of over 5,000 drawn operators, by what is special about them."""
    target = folder / "scopes.json"
    write_scaled(DATA / "profiles" / "resnet18.json", ROWS, target)
    return {"names with scopes": target, "names without": DATA / "profiles/deep_loop.json"}


def address_of(visitor: Visitor, browser: webdriver.Chrome, site: str, file: Path) -> str:
    """The address of an opened profile's page."""
    browser.get(site + open_profile(visitor, file))
    return browser.current_url


def look(browser: webdriver.Chrome, page: str, rounds: int) -> dict[str, list[float]]:
    """All measurements, by name. The server has the profile in memory."""
    found: dict[str, list[float]] = {}
    for word, is_cold in (("nothing cached", True), ("cached", False)):
        browser.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": is_cold})
        opened, clicked = [], []
        for _round in range(rounds):
            browser.get(f"{page.rstrip('/')}/graph/")
            opened.append(measured(browser, _OPENED))
            browser.get(page)
            clicked.append(measured(browser, _CLICKED))
        found[f"page of the graph opened, {word}"] = opened
        found[f"“Show the graph” clicked, {word}"] = clicked
    found["operator in a closed block selected"] = [
        measured(browser, _BLOCK, 1_000 + 300 * number) for number in range(rounds)
    ]
    return found


if __name__ == "__main__":
    main()
