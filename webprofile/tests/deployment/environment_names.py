"""Find the environment variables that the settings read, by parsing their source."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
#: files that read environment variables for the settings
SOURCES = "webprofile/settings/*.py"
_READERS = {"str", "int", "float", "bool", "list", "db", "email", "url", "json", "get_value"}


def read_by_settings() -> set[str]:
    """Return the names read by `env.KIND("NAME")`; for secrets also `NAME_FILE`."""
    plain, secrets = set(), set()
    for call in _calls():
        function, name = call.func, _first(call)
        if not name:
            continue
        if isinstance(function, ast.Name) and function.id in {"secret", "secrets", "secret_url"}:
            secrets.add(name)
        elif isinstance(function, ast.Attribute) and function.attr in _READERS:
            plain.add(name)
    return plain | secrets | {f"{name}_FILE" for name in secrets}


def _calls() -> Iterator[ast.Call]:
    for path in ROOT.glob(SOURCES):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield node


def _first(call: ast.Call) -> str:
    """Return the first argument of a call if it is an upper-case literal, else ""."""
    if call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value:
        name = str(call.args[0].value)
        return name if name.isupper() else ""
    return ""
