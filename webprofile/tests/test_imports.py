"""The two laws of imports (ARCHITECTURE.md), decided from the paths of the files."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHES = sorted((ROOT / "bench").rglob("*.py"))
#: a domain module may import apps to its left
APPS = ("accounts", "workers", "tasks", "profiles")
#: files and folders of an app that connect it with the outside
EDGES = {
    "actors", "admin", "api", "apps", "consumers", "management", "templatetags", "urls", "views",
}  # fmt: skip
#: edges of the project; its other modules are to the left of all apps
PROJECT_EDGES = {
    *EDGES, "asgi", "checks", "middleware", "operations", "routing", "settings",
}  # fmt: skip
#: modules that import the edges of all apps
JOINTS = {"asgi", "operations", "routing", "settings", "urls"}
#: packages that `pip install .` installs, and all that they may import besides themselves
INSTALLED = {
    "webprofile.client": {"webprofile.terminal", "httpx2", "yaml"},
    "webprofile.terminal": {"tabulate", "tqdm"},
}
SHARED_CLIENT = ["webprofile", "client", "batchfile"]
#: packages of the agent that the server imports, too
SHARED_AGENT = {"protocol", "statistics"}


def sources() -> Iterator[Path]:
    for package in ("agent", "webprofile", *APPS):
        for path in (ROOT / package).rglob("*.py"):
            if not {"tests", "migrations"} & set(path.parts) and path.name != "conftest.py":
                yield path


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Return the names that the module imports, also inside of functions."""
    names: list[str] = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    # without imports for type checkers
    tree.body = [node for node in tree.body if not _is_for_types(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def is_edge(parts: list[str]) -> bool:
    edges = PROJECT_EDGES if parts[0] == "webprofile" else EDGES
    return len(parts) > 1 and parts[1] in edges


def broken_law(module: str, target: str) -> str | None:
    """Name the law that `module` breaks by importing `target`, or None."""
    m, t = module.split("."), target.split(".")
    if m[0] == "agent" or ".".join(m[:2]) in INSTALLED:
        return _broken_by_program(m, t)
    if t[0] == "agent" and not SHARED_AGENT & set(t[1:2]):
        return "the server imports only agent.protocol and agent.statistics of the agent"
    if t[:2] == ["webprofile", "client"] and t[:3] != SHARED_CLIENT:
        return "the server imports only client.batchfile of the client"
    if t[0] not in (*APPS, "webprofile"):
        return None
    return _broken_by_edges(m, t) or _broken_by_order(m, t)


def _broken_by_program(m: list[str], t: list[str]) -> str | None:
    """Check the agent and the client, which are installed without the server."""
    if m[0] == "agent":
        server = {"django", "channels", "dramatiq", "webprofile", *APPS}
        return "the agent imports nothing of the server" if t[0] in server else None
    part, other = ".".join(m[:2]), ".".join(t[:2])
    allowed = {part, *INSTALLED[part], *sys.stdlib_module_names}
    return None if {other, t[0]} & allowed else "the client imports nothing of the server"


def _broken_by_edges(m: list[str], t: list[str]) -> str | None:
    if not is_edge(t):
        return None
    joins = m[-1] == "urls" or (m[0] == "webprofile" and m[1] in JOINTS)
    if t[0] in APPS and m[0] != t[0] and not joins:
        return "nothing imports the edge of another app"
    return None if is_edge(m) else "a domain module imports no edge"


def _broken_by_order(m: list[str], t: list[str]) -> str | None:
    if is_edge(m):
        return None
    if m[0] == "webprofile":
        return "what all apps share imports no app" if t[0] in APPS else None
    if t[0] in APPS and APPS.index(t[0]) > APPS.index(m[0]):
        return "a domain module imports only apps to its left"
    if t[0] == m[0] and len(m) > 2 and t[1:2] == ["services"]:
        return "a package of an app does not import its services"
    return None


def test_each_import_obeys_the_laws():
    broken = [
        (name_of(path), target, law)
        for path in sources()
        for target in imports_of(path)
        if (law := broken_law(name_of(path), target))
    ]
    assert broken == []


def test_imports_have_no_cycles():
    files = {name_of(path): path for path in sources()}

    def module_of(name: str) -> str:
        while name and name not in files:
            name = name.rpartition(".")[0]
        return name

    graph = {
        name: {
            target for module in imports_of(path) if (target := module_of(module)) not in ("", name)
        }
        for name, path in files.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.parametrize(
    ("module", "target", "is_allowed"),
    [
        ("agent.link.session", "django.conf", False),
        ("agent.link.session", "tasks.models.Task", False),
        ("agent.link.session", "agent.protocol.messages.Hello", True),
        ("tasks.dispatch.gateway", "agent.protocol.messages.Hello", True),
        ("tasks.dispatch.gateway", "agent.execution.runner", False),
        ("profiles.comparison.numbers", "agent.statistics.unpaired.judge_rows", True),
        ("workers.services", "tasks.models.Task", False),
        ("tasks.scheduling.targets", "workers.models.Worker", True),
        ("tasks.lifecycle.reports", "profiles.actors.build_profile", False),
        ("tasks.lifecycle.reports", "webprofile.errors.DomainError", True),
        ("tasks.lifecycle.reports", "webprofile.api.schema", False),
        ("profiles.ingest.build", "profiles.services.build_attempt_profile", False),
        ("profiles.actors", "profiles.services.build_attempt_profile", True),
        ("tasks.views.pages", "profiles.retention.deletion", True),
        ("tasks.views.pages", "profiles.views.result", False),
        ("tasks.urls", "profiles.views.result", True),
        ("webprofile.storage.s3", "tasks.models.Task", False),
        ("webprofile.operations.metrics", "tasks.models.Task", True),
        ("tasks.submission.schema", "webprofile.client.batchfile.values.FORMATS", True),
        ("tasks.submission.schema", "webprofile.client.api.Api", False),
        ("webprofile.client.api", "webprofile.errors.DomainError", False),
        ("webprofile.client.api", "webprofile.client.batchfile.matrix.Cell", True),
        ("webprofile.terminal.progress", "httpx2", False),
    ],
)
def test_broken_law(module, target, is_allowed):
    assert (broken_law(module, target) is None) is is_allowed


def test_agent_and_client_import_no_django():
    programs = ("agent.cli", "webprofile.client.program", "webprofile.client.site")
    code = f"import {', '.join(programs)}, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {name.split(".")[0] for name in done.stdout.split()} & {"django", "channels"} == set()


def test_no_module_imports_a_test_module():
    """Shared helpers are in other modules, so that each test file can be deleted."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [path for name in listed.stdout.split() if (path := ROOT / name).exists()]
    # to parse all files takes seconds
    may_import = re.compile(r"^\s*(?:from|import) [^\n]*(?:\([^)]*)?\btest_", re.MULTILINE)
    importers = {
        (name_of(path), imported)
        for path in paths
        if may_import.search(path.read_text(encoding="utf-8"))
        for imported in imports_of(path)
        if any(part.startswith("test_") for part in imported.split("."))
    }
    assert importers == set()


@pytest.mark.parametrize(
    "path", [path for path in BENCHES if "import megengine" not in path.read_text()], ids=name_of
)
def test_benches_can_be_imported(path):
    """Nothing else uses them, and mypy does not check them."""
    importlib.import_module(name_of(path))


def test_statistics_need_only_numpy_and_the_standard_library():
    """The formulas are the same on the device and on the server, and depend on neither."""
    allowed = {"agent.statistics", "numpy", *sys.stdlib_module_names}
    used = {
        name
        for path in sources()
        if path.is_relative_to(ROOT / "agent" / "statistics")
        for name in imports_of(path)
    }
    assert used
    assert {
        name for name in used if not {name.split(".")[0], ".".join(name.split(".")[:2])} & allowed
    } == set()


def test_only_the_default_storage_uses_boto3():
    users = {
        str(path.relative_to(ROOT))
        for path in sources()
        for name in imports_of(path)
        if name.split(".")[0] in {"boto3", "botocore", "storages"}
    }
    # outages.py needs an exception only
    assert users == {"webprofile/outages.py", "webprofile/storage/s3.py"}


def test_each_state_is_written_by_one_module():
    writing = {"update", "_update", "create", "bulk_create", "bulk_update"}
    writers = set()
    for path in sources():
        text = path.read_text(encoding="utf-8")
        # to parse all sources takes seconds
        calls = ast.walk(ast.parse(text)) if re.search(r"\b(state|outcome)=", text) else ()
        writers |= {
            str(path.relative_to(ROOT))
            for node in calls
            if isinstance(node, ast.Call)
            and ast.unparse(node.func).split(".")[-1] in writing
            and any(keyword.arg in {"state", "outcome"} for keyword in node.keywords)
        }
    # for tasks and imported profiles
    assert writers == {"tasks/lifecycle/transitions.py", "profiles/imports/uploads.py"}


def test_formats_and_analysis_import_neither_django_nor_megengine():
    """They run in processes without settings; presenters of formats do not."""
    folders = [ROOT / "profiles" / name for name in ("analysis", "formats")]
    pure = [
        path
        for path in sources()
        if any(path.is_relative_to(folder) for folder in folders)
        and not path.stem.endswith(("presenter", "messages"))
    ]
    assert pure
    for path in pure:
        assert not {n.split(".")[0] for n in imports_of(path)} & {"django", "megengine", "tasks"}
