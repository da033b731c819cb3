"""Read docker/compose.yaml as Docker Compose does, which replaces variables after parsing."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_VARIABLE = re.compile(r"\$\{(\w+)(?:(:[-+?])((?:[^{}]|\$\{[^}]*\})*))?\}")


def composition(path: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the file with its variables replaced.

    Raises KeyError with the message of the file for a missing required variable.
    """
    document: dict[str, Any] = _filled(yaml.safe_load(path.read_text(encoding="utf-8")), variables)
    return document


def _filled(part: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(part, dict):
        return {key: _filled(value, variables) for key, value in part.items()}
    if isinstance(part, list):
        return [_filled(item, variables) for item in part]
    return filled(part, variables) if isinstance(part, str) else part


def filled(text: str, variables: Mapping[str, str]) -> str:
    """Replace `${NAME}`, `${NAME:-else}`, `${NAME:+then}` and `${NAME:?message}`."""

    def value(match: re.Match[str]) -> str:
        name, how, rest = match.groups()
        variable = variables.get(name, "")
        if how == ":+":
            return filled(rest, variables) if variable else ""
        if not variable and how == ":?":
            raise KeyError(f"{name}: {rest}")
        return variable or (filled(rest, variables) if how == ":-" else "")

    return _VARIABLE.sub(value, text)
