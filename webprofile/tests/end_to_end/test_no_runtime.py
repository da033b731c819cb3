"""The site starts on a machine without a supported Python and reports what is missing."""

import re
from pathlib import Path

import pytest

from webprofile.tests.site import running_site

pytestmark = [pytest.mark.exhaustive, pytest.mark.embedded]


def test_site_starts_without_a_runtime_and_reports_it(tmp_path: Path, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    for name in ("MGW_RUNTIME_CACHE", "PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.setenv(name, str(empty))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-managed")
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.delenv("MEGENGINE_PYTHON", raising=False)
    with running_site(tmp_path / "home") as site, site.login() as visitor:
        worker = visitor.device()
        (runtime,) = worker["runtimes"]
        assert worker["is_online"]
        assert "3.10" in runtime["problem"]
        page = visitor.get("/workers/").text
        assert runtime["problem"].split(":")[0] in page
        lines = [line for line in site.text.splitlines() if re.search(r"Python|install", line)]
        assert len(lines) == 2, site.text
