"""Which way imports go, read from the source: the rules of ARCHITECTURE.md as a test."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: an app may import what lies to its left
APPS = ("accounts", "workers", "tasks", "profiles")
#: modules that connect the core with the outside: they may import every core, nobody imports them
EDGE = {
    "actors", "admin", "apps", "consumers", "forms", "gateway", "listing",
    "management", "receivers", "rest", "tests", "urls", "views",
}  # fmt: skip
#: and those within a core package that connect it with pages and the API
EDGE_MODULES = {
    f"tasks.submission.{name}" for name in ("batches", "copies", "drafts", "form", "schema")
}
#: parts of the project package that a core may import
LEAVES = (
    "webprofile.background", "webprofile.batchfile", "webprofile.errors", "webprofile.integers",
    "webprofile.layers", "webprofile.meters", "webprofile.sentences", "webprofile.traces",
)  # fmt: skip
#: and those for the core of one app alone
LEAVES_OF = {"profiles": ("webprofile.storage",)}
#: what `pip install .` installs; each part imports those named here and itself, and no more
INSTALLED = {
    "webprofile.client": {"webprofile.batchfile", "webprofile.terminal", "httpx2"},
    "webprofile.batchfile": {"yaml"},
    "webprofile.terminal": {"tabulate", "tqdm"},
}


def imports_of(path: Path, *, inner: bool = False) -> Iterator[str]:
    """Names imported when the module is loaded; an import inside a function is one on purpose.

    inner: with those inside functions
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if inner else tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_edge(parts: list[str]) -> bool:
    return not EDGE.isdisjoint(parts[1:2]) or ".".join(parts[:3]) in EDGE_MODULES


def broken_rule(module: str, target: str) -> str | None:
    """Name the rule that `module` breaks by importing `target`, or None."""
    m, t = module.split("."), target.split(".")
    part, other = ".".join(m[:2]), ".".join(t[:2])
    if part in INSTALLED:
        allowed = {part, *INSTALLED[part], *sys.stdlib_module_names}
        return None if {other, t[0]} & allowed else "the client imports nothing of the server"
    if other == "webprofile.client":
        return "nobody imports the client"
    if m[0] == "agent":
        server = {"django", "channels", "dramatiq", "webprofile", *APPS}
        return "the agent imports no server code" if t[0] in server else None
    if t[:1] == ["agent"] and t[1:2] != ["protocol"]:
        return "the server imports only agent.protocol"
    if m[0] not in APPS or is_edge(m):
        return None
    if t[0] == "webprofile" and other not in (*LEAVES, *LEAVES_OF.get(m[0], ())):
        return "a core imports nothing of the project but its leaves"
    if t[0] in APPS:
        if is_edge(t):
            return "a core imports no edge"
        if APPS.index(t[0]) > APPS.index(m[0]):
            return "a core imports only apps to its left"
    return None


def sources() -> Iterator[Path]:
    for package in ("agent", "webprofile", *APPS):
        for path in (ROOT / package).rglob("*.py"):
            if "tests" not in path.parts and path.name != "conftest.py":
                yield path


def test_every_import_goes_the_right_way():
    broken = []
    for path in sources():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        broken += [(module, t, rule) for t in imports_of(path) if (rule := broken_rule(module, t))]
    assert broken == []


def test_the_server_imports_of_the_agent_its_protocol_alone():
    """Inside functions, too: there is no exception."""
    found = {
        (str(path.relative_to(ROOT)), target)
        for path in sources()
        if path.relative_to(ROOT).parts[0] != "agent"
        for target in imports_of(path, inner=True)
        if f"{target}.".startswith("agent.") and not f"{target}.".startswith("agent.protocol.")
    }
    assert found == set()


@pytest.mark.parametrize(
    ("module", "target", "allowed"),
    [
        ("agent.session", "django.conf", False),
        ("agent.session", "tasks.models.Task", False),
        ("agent.session", "agent.protocol.Hello", True),
        ("workers.consumers", "agent.protocol.Hello", True),
        ("tasks.submission.contents", "agent.protocol.inputs.npy.parse_header", True),
        ("tasks.submission.contents", "agent.inputs.prepare.prepare_inputs", False),
        ("workers.consumers", "agent.runner.run", False),
        ("workers.gateway", "tasks.reports.report_take", True),
        ("workers.services", "tasks.models.Task", False),
        ("tasks.queue.scheduling", "workers.models.Worker", True),
        ("tasks.services", "profiles.actors.build_profile", False),
        ("tasks.services", "webprofile.wording.word", False),
        ("tasks.services", "webprofile.errors.DomainError", True),
        ("profiles.services", "tasks.services.task_complete", True),
        ("tasks.services", "profiles.parts", False),
        ("tasks.services", "webprofile.storage.storage", False),
        ("tasks.views", "webprofile.storage.storage", True),
        ("profiles.services", "webprofile.storage.storage", True),
        ("tasks.submission.schema", "webprofile.rest.fields.Text", True),
        ("tasks.submission.validation", "webprofile.rest.fields.Text", False),
        ("tasks.services", "tasks.submission.schema.TaskBody", False),
        ("tasks.services", "tasks.submission.validation.admit", True),
        ("tasks.submission.batches", "webprofile.batchfile.matrix.Cell", True),
        ("tasks.submission.batches", "webprofile.client.api.Api", False),
        ("tasks.management.commands.submit", "webprofile.terminal.progress.Progress", True),
        ("tasks.management.commands.submit", "webprofile.client.api.Api", False),
        ("webprofile.client.api", "httpx2", True),
        ("webprofile.client.api", "webprofile.client.errors.ClientError", True),
        ("webprofile.client.api", "webprofile.errors.DomainError", False),
        ("webprofile.client.api", "webprofile.batchfile.matrix.Cell", True),
        ("webprofile.client.api", "django.conf", False),
        ("webprofile.batchfile.matrix", "tasks.models.Task", False),
        ("webprofile.batchfile.matrix", "django.conf", False),
        ("webprofile.batchfile.matrix", "webprofile.client.api.Api", False),
        ("webprofile.terminal.progress", "httpx2", False),
    ],
)
def test_the_rules_themselves(module, target, allowed):
    assert (broken_rule(module, target) is None) is allowed


@pytest.mark.parametrize("program", ["agent.cli", "webprofile.client.program"])
def test_agent_and_client_start_without_django(program):
    code = (
        f"import {program}, sys;"
        "sys.exit(any(m.split('.')[0] in ('django', 'channels') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_no_module_imports_a_test_module():
    """What tests share lies in make.py and its neighbours, so that any test file can be deleted."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    importers = {
        (name, imported)
        for name in listed.stdout.split()
        if (path := ROOT / name).exists()
        for imported in imports_of(path)
        if any(part.startswith("test_") for part in imported.split("."))
    }
    assert importers == set()


def test_only_the_default_storage_uses_boto3():
    users = {
        str(path.relative_to(ROOT))
        for path in sources()
        for name in imports_of(path)
        if name.split(".")[0] in {"boto3", "botocore", "storages"}
    }
    assert users == {"webprofile/storage/s3.py"}


def test_each_state_has_one_module_that_writes_it():
    writing = {"update", "_update", "create", "bulk_create", "bulk_update"}
    writers = {
        str(path.relative_to(ROOT))
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] in writing
        and any(keyword.arg in {"state", "outcome"} for keyword in node.keywords)
        and path.parts[-2] != "migrations"
    }
    # of tasks, and of profiles that users open
    assert writers == {"tasks/transitions.py", "profiles/opened/uploads.py"}


def test_the_pure_parts_of_profiles_import_neither_django_nor_megengine():
    pure = [p for p in sources() if {"parsers", "analysis", "exporting"} & set(p.parts)]
    assert pure
    for path in pure:
        assert not {n.split(".")[0] for n in imports_of(path)} & {"django", "megengine", "tasks"}
