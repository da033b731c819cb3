"""Tests of `manage.py submit` with scripts."""

import argparse

import pytest
from django.core.management import CommandError

from tasks.models import Task
from tasks.tests.make import make_user, make_worker, run_submit
from tasks.tests.scripts import PROGRAM, make_script_worker, zip_of
from webprofile.client.batchfile import BatchError
from webprofile.client.batchfile.arguments import add_batch_arguments, blocks_from_arguments

pytestmark = pytest.mark.usefixtures("storage", "db")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_bytes(PROGRAM)
    (tmp_path / "all.zip").write_bytes(zip_of(train__main="1"))
    (tmp_path / "table.csv").write_bytes(b"1,2\n")
    (tmp_path / "net.mge").write_bytes(b"\x1c\0\0\0mgv2" + bytes(40))
    return tmp_path


@pytest.fixture
def alice():
    make_script_worker("lab")
    make_worker("box")
    return make_user("alice")


def test_batch_file_submits_scripts_with_data(alice, folder):
    (folder / "batch.toml").write_text(
        'scripts = "train.py"\nworkers = "lab"\narguments = "--name \'two words\'"\n'
        'formats = ["timeline", "memory"]\nsample_rate = 50\nprofile_device = false\n'
        'time_limit_s = 90\ndata = ["table.csv"]\nrepeats = 2\ntitle = "night {model}"\n'
        '[[tasks]]\n[[tasks]]\nscripts = "all.zip"\nentry = "train/main.py"\nrepeats = 1\n'
    )
    run_submit("batch.toml")
    first, second, third = Task.objects.order_by("pk")
    assert first.script == second.script
    assert first.script == {
        "entry": None,
        "arguments": ["--name", "two words"],
        "formats": ["chrome_timeline.json", "memory_flow.svg"],
        "sample_rate": 50,
        "profile_device": False,
        "time_limit_s": 90,
    }
    assert (first.title, third.script["entry"]) == ("night train", "train/main.py")
    assert [file.name for file in third.files.all()] == ["all.zip", "table.csv"]
    assert {task.kind for task in (first, second, third)} == {"script"}


def test_command_line_submits_a_script(alice, folder):
    run_submit("-s", "train.py", "--arguments", "--steps 3", "--format", "memory", "-w", "lab",
        "-d", "table.csv", "--time-limit", "30")  # fmt: skip
    task = Task.objects.get()
    assert task.timeout_s == 30
    assert task.script["arguments"] == ["--steps", "3"]
    assert task.script["formats"] == ["memory_flow.svg"]
    assert [file.name for file in task.data_files] == ["table.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-s", "train.py", "-w", "box"], "workers: Users are not allowed to run scripts on box"),
        (["-s", "train.py", "-w", "lab", "-o", "iter=3"], "options: A script has no options"),
        (["-s", "train.py", "-w", "lab", "-p", "thorough"], "plan: A script has no measuring"),
        (["-s", "train.py", "-w", "lab", "--seed", "1"], "seed: A script has no seed"),
        (["-s", "all.zip", "-w", "lab"], "entry: Enter the name of the program in"),
        (["-s", "all.zip", "-w", "lab", "--entry", "no.py"], "entry: The archive"),
        (["-s", "net.mge", "-w", "lab"], "scripts: “net.mge” is not a .py or .zip file"),
        (["-m", "train.py", "-w", "lab"], "models: “train.py” is a program"),
        (["-s", "train.py", "-w", "lab", "-d", "x=table.csv"], "data: A script has no input"),
    ],
)
def test_invalid_command_line_names_the_key_and_creates_no_task(alice, folder, arguments, message):
    with pytest.raises(CommandError) as caught:
        run_submit(*arguments)
    assert message in str(caught.value)
    assert not Task.objects.exists()


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ('models = "net.mge"\nscripts = "train.py"', "scripts", "either models or scripts"),
        ('models = "net.mge"\narguments = "1"', "arguments", "only valid for scripts"),
        ('scripts = "train.py"\nentry = 2026-01-01', "entry", "a string"),
        ("scripts = []", "scripts", "missing"),
    ],
)
def test_invalid_batch_file_names_the_key(folder, text, place, message):
    (folder / "batch.toml").write_text(f'{text}\nworkers = "lab"\n')
    parser = argparse.ArgumentParser()
    add_batch_arguments(parser)
    with pytest.raises(BatchError) as caught:
        blocks_from_arguments(parser.parse_args(["batch.toml"]))
    assert message in dict(caught.value.mistakes)[place]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('arguments = "\'"', "arguments: The arguments cannot be split"),
        ("arguments = [1]", "arguments: "),
        ('formats = "flame"', "formats: “flame” is not one of"),
        ("sample_rate = true", "sample_rate: "),
        ("profile_device = 1", "profile_device: Expected true or false"),
        ("entry = 1", "entry: Expected a string"),
        ("time_limit_s = -1", "time_limit_s: "),
    ],
)
def test_invalid_value_in_a_batch_file_names_the_key(alice, folder, text, message):
    (folder / "batch.toml").write_text(f'scripts = "train.py"\nworkers = "lab"\n{text}\n')
    with pytest.raises(CommandError) as caught:
        run_submit("batch.toml")
    assert str(caught.value).startswith(message)
    assert not Task.objects.exists()
