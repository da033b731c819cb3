"""Make models, profiles and expected outputs with an interpreter that has MegEngine."""

import fcntl
import json
import lzma
import os
import pickle
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from agent.runtimes.install import installed_wheel
from testdata import DATA, SOURCE

#: models that are too large for the repository, because random weights do not compress
LARGE = ("bert_tiny", "lstm", "resnet18", "resnet18_opt", "resnet18_fbs1")
SMALL = (
    "tiny", "tiny_fbs1", "no_op", "two_inputs", "quantized", "dynamic_shape", "deep_loop",
    "hostile_names",
)  # fmt: skip
#: least saving for which a file is compressed; uncompressed files are easier to read and compare
_WORTH_BYTES = 10_000
_RUNNER = SOURCE.parent / "agent" / "load_and_run"
_TIMEOUT_S = 900


class MakingError(Exception):
    """MegEngine could not make or run a model. The message has the end of its output."""


def find_python() -> str:
    """Return the interpreter in `MGW_TEST_MEGENGINE_PYTHON`, else that of `make runtime`, or ""."""
    wheel = installed_wheel()
    return os.environ.get("MGW_TEST_MEGENGINE_PYTHON") or (wheel.path if wheel else "")


def make_large(python: str) -> None:
    """Make the models that are not in the repository, and their inputs, in `DATA` if it lacks them.

    Raises MakingError.
    """
    with (DATA.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [name for name in LARGE if not (DATA / "models" / f"{name}.mge").is_file()]
        if missing:
            with tempfile.TemporaryDirectory(dir=DATA.parent, prefix="new-") as folder:
                make_models(python, missing, Path(folder))
                keep_large(missing, Path(folder), DATA)


def keep_large(names: Iterable[str], made: Path, target: Path) -> None:
    """Put models and their inputs from a folder of the same file system into `target`."""
    for name in names:
        inputs, model = f"inputs/{name}", f"models/{name}.mge"
        shutil.copytree(made / inputs, target / inputs, dirs_exist_ok=True)
        # moved last, because `make_large` takes it as the sign that the inputs are complete
        (made / model).rename(target / model)


def make_models(python: str, names: Iterable[str], folder: Path) -> list[Any]:
    """Write models and inputs into a folder and return their entries of models.json.

    Each is run once with its inputs. Raises MakingError.
    """
    text = _run([python, "-W", "ignore", SOURCE / "networks.py", folder, *names])
    entries: list[Any] = json.loads(text.splitlines()[-1])
    for entry in entries:
        inputs = ";".join(f"{array['name']}:{folder / array['file']}" for array in entry["inputs"])
        _run([python, _RUNNER, folder / entry["file"], "--iter=1", f"--input={inputs}"])
    return entries


def make_profile(python: str, entry: dict[str, Any], folder: Path) -> bytes:
    """Run a model of `folder` with MegEngine's own runner and return the profile.

    One warm-up, three iterations. Raises MakingError.
    """
    inputs = {array["name"]: np.load(folder / array["file"]) for array in entry["inputs"]}
    with tempfile.TemporaryDirectory() as temporary:
        inputs_file, profile = Path(temporary) / "inputs.pkl", Path(temporary) / "profile.json"
        inputs_file.write_bytes(pickle.dumps(inputs, protocol=4))
        program = [python, "-W", "ignore", "-m", "megengine.tools.load_network_and_run"]
        model = [folder / entry["file"], "--load-input-data", inputs_file]
        _run([*program, *model, "--warm-up", "1", "--iter", "3", "--profile", profile])
        return profile.read_bytes()


def analyzed(python: str, profile: bytes, arguments: list[str]) -> bytes:
    """Return what the original profile_analyze does with a profile, as a file of `expected`."""
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "profile.json"
        file.write_bytes(profile)
        text = _run([python, SOURCE / "analyze.py", file], json.dumps(arguments))
    runs = json.loads(text.splitlines()[-1])
    return (json.dumps(runs, indent=1, ensure_ascii=False) + "\n").encode()


def _run(command: list[Any], stdin: str = "") -> str:
    # the output of --help depends on the order of a set and on the width of the terminal
    environment = {**os.environ, "PYTHONHASHSEED": "0", "COLUMNS": "80"}
    done = subprocess.run(
        list(map(str, command)),
        input=stdin, capture_output=True, text=True, timeout=_TIMEOUT_S, env=environment,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise MakingError(f"{command[:4]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def read(name: str) -> bytes | None:
    """Return the plain content of a file of `testdata/`, None if there is none."""
    file = SOURCE / name
    packed = file.with_name(file.name + ".xz")
    if packed.is_file():
        return lzma.decompress(packed.read_bytes())
    return file.read_bytes() if file.is_file() else None


def write(name: str, content: bytes) -> bool:
    """Write a file of `testdata/`, compressed if that is worth it; return whether it changed."""
    if read(name) == content:
        return False
    file = SOURCE / name
    packed = file.with_name(file.name + ".xz")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    packed.unlink(missing_ok=True)
    small = lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
    if len(content) - len(small) >= _WORTH_BYTES:
        packed.write_bytes(small)
    else:
        file.write_bytes(content)
    return True
