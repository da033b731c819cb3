"""A process that is started before its arguments are known (`prestarted`)."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.megengine

FOLDER = Path(__file__).resolve().parents[1]
TIMEOUT_S = 60


@pytest.fixture
def start(
    megengine_python: str, tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    processes = []

    def start(*arguments: str, code: str = "") -> subprocess.Popen[bytes]:
        work = tmp_path / "before"
        work.mkdir(exist_ok=True)
        process = subprocess.Popen(
            [megengine_python, *(("-c", code) if code else (str(FOLDER),)), *arguments],
            cwd=work,
            env={**os.environ, "HOME": str(work), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_a_process_exits_quietly_if_stdin_is_closed(start):
    process = start("--wait-for-arguments")
    assert process.communicate(timeout=TIMEOUT_S) == (b"", b"")
    assert process.returncode == 0


def test_a_process_exits_quietly_after_an_incomplete_line(start):
    process = start("--wait-for-arguments")
    assert process.communicate(b'["m.mge"]', timeout=TIMEOUT_S) == (b"", b"")
    assert process.returncode == 0


@pytest.mark.parametrize("arguments", [[], ["--iter=x", "m.mge"], ["ä.mge"]])
def test_a_pre_started_process_behaves_like_one_started_with_its_arguments(start, arguments):
    cold = start(*arguments)
    cold_output = cold.communicate(timeout=TIMEOUT_S)
    warm = start("--wait-for-arguments")
    line = json.dumps(arguments).encode() + b"\n"
    out, errors = warm.communicate(line, timeout=TIMEOUT_S)
    assert warm.returncode == cold.returncode
    assert out == cold_output[0]
    # the first line begins with the time
    assert errors.partition(b"]")[2] == cold_output[1].partition(b"]")[2]


def test_the_library_is_imported_without_what_no_run_needs(start):
    code = f"""
import sys
sys.path.append({str(FOLDER.parent)!r})
from load_and_run.library import import_library
print(import_library().__name__, sorted({{"boto3", "megfile", "pkg_resources"}} & set(sys.modules)))
"""
    out, _ = start(code=code).communicate(timeout=TIMEOUT_S)
    assert out == b"megenginelite []\n"


def test_the_folder_can_be_renamed_while_a_process_waits(start, tmp_path):
    code = f"""
import os, sys
sys.path.append({str(FOLDER.parent)!r})
from load_and_run.prestarted import wait_for_arguments
print("started", flush=True)
print(wait_for_arguments(), os.environ["HOME"], repr(sys.stdin.read()))
"""
    process = start(code=code)
    assert process.stdout.readline() == b"started\n"
    time.sleep(0.2)
    (tmp_path / "before").rename(tmp_path / "after")
    out, _ = process.communicate(b'["a b", "\\u00e4"]\nmore\n', timeout=TIMEOUT_S)
    assert out.decode() == f"['a b', 'ä'] {tmp_path / 'after'} ''\n"
