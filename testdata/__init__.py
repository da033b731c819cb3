"""Models, inputs, profiles and expected outputs for tests and benchmarks (README.md).

`DATA` is a folder with all of them as uncompressed files. It is below the folder where `make
runtime` installs MegEngine, its name depends on the content of `testdata/`, and it is created by
the first import of this package. Files that end in `.xz` in the repository lose that suffix there.
"""

import fcntl
import functools
import hashlib
import json
import lzma
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from agent.runtimes.install import cache_folder

SOURCE = Path(__file__).resolve().parent
#: folders that were not used for so long are removed when a new one is created
_KEPT_S = 30 * 24 * 3600


def _sources() -> list[Path]:
    """Return the data files, and networks.py, which makes the models outside of the repository."""
    folders = [path for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return sorted([*files, SOURCE / "networks.py"])


def _digest(paths: list[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        total.update(f"{path.relative_to(SOURCE)}\0{len(content)}\0".encode() + content)
    return total.hexdigest()[:16]


def _unpack(paths: list[Path], folder: Path) -> None:
    for path in paths:
        target = folder / path.relative_to(SOURCE)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".xz":
            target.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
        else:
            shutil.copyfile(path, target)


def unpacked() -> Path:
    """Return the folder of uncompressed files, and create it under a lock if it is missing."""
    paths = _sources()
    root = cache_folder() / "testdata"
    folder = root / _digest(paths)
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _remove_old(root)
            with tempfile.TemporaryDirectory(dir=root, prefix="new-") as new:
                _unpack(paths, Path(new) / "data")
                (Path(new) / "data").rename(folder)
    return folder


def _remove_old(root: Path) -> None:
    for folder in root.iterdir():
        if folder.is_dir() and time.time() - folder.stat().st_atime > _KEPT_S:
            shutil.rmtree(folder, ignore_errors=True)


DATA = unpacked()


def good_profile(name: str = "two_inputs") -> bytes:
    """Return a recorded profile of the folder `profiles`."""
    return (DATA / "profiles" / f"{name}.json").read_bytes()


def bad_profile(name: str) -> bytes:
    """Return a damaged profile of the folder `bad/profiles`."""
    return (DATA / "bad" / "profiles" / f"{name}.json").read_bytes()


def compiled_profile(name: str) -> bytes:
    """Return the profile that a compiled load_and_run wrote in a run of `load_and_run`."""
    return (DATA / "load_and_run" / name / "profile.json").read_bytes()


def commands(kind: str, *arguments: str) -> list[dict[str, Any]]:
    """Return what `megengine.tools.profile_analyze` did with the profiles of a folder.

    `kind` is `profiles` or `bad/profiles`. Each run has `profile`, `arguments`, `status` (the exit
    code), `stdout` and `stderr`. With `arguments`, only the runs with one of them are returned.
    """
    return [run for run in _runs(kind) if not arguments or run["arguments"] in arguments]


@functools.cache
def _runs(kind: str) -> list[dict[str, Any]]:
    files = sorted((DATA / "expected" / kind).glob("*.json"))
    return [{"profile": file.stem, **run} for file in files for run in json.loads(file.read_text())]
