"""A plugin of pytest: tests skip where a part of the machine is missing, and the end says which.

A test or fixture calls `need("chromium")`. In CI (the environment variable `CI` is set) the test
fails instead: there nothing is skipped for want of a part.
"""

import os
from collections import Counter
from collections.abc import Generator
from typing import NoReturn

import pytest

from webprofile.tests.machine import MEGENGINE, PARTS, install_command, packages_of

_MISSING = "missing: "
_HOW_TO_GET_MEGENGINE = "install Python 3.10 (`.venv/bin/uv python install 3.10`), `make runtime`"


def need(*names: str) -> None:
    """Skip the running test unless these `PARTS` are installed; in CI let it fail."""
    for name in names:
        if not PARTS[name].is_there():
            lacks(name, install_command(PARTS[name].packages))


def lacks(name: str, remedy: str) -> NoReturn:
    """Skip the running test for want of a part; in CI let it fail with what is to be done."""
    if os.environ.get("CI"):
        pytest.fail(f"{_MISSING}{name}: {remedy}", pytrace=False)
    pytest.skip(f"{_MISSING}{name}")


def lacks_megengine() -> NoReturn:
    """As `lacks`, of the interpreter with MegEngine."""
    lacks(MEGENGINE, _HOW_TO_GET_MEGENGINE)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Say it after everything else: the end of the output is what is read."""
    result = yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        for line in summary(_reasons(reporter.stats.get("skipped", ()))):
            reporter.write_line(line)
    return result


def _reasons(reports: list[pytest.TestReport]) -> Counter[str]:
    """Names of missing parts, with the number of tests that each one kept from running."""
    found: Counter[str] = Counter()
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _, missing, name = reason.partition(_MISSING)
        if missing:
            found[name] += 1
    return found


def summary(skipped: Counter[str]) -> list[str]:
    """Up to three lines: which tests did not run, and the commands that bring what they need."""
    if not skipped:
        return []
    # tests of one kind may lack one of several parts
    kinds: Counter[str] = Counter()
    for name, number in skipped.items():
        kinds["of MegEngine" if name == MEGENGINE else PARTS[name].tests] += number
    told = ", ".join(f"{kind} ({number})" for kind, number in kinds.most_common())
    lines = [f"Tests that did not run: {told}."]
    parts = [name for name in PARTS if name in skipped]
    if parts:
        lines.append(f"For those that need packages of the distribution: {_command(parts)}")
    if MEGENGINE in skipped:
        lines.append(f"For those of MegEngine (Python 3.6 to 3.10): {_HOW_TO_GET_MEGENGINE}")
    return lines


def _command(parts: list[str]) -> str:
    # a test stops at the first part that it lacks: name the others of the same kind too
    kinds = {PARTS[name].tests for name in parts}
    also = [name for name, part in PARTS.items() if part.tests in kinds and not part.is_there()]
    return install_command(packages_of(also or parts))
