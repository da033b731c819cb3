"""What `agent runtime check` found, kept beside the configuration for the agent's next start."""

import json
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def checks_path(config_path: Path) -> Path:
    """Where checks are recorded: beside the configuration, as `<name>.runtimes.json`."""
    return config_path.resolve().with_suffix(".runtimes.json")


def read_checks(config_path: Path) -> dict[str, Record]:
    """The record of each runtime by version; none of a file that is missing or broken."""
    try:
        read = json.loads(checks_path(config_path).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(read, dict):
        return {}
    return {version: check for version, check in read.items() if isinstance(check, dict)}


def roofs_in(check: Record, path: str) -> list[Record]:
    """The roofs that a check measured, if it was of the runtime at this path."""
    roofs = check.get("roofs")
    if check.get("path") != path or not isinstance(roofs, list):
        return []
    return [each for each in roofs if isinstance(each, dict)]
