"""Only the listed private names of third-party packages are used, since they change without notice.

Two rules find private names in code outside of tests: underscored parts of what is imported from a
third-party package and of its attributes, and underscored attributes of other objects that no
module of this project defines. The second rule misses names that this project also defines.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN = {"agent", "accounts", "tasks", "workers", "profiles", "webprofile", "bench", "testdata"}

#: underscored names that their packages document
DOCUMENTED = {
    "_asdict": "collections.namedtuple",
    "_db": "Django: custom managers",
    "_default_manager": "Django: default managers",
    "_exit": "os",
    "_getframe": "sys",
    "_meta": "Django: the Model _meta API",
    "_replace": "collections.namedtuple",
}

_TYPES = "the wheel declares the C function not at all or with types that do not fit"
_RECORD = "a Profiler cannot be paused, nor made to drop or join what it has recorded"
_RUNNING = "MegEngine says whether a Profiler runs, but not which"
#: (module, name): why it is used
ALLOWED = {
    ("agent/load_and_run/devices.py", "_api"): _TYPES,
    ("agent/load_and_run/graph_library.py", "_dev_tensor"): (
        "the input of a graph takes it, and a Tensor has no public name for it"
    ),
    ("agent/load_and_run/graph_library.py", "_imperative_rt"): (
        "options, profiler and cache of a graph are nowhere else"
    ),
    ("agent/load_and_run/library.py", "_api"): _TYPES,
    ("agent/load_and_run/library.py", "_lite_dtypes_to_ctype"): "its table lacks float16",
    ("agent/load_and_run/settings.py", "_api"): (
        "LiteGlobal.set_tensorrt_cache asks the library for a name that it does not have"
    ),
    ("agent/script_runner/__main__.py", "_dump_callback"): _RECORD,
    ("agent/script_runner/__main__.py", "_formats"): "`formats` of a Profiler cannot be set",
    ("agent/script_runner/__main__.py", "_living_profilers"): _RECORD,
    ("agent/script_runner/__main__.py", "_running_profiler"): _RUNNING,
    ("agent/script_runner/__main__.py", "_stop_current_profiler"): (
        "writes the trace before MegEngine's own exit hook does, so that it can be moved in time"
    ),
    ("agent/script_runner/_web_profile_pauses.py", "_dump_callback"): _RECORD,
    ("agent/script_runner/_web_profile_pauses.py", "_living_profilers"): _RECORD,
    ("agent/script_runner/_web_profile_pauses.py", "_running_profiler"): _RUNNING,
}


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Yield path and syntax tree of each module.

    One at a time: the garbage collector would look at all trees again and again.
    """
    for package in sorted(OWN):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT)
            if "tests" not in name.parts and path.name != "conftest.py":
                yield name.as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def is_private(name: str) -> bool:
    return name.strip("_") != "" and name.startswith("_") and not name.endswith("__")


def is_third_party(module: str, path: str) -> bool:
    """Whether a module is none of this repository, the standard library or the folder of `path`."""
    first = module.split(".")[0]
    is_in_folder = (ROOT / path).with_name(f"{first}.py").exists()
    return not is_in_folder and first not in OWN and first not in sys.stdlib_module_names


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield (name in the module, origin) of each imported name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name.split(".")[0], alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions, classes, variables, and attributes of self and cls."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Attribute(value=ast.Name(id="self" | "cls"), ctx=ast.Store()):
                yield node.attr


def private_names(path: str, tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Yield (private name that a module uses, whether it is certainly of another package)."""
    theirs = set()
    for bound, origin in imports(tree):
        if is_third_party(origin, path):
            theirs.add(bound)
            yield from ((name, True) for name in filter(is_private, origin.split(".")))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            root = node.value
            while isinstance(root, ast.Attribute):
                root = root.value
            yield node.attr, isinstance(root, ast.Name) and root.id in theirs


@cache
def private_uses() -> set[tuple[str, str]]:
    """Return (path, private name of another package)."""
    ours, uses = set(), set()
    for path, tree in trees():
        ours |= set(defined(tree))
        uses |= {(path, *use) for use in private_names(path, tree)}
    return {(path, name) for path, name, is_foreign in uses if is_foreign or name not in ours}


def test_each_private_name_of_another_package_has_a_reason():
    used = {(path, name) for path, name in private_uses() if name not in DOCUMENTED}
    assert sorted(used - set(ALLOWED)) == []
    assert all(ALLOWED.values())


def test_each_allowed_private_name_is_used():
    assert sorted(set(ALLOWED) - private_uses()) == []
    assert sorted(set(DOCUMENTED) - {name for _, name in private_uses()}) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from channels_redis import _shard", {"_shard"}),
        ("from channels_redis._core import Layer", {"_core"}),
        ("import channels_redis._core", {"_core"}),
        ("import numpy as np\nnp.core._methods.x", {"_methods"}),
        ("from django.contrib import admin\nadmin.site._registry", {"_registry"}),
        ("def f():\n    import numpy\n    numpy._ours()", {"_ours"}),
        ("layer._get_shard(name)", {"_get_shard"}),
        ("self._ours, cls._ours", set()),
        ("from accounts.views import _page\nimport tasks\ntasks._page", {"_page"}),
        ("from django.utils.translation import gettext as _\n_.x", set()),
        ("import numpy\nnumpy.__version__", set()),
        ("from __future__ import annotations", set()),
    ],
)
def test_private_names_are_detected(source, expected):
    names = private_names("tasks/x.py", ast.parse(source))
    assert {name for name, is_foreign in names if is_foreign or name != "_ours"} == expected
