"""Tests of the packages that `pip install .` installs."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_package_contains_the_client_and_nothing_of_the_server():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for part in ("client", "terminal")
        for path in (ROOT / "webprofile" / part).rglob("__init__.py")
        if "tests" not in path.parts
    }
    assert set(project["tool"]["setuptools"]["packages"]) == packages


def test_server_requirements_contain_those_of_the_client():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    locked = (ROOT / "requirements" / "embedded.txt").read_text(encoding="utf-8").lower()
    for name in project["project"]["dependencies"]:
        assert f"\n{name.lower()}==" in f"\n{locked}"
