"""MegEngine versions on this machine: found, installed, described. Standard library only.

A runtime is a command prefix (`command_for`), either of a `load_and_run` binary or of an
interpreter with the MegEngine wheel. The functions here are the ones others may use.
"""

from agent.runtimes.command import Style, command_for, legacy_arguments
from agent.runtimes.describe import RuntimeDescription, describe_binary, describe_wheel
from agent.runtimes.find import Python, find_pythons
from agent.runtimes.install import (
    VERSION,
    InstallFailed,
    NoPython,
    NoWheel,
    RuntimeProblem,
    ensure_wheel_runtime,
    find_wheels,
    installed_wheel,
)

__all__ = [
    "VERSION",
    "InstallFailed",
    "NoPython",
    "NoWheel",
    "Python",
    "RuntimeDescription",
    "RuntimeProblem",
    "Style",
    "command_for",
    "describe_binary",
    "describe_wheel",
    "ensure_wheel_runtime",
    "find_pythons",
    "find_wheels",
    "installed_wheel",
    "legacy_arguments",
]
