"""The runtimes of this device: what the configuration names and what is really there."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.config import RuntimeEntry
from agent.protocol import RuntimeInfo
from agent.runtimes import RuntimeDescription, command_for, describe_binary, describe_wheel


@dataclass(frozen=True)
class Runtime:
    """A runtime as told to the server, and the command that load_and_run's arguments follow."""

    info: RuntimeInfo
    command: tuple[str, ...]


def take_inventory(entries: Iterable[RuntimeEntry]) -> dict[str, Runtime]:
    """Look at each configured runtime, by version. Starts interpreters: takes seconds."""
    return {entry.version: _look_at(entry) for entry in entries}


def _look_at(entry: RuntimeEntry) -> Runtime:
    if entry.problem or not entry.path:
        return _unusable(entry, entry.problem)
    describe = describe_wheel if entry.kind == "wheel" else describe_binary
    found = describe(entry.path)
    problem = found.problem or _mismatch(entry, found)
    if problem:
        return _unusable(entry, problem)
    info = RuntimeInfo(version=entry.version, kind=entry.kind, python=found.python[:40])
    return Runtime(info, tuple(command_for(entry.kind, entry.path)))


def _mismatch(entry: RuntimeEntry, found: RuntimeDescription) -> str:
    """A figure measured with another version than the reader is told would be worse than none."""
    if not found.version or found.version == entry.version:
        return ""
    return f"{entry.path} is MegEngine {found.version}: correct `version` in the configuration"


def _unusable(entry: RuntimeEntry, problem: str) -> Runtime:
    info = RuntimeInfo(version=entry.version, kind=entry.kind, problem=problem[:500])
    return Runtime(info, ())
