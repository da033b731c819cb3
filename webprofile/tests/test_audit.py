"""Tests of the audit of dependencies: findings, no findings, and unreachable services."""

import datetime
import importlib.util
import json
import re
from pathlib import Path

import pytest

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
