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
    """Run tests of which each lacks another part, since no program is on PATH."""
    (folder / "test_probe.py").write_text(PROBE)
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    command = [sys.executable, "-m", "pytest", "-p", "webprofile.tests.needs", "-c", os.devnull]
    command += ["-p", "no:django", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir=."]
    return subprocess.run(
        [*command, "test_probe.py"],
        env=kept | {"PATH": str(folder), "PYTHONPATH": str(ROOT), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_end_of_the_output_says_what_did_not_run_and_how_to_get_what_it_needs(tmp_path):
    done = run_probe(tmp_path)
    assert done.returncode == 0, done.stdout
    *_, counts, kinds, packages, megengine = done.stdout.splitlines()
    assert "1 passed, 5 not run" in counts
    assert kinds == (
        "Tests that did not run: in a browser (3), of the sandbox and of scripts (1),"
        " of MegEngine (1)."
    )
    names = "chromium chromium-driver fontconfig fonts-noto-cjk fonts-dejavu-core bubblewrap"
    assert packages.endswith(f"apt-get install --no-install-recommends {names}")
    assert "make runtime" in megengine


def test_in_ci_what_lacks_a_part_fails(tmp_path):
    done = run_probe(tmp_path, CI="true")
    assert done.returncode == 1, done.stdout
    assert "5 failed, 1 passed" in done.stdout
    assert "apt-get install --no-install-recommends bubblewrap" in done.stdout


@pytest.mark.parametrize("ci", [True, False])
def test_what_is_there_is_used(monkeypatch, ci):
    part = machine.SystemPackages("of something", ("something",), lambda: True)
    monkeypatch.setitem(machine.PARTS, "something", part)
    monkeypatch.setenv("CI", "true") if ci else monkeypatch.delenv("CI", raising=False)
    need("something")
    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception)) as raised:
        lacks("something", "install it")
    assert (raised.type is pytest.fail.Exception) is ci


def test_ci_installs_what_the_script_prints(tmp_path):
    """One package per line, found with nothing but Python."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", machine.__file__],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"chromium", "chromium-driver", "gettext", "bubblewrap", "caddy"} <= set(
        done.stdout.splitlines()
    )
