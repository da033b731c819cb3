"""Tests of the audit of dependencies: findings, no findings, and unreachable services."""

import datetime
import importlib.util
import json
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


def pip_told(*rows):
    return json.dumps({"dependencies": rows, "fixes": []})


def test_a_known_hole_is_a_finding_and_none_is_none():
    assert audit.of_pip(pip_told(GOOD), "") == []
    assert audit.of_pip(pip_told(GOOD, BAD), "") == [("flask", "0.5", "PYSEC-2019-179")]
    row = {"range": "<1.2", "via": ["other", {"url": "https://github.com/advisories/GHSA-1"}]}
    assert audit.of_npm(json.dumps({"vulnerabilities": {"a": row}}), "") == [
        ("a", "<1.2", "GHSA-1")
    ]
    assert audit.of_npm(json.dumps({"vulnerabilities": {}}), "") == []


@pytest.mark.parametrize("answer", ["", "no json", pip_told(GOOD, SKIPPED), "{}"])
def test_what_pip_audit_could_not_ask_is_no_good_news(answer):
    with pytest.raises(audit.UnaskedError):
        audit.of_pip(answer, "requests.exceptions.ConnectionError: no route")


@pytest.mark.parametrize("answer", ["", json.dumps({"message": "405", "error": {"summary": ""}})])
def test_what_npm_could_not_ask_is_no_good_news(answer):
    with pytest.raises(audit.UnaskedError):
        audit.of_npm(answer, "npm error")


def test_what_is_ignored_has_a_reason_and_an_end():
    text = '[[ignored]]\nid = "A"\nreason = "why"\nuntil = 2026-12-31\n'
    assert audit.ignored_now(text, datetime.date(2026, 12, 31)) == {"A": "why"}
    assert audit.ignored_now(text, datetime.date(2027, 1, 1)) == {}
    kept = audit.IGNORED.read_text(encoding="utf-8")
    assert all(audit.ignored_now(kept, datetime.date.min).values())


def test_every_pinned_file_is_asked_about():
    pinned = {path.name for path in ROOT.glob("requirements/*.txt")}
    assert pinned >= audit.BY_HAND
    for name in pinned - audit.BY_HAND:
        assert "--hash=sha256:" in (ROOT / "requirements" / name).read_text(encoding="utf-8")
