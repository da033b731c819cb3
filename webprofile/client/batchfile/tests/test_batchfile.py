"""Tests of batch files: the tasks that they describe, and the places of mistakes."""

import argparse
import os
from pathlib import Path

import pytest

from agent.protocol.plan import Plan
from tasks.submission.plans import bounds_of
from webprofile.client.batchfile import BatchError
from webprofile.client.batchfile.arguments import add_batch_arguments, blocks_from_arguments
from webprofile.client.batchfile.matrix import cells_of, newest_first, read_batch
from webprofile.client.batchfile.values import PLAN_KEYS

DEVICES = {"x86-1": ["1.13.0", "1.12.4"], "pi-4": ["1.13.0"], "bare": []}

TOML = """
title = "nightly {model} {options} {repeat}"
workers = ["x86-1", "pi-4"]
repeats = 2
plan = "standard"
[options]
iter = 100
[option_sets.plain]
[option_sets.fast]
fast_run = true

[[tasks]]
models = ["net*.mge"]
[tasks.data]
data = "cat.npy"

[[tasks]]
models = "net-b.mge"
workers = "x86-1"
versions = "all"
repeats = 1
"""
YAML = """
title: "nightly {model} {options} {repeat}"
workers: [x86-1, pi-4]
repeats: 2
plan: standard
options: {iter: 100}
option_sets:
  plain: {}
  fast: {fast_run: true}
tasks:
  - models: ["net*.mge"]
    data: {data: cat.npy}
  - models: net-b.mge
    workers: x86-1
    versions: all
    repeats: 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("net-a.mge", "net-b.mge", "cat.npy"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def read_cells(folder: Path, text: str, name: str = "batch.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return cells_of(read_batch(path), DEVICES)


def read_mistakes(folder: Path, text: str, name: str = "batch.toml") -> dict[str, str]:
    with pytest.raises(BatchError) as excinfo:
        read_cells(folder, text, name)
    return dict(excinfo.value.mistakes)


def parsed_blocks(*arguments: str):
    parser = argparse.ArgumentParser()
    add_batch_arguments(parser)
    return blocks_from_arguments(parser.parse_args(arguments))


def test_batch_file_expands_to_all_combinations_in_file_order(folder):
    cells = read_cells(folder, TOML)
    # 2 models x 2 devices x 2 sets x 2 repeats, and 1 model x 2 versions x 2 sets
    assert len(cells) == 16 + 4
    assert [cell.name for cell in cells[:3]] == [
        "net-a.mge x86-1 1.13.0 plain 1/2",
        "net-a.mge x86-1 1.13.0 plain 2/2",
        "net-a.mge x86-1 1.13.0 fast 1/2",
    ]
    assert [cell.number for cell in cells] == list(range(1, 21))
    assert cells[2].options == {"iter": 100, "fast_run": True}
    assert cells[2].title == "nightly net-a fast 1"
    assert [cell.version for cell in cells[16:]] == ["1.13.0", "1.13.0", "1.12.4", "1.12.4"]
    assert [file.path.name for file in cells[0].files] == ["net-a.mge", "cat.npy"]
    assert len(cells[16].files) == 1  # data of another block


def test_yaml_and_toml_describe_the_same_tasks(folder):
    assert [c.name for c in read_cells(folder, YAML, "b.yaml")] == [
        c.name for c in read_cells(folder, TOML)
    ]


def test_device_uses_its_newest_version_by_default(folder):
    (cell,) = read_cells(folder, 'models = "net-a.mge"\nworkers = "x86-1"')
    assert cell.version == "1.13.0"
    assert newest_first(["1.9.1", "1.13.0", "1.13.0.dev1", "nightly"])[0] == "1.13.0"


def test_worker_table_selects_any_matching_device(folder):
    text = (
        'models = "net-a.mge"\nversions = ["1.13.0", "1.12.4"]\n'
        'workers = [{labels = {chip = "kirin"}, pool = "phones"}]'
    )
    cells = read_cells(folder, text)
    assert [cell.target["versions"] for cell in cells] == ["==1.13.0", "==1.12.4"]
    assert cells[0].worker == "any (chip=kirin, phones)"
    text = 'models = "net-a.mge"\nworkers = [{versions = ">1.9"}]\nversions = ["1.13.0"]'
    assert "workers[0]" in read_mistakes(folder, text)
    text = 'models = "net-a.mge"\nworkers = [{chip = "kirin"}, 5, {labels = {a = 1}}]'
    assert set(read_mistakes(folder, text)) == {
        "workers[0].chip", "workers[1]", "workers[2].labels"
    }  # fmt: skip


def test_all_mistakes_are_reported_at_once_with_their_places(folder):
    text = """
    workers = ["x86-1", 7]
    repeats = 0
    plam = "quick"
    [options]
    iter = 2026-01-01
    [[tasks]]
    models = ["none.mge", "no*.mge", ""]
    seed = {a = 1}
    [tasks.data]
    data = "missing.npy"
    [tasks.inputs]
    x = true
    """
    assert set(read_mistakes(folder, text)) == {
        "workers[1]", "repeats", "plam", "options.iter", "tasks[0].models[0]",
        "tasks[0].models[1]", "tasks[0].models[2]", "tasks[0].seed", "tasks[0].data.data",
        "tasks[0].inputs.x",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "models", "missing"),
        ('models = "net-a.mge"', "workers", "missing"),
        ('models = "net-a.mge"\nworkers = "nobody"', "workers[0]", "your devices: bare, pi-4"),
        ('models = "net-a.mge"\nworkers = "bare"', "workers[0]", "no usable MegEngine"),
        (
            'models = "net-a.mge"\nworkers = ["x86-1", "pi-4"]\nversions = ["1.13.0", "1.12.4"]',
            "versions[1]",
            "pi-4 does not have MegEngine 1.12.4; it has 1.13.0",
        ),
        ('models = "."\nworkers = "pi-4"', "models", "Is a directory"),
        ('models = "a\\u0000b"\nworkers = "pi-4"', "models", "null"),
        ('models = "net-a.mge"\nworkers = "pi-4"\ndata = ["cat.npy"]', "data[0]", ".json"),
        ('models = "net-a.mge"\nworkers = "pi-4"\noption_sets = [1]', "option_sets", "a table"),
        ('models = "net-a.mge"\nworkers = "pi-4"\ntasks = []', "tasks", "[[tasks]]"),
        ('models = "net-a.mge"\nworkers = "pi-4"\nrepeats = true', "repeats", "integer"),
        ('models = "net-a.mge"\nworkers = "pi-4"\ntitle = 5', "title", "a string"),
        ('models = "net-a.mge"\nworkers = "pi-4"\n[options]\nx = nan', "options.x", "a number"),
        (
            f'models = "net-a.mge"\nworkers = "pi-4"\nseed = 0x{"f" * 5000}',
            "seed",
            "a number",
        ),
        (
            'models = "net-a.mge"\nworkers = "pi-4"\n[inputs]\nx = {shape = [{a = 1}]}',
            "inputs.x.shape",
            "a number",
        ),
    ],
)
def test_mistake_is_reported_with_its_place(folder, text, place, message):
    mistakes = read_mistakes(folder, text)
    assert message in mistakes[place], mistakes


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("b.toml", b"models = }\n", "line 1"),
        ("b.toml", b"a = 1\na = 2\n", "line 2"),
        ("b.yaml", b"a: [1", "line 1"),
        ("b.yaml", b"a: 1\nb: 2\na: 3", "“a” occurs twice (at line 3, column 1)"),
        ("b.yaml", b"5: x", "expected a string as key"),
        ("b.yaml", b"a: !!python/object/apply:os.system [ls]", "could not determine"),
        ("b.yaml", b"- 1", "a table of keys"),
        ("b.yaml", b"", "a table of keys"),
        ("b.yaml", b"a: " + b"[" * 5000, "nested too deeply"),
        ("b.yaml", b"a: 2001-99-99", "month"),
        ("b.toml", b"a = " + b"[" * 5000, "nested too deeply"),
        ("b.toml", b"\xff\xfe", "invalid UTF-8 at byte 0"),
        ("b.toml", b"#" * (1 << 21), "larger than"),
        ("b.ini", b"", ".toml"),
    ],
)
def test_syntax_error_is_reported_with_its_position(folder, name, data, message):
    path = folder / name
    path.write_bytes(data)
    with pytest.raises(BatchError) as error:
        read_batch(path)
    ((place, text),) = error.value.mistakes
    assert place == str(path)
    assert message in text


def test_values_that_the_site_validates_are_sent_unchanged(folder):
    text = (
        'models = "net-a.mge"\nworkers = "pi-4"\nseed = -1\ntime_limit_s = "soon"\n'
        '[inputs]\nx = {shape = "1, 3"}\ny = {shape = [2]}'
    )
    (cell,) = read_cells(folder, text)
    body = cell.body([], "pi-4")
    assert body["inputs"] == [{"name": "x", "shape": "1, 3"}, {"name": "y", "shape": [2]}]
    assert (body["seed"], body["time_limit_s"]) == (-1, "soon")
    places = {
        "inputs.1.shape": "inputs.y.shape", "seed": "seed", "plan.preset": "plan",
        "files.0.name": "files", "model": "models", "target.pool": "workers",
    }  # fmt: skip
    assert {field: cell.place_of(field) for field in places} == places


def test_missing_batch_file_is_reported(folder):
    with pytest.raises(BatchError, match="No such file"):
        read_batch(folder / "none.toml")


def test_version_that_yaml_reads_as_a_number_needs_quotes(folder):
    mistakes = read_mistakes(folder, "models: net-a.mge\nworkers: x86-1\nversions: [1.10]", "b.yml")
    assert "quotes" in mistakes["versions[0]"]


@pytest.mark.parametrize("blocks", [11, 1001])
def test_number_of_tasks_is_limited(folder, blocks):
    text = 'models = "net-a.mge"\nworkers = "pi-4"\n' + "[[tasks]]\nrepeats = 1000\n" * blocks
    message = read_mistakes(folder, text)["tasks[0]"]
    assert f"{blocks * 1000:,} tasks; one run can have at most 10,000" in message


def test_block_with_a_million_tasks_is_refused_with_its_factors(folder):
    sets = "".join(f"[option_sets.s{number}]\n" for number in range(500))
    text = 'models = "net-*.mge"\nworkers = "pi-4"\nrepeats = 1000\n' + sets
    message = read_mistakes(folder, text)["the file"]
    assert "1,000,000 tasks" in message
    assert "2 models x 1 devices and versions x 500 option sets x 1000 repeats" in message


def test_model_must_be_a_regular_file_with_a_utf8_name(folder):
    os.mkfifo(folder / "pipe.mge")
    (folder / os.fsdecode(b"\xff.mge")).write_bytes(b"x")
    base = 'workers = "pi-4"\nmodels = '
    assert "not a file" in read_mistakes(folder, base + '"pipe.mge"')["models"]
    assert "not a file" in read_mistakes(folder, base + '"/dev/zero"')["models"]
    assert "not valid UTF-8" in read_mistakes(folder, base + '"*.mge"')["models"]


def test_arguments_describe_tasks_without_a_file(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (block,) = parsed_blocks(
        "-m", "net-*.mge", "-w", "pi-4", "-o", "fast_run=true", "-o", "iter=7", "-d",
        "data=cat.npy", "-i", "x=[1, 2]", "-p", "quick", "-r", "3",
    )  # fmt: skip
    assert [path.name for path in block.models] == ["net-a.mge", "net-b.mge"]
    assert block.option_sets == {"": {"fast_run": True, "iter": 7}}
    assert block.inputs == ({"name": "x", "literal": "[1, 2]"},)
    assert len(cells_of([block], DEVICES)) == 6


def test_arguments_override_the_file(folder, monkeypatch, tmp_path_factory):
    (folder / "batch.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    Path("here.npy").write_bytes(b"x")
    blocks = parsed_blocks(
        str(folder / "batch.toml"), "-w", "pi-4", "-r", "1", "-d", "data=here.npy"
    )
    cells = cells_of(blocks[:1], DEVICES)
    assert {cell.worker for cell in cells} == {"pi-4"}
    assert len(cells) == 2 * 2
    # arguments are relative to the current folder, the file's paths to its folder
    assert cells[0].files[1].path == Path("here.npy")
    assert cells[0].model == folder / "net-a.mge"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a file of tasks"),
        (("-m", "x.mge", "-o", "iter"), "“iter” is not NAME=VALUE"),
        (("-m", "x.mge", "-o", "a=1", "-o", "a=2"), "“a” is given twice"),
        (("-m", "x.mge", "-d", "a=1.npy", "-d", "b.json"), "“b.json” is not"),
    ],
)
def test_invalid_arguments_are_reported(arguments, message):
    with pytest.raises(BatchError, match=message):
        parsed_blocks(*arguments)


def test_arguments_set_a_custom_plan_and_a_time_limit(folder, monkeypatch):
    monkeypatch.chdir(folder)
    arguments = "-m net-a.mge -w x86-1 -p clean=true,clean_min_s=2.5,profiled=0 --time-limit 30"
    (block,) = parsed_blocks(*arguments.split())
    assert block.plan == {"clean": True, "clean_min_s": 2.5, "profiled": 0}
    assert (block.values, block.script) == ({"time_limit_s": 30}, None)


def test_help_shows_the_limits_of_plan_values_of_the_site():
    assert set(PLAN_KEYS) == set(Plan.model_fields) - {"preset"}
    for name in set(PLAN_KEYS) - {"clean"}:
        assert "{low} to {high}".format(**bounds_of(Plan, name)) in PLAN_KEYS[name]


def test_pattern_longer_than_any_file_name_matches_nothing(tmp_path):
    """The operating system raises an error for such names (found by fuzzing)."""
    path = tmp_path / "batch.yaml"
    path.write_text(f"models: ['*{'x' * 5000}.mge', '{'y' * 5000}.mge']\nworkers: [x86-1]\n")
    with pytest.raises(BatchError) as raised:
        read_batch(path)
    assert [place for place, _ in raised.value.mistakes] == ["models[0]", "models[1]"]
