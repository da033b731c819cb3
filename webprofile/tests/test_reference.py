"""The pages of docs/reference are current, and what the threat model names exists."""

import re
import subprocess
from pathlib import Path

import pytest

from webprofile.tests.reference_pages import FOLDER, PAGES, page_of

ROOT = Path(__file__).parents[2]
THREATS = (ROOT / "docs" / "threat_model.md").read_text(encoding="utf-8")
NOT_OURS = {"node_modules", ".venv", ".git"}


@pytest.mark.parametrize("name", PAGES)
def test_page_of_the_reference_is_current(name):
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert text == page_of(name), "run `make reference`"


def test_each_page_of_the_reference_is_generated():
    assert {path.stem for path in FOLDER.glob("*.md")} == set(PAGES)


def test_files_named_in_the_threat_model_exist():
    file_names = set(re.findall(r"`((?:[\w.]+/)*[\w]+\.(?:py|md))(?::\w+)?`", THREATS))
    folders = {p for p in ROOT.iterdir() if p.is_dir() and p.name not in NOT_OURS}
    names = {path.name for folder in folders for path in folder.rglob("*.*")}
    names |= {path.name for path in ROOT.iterdir()}
    missing = {n for n in file_names if not ((ROOT / n).exists() or ("/" not in n and n in names))}
    assert len(file_names) > 30
    assert missing == set()


def test_names_in_how_to_exist():
    """Recipes lead nowhere after a file, function or constant was renamed."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout
    if not tracked:
        pytest.skip("needs a clone of the repository")
    paths = [f"/{path}" for path in tracked.split() if not path.startswith("testdata/")]
    code = [path for path in paths if re.search(r"\.(py|js|toml|html)$|options\.json$", path)]
    words = {word for path in code for word in re.findall(r"\w+", (ROOT / path[1:]).read_text())}
    quoted = set(re.findall(r"`([^`\n]+)`", (ROOT / "docs" / "how-to.md").read_text()))
    assert len(quoted) > 200
    files = {name for name in quoted if re.fullmatch(r"[\w./-]+\.(py|js|json|html|css)", name)}
    lost = {name for name in files if not any(path.endswith(f"/{name}") for path in paths)}
    names = {name for name in quoted - files if re.fullmatch(r"\w+(\.\w+)*", name)}
    names -= {path.rpartition("/")[2] for path in paths}
    assert lost | {name for name in names if not words.issuperset(name.split("."))} == set()


def test_each_threat_has_a_control_and_a_test():
    rows = [line for line in THREATS.splitlines() if re.match(r"\| (all|\d)", line)]
    assert len(rows) > 20
    for row in rows:
        stopped_by, held_by = (cell.strip(" |") for cell in row.split(" | ")[2:4])
        assert stopped_by, row
        assert "`" in held_by or held_by == "the table below", row
