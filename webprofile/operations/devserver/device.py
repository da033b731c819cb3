"""Configure this machine as the first device of the site: MegEngine and the agent."""

import json
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webprofile.operations.devserver.layout import Layout, write_private

WORKER = "local"
VERSION = "1.13.0"
_HEAD = (
    "# Written by webprofile.operations.devserver, which overwrites `server` and the runtime of\n"
    f"# version {VERSION} at every start. You can change all other values. Changes of [scripts]\n"
    "# take effect while the agent runs, all others when the site is restarted.\n\n"
)


@dataclass(frozen=True)
class MegEngineRuntime:
    """Path of the Python interpreter with MegEngine, or the reason why there is none."""

    python: str = ""
    problem: str = ""

    def as_entry(self) -> dict[str, str]:
        entry = {"version": VERSION, "kind": "wheel", "path": self.python}
        return {**entry, "problem": self.problem} if self.problem else entry


def enrol_command(layout: Layout, address: str, code: str) -> list[str]:
    config = layout.agent_config
    command = [sys.executable, "-m", "agent", "enrol", "--server", address, "--code", code]
    # --force: an existing configuration belongs to a database that was deleted
    return [*command, "--config", str(config), "--spool", str(config.parent / "spool"), "--force"]


def update_config(file: Path, address: str, runtime: MegEngineRuntime) -> None:
    """Set the server's address, which may change at each start, and this machine's runtime."""
    config = tomllib.loads(file.read_text(encoding="utf-8"))
    config["server"] = address
    others = [entry for entry in config.get("runtime", []) if entry.get("version") != VERSION]
    config["runtime"] = [runtime.as_entry(), *others]
    # hides the site's database, keys and sockets from the sandbox of tasks
    home = file.resolve().parents[1]
    config["hide"] = [] if runtime.python.startswith(f"{home}/") else [str(home)]
    write_private(file, _HEAD + _as_toml(config))


def _as_toml(config: dict[str, Any]) -> str:
    """Write TOML of the kind that the agent's configuration needs: one level of tables."""
    single = {key: value for key, value in config.items() if isinstance(value, dict)}
    several = {
        key: value
        for key, value in config.items()
        if isinstance(value, list) and value and isinstance(value[0], dict)
    }
    plain = {key: value for key, value in config.items() if key not in {**single, **several}}
    lines = _lines(plain)
    for key, table in single.items():
        lines += ["", f"[{key}]", *_lines(table)]
    for key, rows in several.items():
        for row in rows:
            lines += ["", f"[[{key}]]", *_lines(row)]
    return "\n".join(lines) + "\n"


def _lines(table: dict[str, Any]) -> list[str]:
    # a JSON string, number, boolean or list of strings is also a TOML one
    return [f"{key} = {json.dumps(value)}" for key, value in table.items()]
