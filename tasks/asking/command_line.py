"""The command lines that a task will become on its device, as far as they can be told before."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent.protocol import Script
from agent.protocol.artifacts import profile_name
from agent.protocol.options import (
    Value,
    build_arguments,
    clean_iterations_of,
    has_dump_pass,
    options_of_passes,
)
from agent.protocol.plan import Plan
from tasks.asking.request import FileRequest, InputRequest
from tasks.models import DATA_SUFFIXES, TaskFile
from webprofile.batchfile.calls import FORMATS

PROGRAM = "load_and_run"
MODEL = "model.mge"


@dataclass(frozen=True)
class Command:
    """A kind of pass: clean, profiled or dump; of a script timeline or memory.

    `processes`: how many there are of it.
    """

    kind: str
    processes: int
    line: str


def commands_of(
    options: Mapping[str, Value],
    *,
    plan: Plan,
    files: Iterable[FileRequest] = (),
    inputs: Iterable[InputRequest] = (),
) -> list[Command]:
    """One command for each kind of pass, in the order in which they run; options were checked.

    A clean pass may be made anew with more iterations, and names of files that the agent writes
    for numbers and random values may differ.
    """
    fed = _fed(files, inputs)
    shared = options_of_passes(options, plan)
    found = []
    if plan.clean:
        times = clean_iterations_of(options, plan)
        arguments = build_arguments(MODEL, fed, {**shared, "iter": times})
        found.append(Command("clean", 1, _line(arguments)))
    if plan.profiled:
        arguments = build_arguments(MODEL, fed, shared, profile_name(1), first=not plan.clean)
        found.append(Command("profiled", plan.profiled, _line(arguments)))
    if has_dump_pass(options):
        arguments = build_arguments(MODEL, fed, {**shared, "iter": 1}, first=False, dumps=True)
        found.append(Command("dump", 1, _line(arguments)))
    return found


def script_commands_of(script: Script, name: str) -> list[Command]:
    """One command for each format, as its user would type them: `name` is the program's file."""
    program = f"{name}/{script.entry}" if script.entry else name
    line = shlex.join(["python", program, *script.arguments])
    kinds = {written: kind for kind, written in FORMATS.items()}
    return [Command(kinds[each], 1, line) for each in script.formats]


def _line(arguments: list[str]) -> str:
    return shlex.join([PROGRAM, *arguments])


def _fed(files: Iterable[FileRequest], inputs: Iterable[InputRequest]) -> dict[str, str]:
    """Variable -> file on the device. What JSON names is not known here: its own name stands."""
    fed = {}
    data = [file for file in files if file.kind == TaskFile.Kind.DATA]
    for position, file in enumerate(data):
        path = PurePosixPath(file.name.lower())
        suffix = path.suffix if path.suffix in DATA_SUFFIXES else ".npy"
        name = path.stem if file.names_its_inputs else file.input
        fed[name or "data"] = f"input-{position}{suffix}"
    for number, given in enumerate(inputs, len(data)):
        fed[given.name] = f"input_{number}.npy"
    return fed
