"""Seeds of the fuzzers: recorded files, and small ones for features that these lack."""

import io
import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

from profiles.formats.load_and_run.reader import parse
from profiles.formats.npz import pack, save
from testdata import DATA

ROOT = Path(__file__).resolve().parents[3]
#: size limit of a seed, B; larger files only repeat the same structures
MAX_SEED_BYTES = 64 * 1024

_PLAN = {"preset": "standard", "clean": True, "clean_min_s": 1.0, "profiled": 5}
_PASS = {
    "number": 1, "kind": "clean", "kept": True, "argv": ["load_and_run"], "started_at": 1.7e9,
    "run_s": 2.5, "start_s": 0.5, "exit_code": 0, "load_ms": 3.0, "prepare_ms": 1.0,
    "warmup_ms": [2.0], "e2e_ms": [1.0, 1.5, 1.25], "host_ms": [0.5, None, 0.25],
    "profile": "profile.json",
}  # fmt: skip
_STATE = {"at": 1.7e9, "cpu_percent": 3.5, "load_average": [0.1], "gpus": [{"name": "x"}]}

CONTENTS: dict[str, tuple[bytes | str | dict, ...]] = {
    "tensor": (
        struct.pack("<III7I", 6, 0, 7, 2, 0, 0, 0, 0, 0, 0) + b"var=x}" + bytes(8),
        struct.pack("<III7I", 66, 4, 7, 1, 0, 0, 0, 0, 0, 0)
        + b"var={id:7, layout:{1}, owner:conv{Convolution}, name:a,b, slot:0, }" + bytes(4),
    ),
    "picture": (b"P6\n2 2\n255\n" + bytes(12), b"P5 # words\n2 1\n#\n255\n" + bytes(2)),
    "json_input": ({"data": {"shape": [1, 3], "type": "float32", "raw": [1, 2.5, -3e2]}},),
    "literal": ("1,2.5,-3e2", "[[1,2],[3,4]]", "[[[[[[0]]]]]]", "007", "2147483648", "1e39, .5"),
    "document": (
        {
            "models": "*.mge", "workers": ["a", {"labels": {"x": "y"}, "pool": "p"}],
            "versions": "all", "options": {"fast_run": True}, "option_sets": {"a": {"iter": 3}},
            "data": {"data": "x.npy"}, "inputs": {"x": "1,2", "y": {"shape": [1]}}, "seed": 3,
            "plan": {"preset": "quick"}, "repeats": 2, "title": "{model}", "priority": -1,
            "tasks": [{"models": ["m.mge"], "option_files": {"fast_run_algo_policy": "c"}}],
        },
    ),
    "options": (
        {"iter": 10, "warmup_iter": 1, "cpu": True, "layout_transform": "cuda", "seed": 1},
        {"fast_run": True, "lite": True, "thread": 2, "multithread": 2, "reproducible": True},
        {"record_comp_seq": True, "model_info": True, "device_alloc": "1", "c_opr_lib": "x"},
    ),
    "measurement": (
        {
            "format": 1, "plan": _PLAN, "passes": [_PASS, {"number": 2, "kind": "profiled"}],
            "gate": {"waited_s": 1.0}, "device": {"before": _STATE, "after": _STATE},
            "disturbances": [{"code": "load", "detail": "x"}],
            "notes": [{"code": "input_random", "values": {"name": "x"}}],
        },
    ),
    "log": ("[01 02:03:04 x.cpp:1] iter 1/10: 2.5ms (exec=1.0,device=0.5)\n",),
    "memory_flow": (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:tag="https://megengine.org.cn">\n'
        '<rect tag:name="a<b" tag:address="0x40" tag:size="1KB 1B " tag:layout="{1(1) Int32}" '
        'tag:produced="1us " tag:erased="2s 1ns " tag:group="7">\n</rect>\n</svg>\n',
    ),
    "batch": ("models: [a.mge]\nworkers: [x]\n", "a: &a [*a]\n", "models = ['a']\n[[tasks]]\n"),
}  # fmt: skip


def write_seeds(target: str, patterns: tuple[str, ...], folder: Path) -> int:
    """Put the seeds of a target into `folder` and return how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [path for pattern in patterns for root in (DATA, ROOT) for path in root.glob(pattern)]
    small = [path for path in paths if path.is_file() and path.stat().st_size <= MAX_SEED_BYTES]
    for number, path in enumerate(small):
        shutil.copyfile(path, folder / f"{number:04}")
    contents = [*CONTENTS.get(target, ())]
    if target in _BUILDERS:
        contents.append(_BUILDERS[target]())
    for number, content in enumerate(contents):
        text = json.dumps(content) if isinstance(content, dict) else content
        (folder / f"made-{number}").write_bytes(text.encode() if isinstance(text, str) else text)
    return len(small) + len(contents)


def _of_plan(name: str) -> Callable[[], bytes]:
    """Return a function that reads a file of a recorded memory plan."""
    path = ROOT / "profiles" / "tests" / "static_memory" / "tiny.zip"
    return lambda: zipfile.ZipFile(path).read(name)


def _columns() -> bytes:
    """Return the columns of a recorded profile in the format in which the site stores them."""
    profile = DATA / "profiles" / "tiny.json"
    return save(pack(parse(profile.read_bytes())))


def _dump() -> bytes:
    """Return a zip of two variables, as an agent stores it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, tensor in enumerate(CONTENTS["tensor"]):
            assert isinstance(tensor, bytes)
            archive.writestr(f"{number:06x}", tensor)
    return file.getvalue()


_BUILDERS: dict[str, Callable[[], bytes]] = {
    "dump": _dump,
    "columns": _columns,
    "static_memory": _of_plan("StaticMemoryInfo.json"),
    "static_graph": _of_plan("graph.json"),
}
