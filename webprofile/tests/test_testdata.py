"""Tests of the content and the size limits of testdata/."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from testdata import DATA, SOURCE, making

ROOT = Path(__file__).resolve().parents[2]
LARGEST_BYTES, TOTAL_BYTES = 1_000_000, 8_000_000
#: former folder of test data beside the repository; split, so that it does not match itself
OUTSIDE = re.compile("shared" + r"[/\"', ]+data\b|\.\./" + "shared")


def tracked() -> list[Path]:
    """Return the files of the repository; skip the test without git (an unpacked archive)."""
    result = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if result.returncode:
        pytest.skip("this is no git repository")
    return [path for name in result.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_test_data_is_small() -> None:
    sizes = {path: path.stat().st_size for path in SOURCE.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < TOTAL_BYTES
    assert [path for path, size in sizes.items() if size >= LARGEST_BYTES] == []


def test_repository_has_no_file_of_a_megabyte() -> None:
    assert [path for path in tracked() if path.stat().st_size >= LARGEST_BYTES] == []


def test_no_file_refers_to_data_outside_of_the_repository() -> None:
    matches = []
    for path in tracked():
        text = path.read_bytes().decode("utf-8", "ignore")
        matches += [f"{path.relative_to(ROOT)}: {match[0]}" for match in OUTSIDE.finditer(text)]
    assert matches == []


def test_compressed_files_are_unpacked() -> None:
    for path in SOURCE.rglob("*.json*"):
        name = str(path.relative_to(SOURCE)).removesuffix(".xz")
        assert (DATA / name).read_bytes() == making.read(name)


def test_written_file_is_compressed_only_if_that_is_smaller(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(making, "SOURCE", tmp_path)
    assert making.write("a/long.json", b" " * 50_000)
    assert making.write("a/short.json", b"{}")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "long.json.xz",
        "short.json",
    ]
    assert not making.write("a/long.json", b" " * 50_000)
    assert making.write("a/long.json", b"{}")
    assert [making.read(f"a/{name}.json") for name in ("long", "short", "none")] == [
        b"{}",
        b"{}",
        None,
    ]


@pytest.mark.exhaustive
@pytest.mark.megengine
def test_models_are_reproducible(megengine_python, tmp_path) -> None:
    names = ("tiny", "tiny_fbs1", "no_op", "two_inputs", "dynamic_shape", "hostile_names")
    for entry in making.make_models(megengine_python, names, tmp_path):
        for file in (entry["file"], *(array["file"] for array in entry["inputs"])):
            assert (tmp_path / file).read_bytes() == making.read(file), file


@pytest.mark.megengine
def test_expected_outputs_equal_those_of_profile_analyze(megengine_python) -> None:
    for kind, name in (("profiles", "no_op"), ("bad/profiles", "time_null")):
        expected = making.read(f"expected/{kind}/{name}.json")
        arguments = [run["arguments"] for run in json.loads(expected)]
        profile = making.read(f"{kind}/{name}.json")
        assert making.analyzed(megengine_python, profile, arguments) == expected
