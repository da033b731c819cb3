"""The pure parts of the pages' scripts, under node's own test runner."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_scripts_pass_their_own_tests():
    if not shutil.which("node"):
        reason = "no node: install the distribution's nodejs"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    files = sorted((ROOT / "static" / "js" / "tests").glob("*.mjs"))
    assert files
    done = subprocess.run(
        ["node", "--test", *files], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stdout
