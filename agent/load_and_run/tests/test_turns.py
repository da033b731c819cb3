"""A process that takes turns (`turns`), with MegEngine."""

import json
import os
import subprocess

import pytest

from agent.load_and_run.tests.running import FOLDER, TIMEOUT_S, model
from testdata import DATA

pytestmark = pytest.mark.megengine

DATA_INPUT = f"--input=data:{DATA / 'inputs' / 'tiny' / 'data.npy'}"


@pytest.fixture
def ask(megengine_python, tmp_path):
    """Return a function that starts a process with arguments, and one that asks it a line."""
    processes = []

    def start(*arguments: str):
        process = subprocess.Popen(
            [megengine_python, str(FOLDER), "--take-turns", *arguments],
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        processes.append(process)
        assert json.loads(process.stdout.readline()) == {"ready": True}

        def ask_line(line: str) -> dict:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        return ask_line

    yield start
    for process in processes:
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0
        process.stdout.close()


@pytest.mark.parametrize("options", [(), ("--mdl",), ("--enable_nchw44",)])
def test_operators_are_profiled_after_turns_without_the_profiler(ask, tmp_path, options):
    turn = ask(model("tiny"), DATA_INPUT, *options)
    assert len(turn("5")["ms"]) == 5
    assert not (tmp_path / "profile.json").exists()
    profiled = turn("profile 3")
    # the first of several iterations does not count
    assert len(profiled["us"]) == len(profiled["ms"]) == 2
    assert profiled["elapsed_ms"] > 0
    profile = json.loads((tmp_path / "profile.json").read_text())
    assert set(profiled["ids"]) == set(profile["profiler"]["device"])
    assert set(profiled["ids"]) <= set(profile["graph_exec"]["operator"])
    times = {
        key: max(node["end"] - node["start"] for node in nodes.values())
        for key, nodes in profile["profiler"]["device"].items()
    }
    assert profiled["us"][-1] == pytest.approx(
        [1e6 * times[key] for key in profiled["ids"]], abs=0.01
    )
    assert len(turn("profile 1")["us"]) == 1


def test_all_processes_of_a_model_give_its_operators_the_same_ids(ask):
    first, second = (ask(model("tiny"), DATA_INPUT)("profile 1")["ids"] for _ in range(2))
    assert set(first) == set(second)
