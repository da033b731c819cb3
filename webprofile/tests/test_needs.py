"""Tests of the plugin that skips tests without their system packages, or fails them in CI."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from webprofile.tests import machine
from webprofile.tests.needs import lacks, need

ROOT = Path(__file__).parents[2]
PROBE = """\
import pytest
from webprofile.tests.needs import lacks_megengine, need

@pytest.mark.parametrize("number", range(2))
def test_a_page(number):
    need("chromium")

def test_a_broken_page():
    need("fonts")

def test_a_script():
    need("bubblewrap")

def test_a_run():
    lacks_megengine()

def test_nothing_special():
    pass
"""


def run_probe(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run tests that need different parts, without any program on PATH."""
    (folder / "test_probe.py").write_text(PROBE)
    environ = {name: value for name, value in os.environ.items() if name != "CI"}
    command = [sys.executable, "-m", "pytest", "-p", "webprofile.tests.needs", "-c", os.devnull]
    command += ["-p", "no:cacheprovider", "--rootdir=."]
    # other plugins are not needed, and take seconds to import
    environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": str(folder), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*command, "test_probe.py"],
        env=environ | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_summary_lists_skipped_tests_and_how_to_install_their_needs(tmp_path):
    result = run_probe(tmp_path)
    assert result.returncode == 0, result.stdout
    *_, counts, kinds, packages, megengine = result.stdout.splitlines()
    assert "1 passed, 5 not run" in counts
    assert kinds == (
        "Tests that did not run: in a browser (3), of the sandbox and of scripts (1),"
        " of MegEngine (1)."
    )
    browser = "chromium chromium-driver chromium-headless-shell"
    fonts = "fontconfig fonts-noto-cjk fonts-dejavu-core"
    assert packages.endswith(
        f"apt-get install --no-install-recommends {browser} {fonts} bubblewrap"
    )
    assert "make runtime" in megengine


def test_missing_part_fails_in_ci(tmp_path):
    result = run_probe(tmp_path, CI="true")
    assert result.returncode == 1, result.stdout
    assert "5 failed, 1 passed" in result.stdout
    assert "apt-get install --no-install-recommends bubblewrap" in result.stdout


@pytest.mark.parametrize("is_ci", [True, False])
def test_installed_part_is_used(monkeypatch, is_ci):
    part = machine.SystemPackages("of something", ("something",), lambda: True)
    monkeypatch.setitem(machine.PARTS, "something", part)
    monkeypatch.setenv("CI", "true") if is_ci else monkeypatch.delenv("CI", raising=False)
    need("something")
    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception)) as raised:
        lacks("something", "install it")
    assert (raised.type is pytest.fail.Exception) is is_ci


def test_script_prints_missing_packages(tmp_path):
    """One package per line, without other Python packages."""
    result = subprocess.run(
        [sys.executable, "-I", "-S", machine.__file__],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"chromium", "chromium-driver", "gettext", "bubblewrap", "caddy"} <= set(
        result.stdout.splitlines()
    )
