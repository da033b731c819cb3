"""Whole runs in the runtime's interpreter, with the models and inputs of testdata/."""

import json
import re
import subprocess

import numpy as np
import pytest

from agent.load_and_run.tests.running import (
    TIMEOUT_S,
    assert_died,
    model,
    models,
)
from agent.protocol.input_rules import escaped
from agent.protocol.run_log import parse_log
from testdata import DATA

pytestmark = pytest.mark.megengine

#: operators in the real load_and_run's graph (`--lite`) of each model
OPERATORS = {
    "bert_tiny": 549,
    "deep_loop": 3726,
    "dynamic_shape": 16,
    "hostile_names": 7,
    "lstm": 29,
    "no_op": 2,
    "quantized": 26,
    "resnet18": 161,
    "resnet18_fbs1": 153,
    "resnet18_opt": 77,
    "tiny": 6,
    "tiny_fbs1": 6,
    "two_inputs": 24,
}


@pytest.mark.parametrize("entry", models(), ids=lambda entry: entry["name"])
def test_all_models_run_and_write_a_profile_of_the_real_graph(run, entry):
    inputs = ";".join(f"{tensor['name']}:{DATA / tensor['file']}" for tensor in entry["inputs"])
    # the check of each value takes half a minute on the longest chain, and changes no operator
    flags = ("--no_sanity_check", "--iter=2", "--profile=p.json")
    done = run(model(entry["name"]), f"--input={inputs}", *flags)
    assert done.returncode == 0, done.stderr
    assert "WARN" not in done.stderr
    graph = json.loads((run.folder / "p.json").read_text())["graph_exec"]
    assert len(graph["operator"]) == OPERATORS[entry["name"]]


def test_the_log_has_the_lines_of_load_and_run(run):
    done = run.in_new_interpreter(model("tiny"), "--iter=3", "--warmup_iter=2", "--cpu_default")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    number = r"\d+\.\d{3}"
    for pattern in (
        r"megbrain/lite/load_and_run:\nusing MegBrain \d+\.\d+\.\d+\(0\)",
        rf"load model: {number}ms\n\n",
        r"run testcase: 0 \n",
        rf"=== prepare: {number}ms; going to warmup\n.*warm up 0  {number}ms\n",
        rf"warm up 1  {number}ms\n",
        rf"iter 2/3: e2e={number} ms \(host={number} ms\)\n",
        rf"=== finished test #0: time={number} ms avg_time={number} ms "
        rf"standard_deviation={number} ms min={number} ms max={number} ms\n",
        rf"=== total time: {number}ms\n\n",
    ):
        assert re.search(pattern, done.stderr), pattern
    waits = parse_log(done.stderr).waits
    assert waits is not None
    assert waits.elapsed_ms > 0
    assert None not in (waits.switches, waits.stolen_ms)


def test_one_iteration_has_no_deviation_and_none_has_no_summary(run):
    assert "standard_deviation=-nan ms" in run(model("tiny"), "--iter=1").stderr
    none = run(model("tiny"), "--iter=0")
    assert "finished test" not in none.stderr
    assert "=== total time: 0.000ms" in none.stderr


def test_an_unknown_flag_is_exit_code_1(run):
    assert run.in_new_interpreter("--nope").returncode == 1


def test_an_interpreter_without_megengine_is_an_error(run, monkeypatch):
    (run.folder / "numpy.py").write_text("raise ImportError('no numpy here')")
    monkeypatch.setenv("PYTHONPATH", str(run.folder))
    assert_died(run.in_new_interpreter(model("tiny")), "lar::NoMegEngine", "no numpy here")


def test_no_model_is_an_error(run):
    assert_died(run("--iter=1"), "lar::ModelError", "no model is given")


@pytest.mark.parametrize(
    ("file", "kind", "text"),
    [
        ("empty.mge", "lar::ModelError", "0 bytes"),
        ("png.mge", "lar::ModelError", "PNG"),
        ("truncated_half.mge", "lar::ModelError", "it has 3004 of 6008 bytes"),
        ("truncated_fbs1.mge", "mgb::AssertionError", "m_offset + size <= m_size"),
        ("flipped_64.mge", "mgb::MegBrainError", "model verification failed"),
        ("pickle.mge", "lar::ModelError", "pickle"),
        ("zip.mge", "lar::ModelError", "zip"),
        ("memory_12g.mge", "mgb::AssertionError", "failed to malloc"),
    ],
)
def test_an_invalid_model_ends_the_run_with_its_error(run, file, kind, text):
    model("tiny")
    assert_died(run(str(DATA / "bad" / "models" / file), "--iter=1"), kind, text)


@pytest.mark.parametrize(
    ("file", "kind", "text"),
    [
        ("dtype_float16.npy", "lar::InputError", "is given as float16"),
        ("pickle_object_array.npy", "lar::InputError", "Python objects"),
        ("channels_4.npy", "mgb::AssertionError", "input channel got 4, and filter channel got 3"),
    ],
)
def test_an_invalid_input_ends_the_run_with_its_error(run, file, kind, text):
    path = DATA / "bad" / "inputs" / file
    mask = DATA / "inputs" / "two_inputs" / "mask.npy"
    done = run(model("two_inputs"), f"--input=data:{path};mask:{mask}", "--iter=1")
    assert_died(done, kind, text)
    assert not list(run.folder.iterdir())  # no marker of a pickle that ran, no core


def test_infinite_numbers_cause_a_warning(run):
    np.save(run.folder / "a.npy", np.float32([[np.inf] + [1] * 7]))
    done = run(model("tiny"), "--input=data:a.npy", "--iter=1")
    assert done.returncode == 0, done.stderr
    assert 'input "data" contains 0 NaN and 1 infinite of 8 numbers' in done.stderr


def test_an_unwritable_profile_is_rejected_before_the_run(run):
    done = run(model("tiny"), "--profile=no/such/folder.json")
    assert_died(done, "lar::ProfileError", "cannot write the profile")
    assert "iter 0" not in done.stderr


def test_profiling_names_that_are_not_ascii_is_an_error(run, megengine_python):
    script = (
        "import numpy as np, megengine as m, megengine.functional as F\n"
        "from megengine.jit import trace\n"
        "f = trace(symbolic=True, capture_as_const=True)(lambda x: F.relu(x))\n"
        "f(m.tensor(np.ones((2, 3), 'float32'))); f.dump('named.mge', arg_names=['\\u6570'])\n"
    )
    subprocess.run([megengine_python, "-c", script], cwd=run.folder, check=True, timeout=TIMEOUT_S)
    assert run("named.mge", "--iter=1").returncode == 0
    assert_died(run("named.mge", "--iter=1", "--profile=p.json"), "lar::ProfileError", "not ASCII")


def test_an_abort_in_a_destructor_does_not_fail_a_successful_run(run, monkeypatch):
    """The process flushes C's stdio, and does not run MegEngine's destructors, which may abort."""
    (run.folder / "sitecustomize.py").write_text(
        "import ctypes\n"
        "c = ctypes.CDLL(None)\n"
        "c.puts(b'from the library')\n"
        "c['__cxa_atexit'](c.abort, None, None)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(run.folder))
    done = run.in_new_interpreter(model("tiny"), "--thread=2", "--iter=1", "--profile=p.json")
    assert (done.returncode, done.stdout) == (0, "from the library\n"), done.stderr
    assert json.loads((run.folder / "p.json").read_text())["graph_exec"]["comp_seq"]


@pytest.mark.parametrize("flag", ["", "--mdl", "--share_param_mem", "--bin_out_dump=out"])
def test_a_graph_behind_a_header_of_test_data_runs(run, tmp_path, flag):
    graph = (DATA / "models" / "two_inputs.mge").read_bytes()
    (tmp_path / "m.mge").write_bytes(b"mgbtest0\x01\0\0\0" + graph + b"test data")
    (tmp_path / "out").mkdir()
    done = run("m.mge", "--iter=2", *([flag] if flag else []))
    assert done.returncode == 0, done.stderr
    assert "=== finished test #0" in done.stderr


def test_an_input_whose_name_has_separators_is_fed(run, tmp_path):
    content = (DATA / "models" / "two_inputs.mge").read_bytes()
    (tmp_path / "m.mge").write_bytes(content.replace(b"mask", b"a:;b"))
    folder = DATA / "inputs" / "two_inputs"
    given = f"--input=data:{folder}/data.npy;{escaped('a:;b')}:{folder}/mask.npy"
    done = run("m.mge", given, "--iter=2", "--model_info")
    assert done.returncode == 0, done.stderr
    assert "a:;b" in done.stderr
    assert "is not given" not in done.stderr
