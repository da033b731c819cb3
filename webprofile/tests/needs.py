"""Pytest plugin that skips tests whose system packages are missing, and lists these at the end.

A test or fixture calls `need("chromium")`. In CI (the environment variable `CI` is set) the test
fails instead of being skipped.
"""

import os
from collections import Counter
from collections.abc import Generator
from typing import NoReturn

import pytest

from webprofile.tests.machine import MEGENGINE, PARTS, install_command, packages_of

_MISSING = "missing: "
_NOT_RUN = "not run"
_HOW_TO_GET_MEGENGINE = "install Python 3.10 (`.venv/bin/uv python install 3.10`), `make runtime`"


def need(*names: str) -> None:
    """Skip the running test unless these `PARTS` are installed. In CI it fails."""
    for name in names:
        if not PARTS[name].is_there():
            lacks(name, install_command(PARTS[name].packages))


def lacks(name: str, remedy: str) -> NoReturn:
    """Skip the running test because a part is missing. In CI it fails with the remedy."""
    if os.environ.get("CI"):
        pytest.fail(f"{_MISSING}{name}: {remedy}", pytrace=False)
    pytest.skip(f"{_MISSING}{name}")


def lacks_megengine() -> NoReturn:
    """Skip the running test because no interpreter has MegEngine. In CI it fails."""
    lacks(MEGENGINE, _HOW_TO_GET_MEGENGINE)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport,
) -> tuple[str, str, str] | None:
    """Report these tests as "not run", apart from tests skipped for other reasons."""
    return (_NOT_RUN, "s", "NOT RUN") if _missing_part(report) else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Print the summary after everything else, where it is noticed."""
    result = yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reports = reporter.stats.get(_NOT_RUN, ())
        for line in summary(Counter(_missing_part(report) for report in reports)):
            reporter.write_line(line)
    return result


def _missing_part(report: pytest.CollectReport | pytest.TestReport) -> str:
    """Return the missing part because of which a test was skipped, or ""."""
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    return str(reason).partition(_MISSING)[2]


def summary(skipped: Counter[str]) -> list[str]:
    """Return up to three lines: which tests did not run, and how to install what they need."""
    if not skipped:
        return []
    # tests of one kind may be skipped for different parts
    kinds: Counter[str] = Counter()
    for name, number in skipped.items():
        kinds["of MegEngine" if name == MEGENGINE else PARTS[name].tests] += number
    kinds_text = ", ".join(f"{kind} ({number})" for kind, number in kinds.most_common())
    lines = [f"Tests that did not run: {kinds_text}."]
    parts = [name for name in PARTS if name in skipped]
    if parts:
        lines.append(f"For those that need packages of the distribution: {_command(parts)}")
    if MEGENGINE in skipped:
        lines.append(f"For those of MegEngine (Python 3.6 to 3.10): {_HOW_TO_GET_MEGENGINE}")
    return lines


def _command(parts: list[str]) -> str:
    # a test skips at the first missing part, so also list the other missing parts of its kind
    kinds = {PARTS[name].tests for name in parts}
    also = [name for name, part in PARTS.items() if part.tests in kinds and not part.is_there()]
    return install_command(packages_of(also or parts))
