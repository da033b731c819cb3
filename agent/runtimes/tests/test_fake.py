"""The fake load_and_run fails and prints like the recorded 1.13.0."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from agent.protocol.run_log import parse_log
from agent.runtimes.tests.fake_load_and_run import install_fake
from testdata import DATA

CASES = sorted((DATA / "load_and_run").iterdir())
#: the fake has no numbers that could be out of range
LEFT_OUT = {"err__range"}


def run_fake(path: Path, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [path, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name not in LEFT_OUT], ids=lambda case: case.name
)
def test_the_fake_reproduces_recorded_runs(case, tmp_path):
    shutil.copytree(DATA / "inputs", tmp_path / "inputs")
    shutil.copytree(DATA / "models", tmp_path / "models")
    whole = (DATA / "models" / "tiny.mge").read_bytes()
    # the recorded model is not in the repository; another one has its name
    (tmp_path / "models" / "resnet18_opt.mge").write_bytes(whole)
    (tmp_path / "inputs" / "resnet18_opt").mkdir(exist_ok=True)
    np.save(tmp_path / "inputs" / "resnet18_opt" / "data.npy", np.zeros(1, np.float32))
    (tmp_path / "truncated.mge").write_bytes(whole[: len(whole) // 2])
    run = json.loads((case / "run.json").read_text())
    done = run_fake(install_fake(tmp_path), run["argv"][1:], tmp_path)
    recorded = (case / "stderr.txt").read_text()
    assert done.returncode == run["exit_code"]
    assert done.stdout == (case / "stdout.txt").read_text()
    if run["exit_code"] == 1:
        assert done.stderr == recorded
    if case.name != "err__no_such_npy":  # the recorded text contains a memory address
        for mark in ("instance of ", "extra message: "):
            assert re.findall(f"{mark}(.*)", done.stderr) == re.findall(f"{mark}(.*)", recorded)
    log, real = parse_log(done.stderr), parse_log(recorded)
    assert len(log.e2e_ms) == len(real.e2e_ms)
    if "--profile" in run["argv"]:
        assert (tmp_path / "profile.json").read_bytes() == (case / "profile.json").read_bytes()


def copy_model(folder: Path) -> list[str]:
    (folder / "tiny.mge").write_bytes((DATA / "models" / "tiny.mge").read_bytes())
    return ["tiny.mge"]


@pytest.mark.parametrize("version", ["1.7.0", "1.10.0"])
def test_an_old_version_loses_buffered_output_when_it_aborts(version, tmp_path):
    done = run_fake(install_fake(tmp_path, version), ["none.mge"], tmp_path)
    assert done.returncode == -6 and done.stdout == "" and "terminate called" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--version"], 0),
        (["--help"], 1),
        (["tiny.mge", "--input", "data:scalar.npy"], -11),
        (["tiny.mge", "--io_dump=a", "--bin_io_dump=b"], -11),
        (["tiny.mge", "--input", "x:[1.0]"], -6),
        (["tiny.mge", "--nocpu", "--fast-run=false"], 0),
        (["tiny.mge", "--cpu=maybe"], 1),
        (["tiny.mge", "--profile", "none/profile.json"], -6),
        (["tiny.mge", "--iter", "0"], 0),
    ],
)
def test_the_fake_has_the_exit_codes_of_the_real_program(arguments, code, tmp_path):
    copy_model(tmp_path)
    scalar = DATA / "bad" / "inputs" / "scalar.npy"
    (tmp_path / "scalar.npy").write_bytes(scalar.read_bytes())
    assert run_fake(install_fake(tmp_path), arguments, tmp_path).returncode == code


def test_version_1_6_rejects_newer_spellings_of_flags(tmp_path):
    old = install_fake(tmp_path, "1.6.0")
    for wrong in ("--iter=3", "--warmup_iter", "--cuda", "--layout-transform-verify"):
        done = run_fake(old, [*copy_model(tmp_path), wrong], tmp_path)
        assert done.returncode == 255 and done.stderr == f"invalid arg: {wrong}\n"
