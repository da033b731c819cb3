"""Check a request without creating a task: its problems, its commands, and its admission."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from accounts.models import User
from agent.protocol import Script
from agent.protocol.artifacts import profile_name
from agent.protocol.options import (
    OPTIONS,
    Value,
    build_arguments,
    check_options,
    clean_iterations_of,
    has_dump_pass,
    options_of_passes,
    unavailable,
)
from agent.protocol.plan import DEFAULT, Plan
from tasks.kinds import program_name
from tasks.models import DATA_SUFFIXES, TaskFile
from tasks.queue.targets import Candidate
from tasks.submission.copies import announced, completed
from tasks.submission.form import named_runtime
from tasks.submission.inputs import read_inputs
from tasks.submission.plans import read_plan
from tasks.submission.request import FileRequest, InputRequest
from tasks.submission.schema import input_asked, request_asked, target_asked, worker_asked
from tasks.submission.scripts import read_script
from tasks.submission.validation import (
    Admitted,
    admit,
    candidates_or_refuse,
    check_priority,
    check_time_limit,
    option_refusals,
    refusal_of_script,
)
from webprofile.batchfile.calls import FORMATS
from webprofile.errors import DomainError
from webprofile.wording import word
from workers.models import Runtime

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


@dataclass
class Draft:
    """What can be told of a request that may be unfinished.

    `problems` are all that is wrong, each at its field; `commands` what would run, empty if
    anything is wrong. `unavailable` maps options that the chosen version cannot do to why, in
    words; `libraries` are those of operators that it has.
    """

    commands: list[Command] = field(default_factory=list)
    problems: list[DomainError] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    libraries: list[str] = field(default_factory=list)


def admission_of(body: dict[str, Any], reader: User) -> Admitted:
    """The request of a validated `DraftBody` as a task would be made of it. Raises DomainError."""
    asked = request_asked(body, reader)
    return admit(owner=reader, worker=worker_asked(body["worker"]), request=asked)


def draft_of(body: dict[str, Any], reader: User) -> Draft:
    """Look at each part of a validated `DraftBody`; files may be missing."""
    draft = Draft()
    runtime = _runtime(reader, body, draft.problems)
    files = tuple(_file(file, reader, draft.problems) for file in body["files"])
    try:
        check_priority(reader, body["priority"])
    except DomainError as error:
        draft.problems.append(error)
    if body["script"] is not None:
        draft.commands = _script_commands(body, files, runtime, draft.problems)
        return draft
    if runtime:
        draft.unavailable, draft.libraries = _unavailable(runtime), list(runtime.libraries)
    plan = _plan(body, draft.problems)
    inputs = _inputs(body["inputs"], files, runtime, draft.problems)
    options = frozenset(file.option for file in files if file.kind == "option")
    capabilities = runtime.capabilities if runtime else None
    draft.problems += option_refusals(
        body["options"], runtime=capabilities, files=options, plan=plan
    )
    if not draft.problems:
        chosen = check_options(body["options"], files=options, profiled=False)
        draft.commands = commands_of(chosen, plan=plan, files=files, inputs=inputs)
    return draft


def _file(file: Mapping[str, Any], reader: User, problems: list[DomainError]) -> FileRequest:
    """A file as a task would have it; as it is announced if it is one that cannot be taken over."""
    try:
        return completed(file, reader)
    except DomainError as error:
        problems.append(error)
        return announced(file)


def _script_commands(
    body: Mapping[str, Any],
    files: Iterable[FileRequest],
    runtime: Runtime | None,
    problems: list[DomainError],
) -> list[Command]:
    """What a script becomes; what is wrong with it is added to `problems`."""
    try:
        script = read_script(body["script"])
    except DomainError as error:
        problems.append(error)
        return []
    refusal = refusal_of_script(Candidate(runtime.worker, runtime)) if runtime else None
    if refusal is not None:
        problems.append(refusal)
    # as on the device, until a program is chosen
    program = program_name(next((file.name for file in files if file.kind == "model"), ""))
    return script_commands_of(script, program) if script and not problems else []


def _runtime(reader: User, body: dict[str, Any], problems: list[DomainError]) -> Runtime | None:
    """The runtime that is chosen, or the best for a target, if the reader may see it."""
    try:
        target = target_asked(body)
        if target is not None:
            return candidates_or_refuse(target, user=reader)[0].runtime
    except DomainError as error:
        problems.append(error)
        return None
    worker = worker_asked(body["worker"])
    return named_runtime(reader, worker.pk, body["runtime_version"]) if worker else None


def _plan(body: Mapping[str, Any], problems: list[DomainError]) -> Plan:
    """What is measured; what is wrong with it or its time limit is added to `problems`."""
    plan = DEFAULT
    try:
        plan = read_plan(body["plan"])
    except DomainError as error:
        problems.append(error)
    try:
        check_time_limit(body["time_limit_s"], plan=plan)
    except DomainError as error:
        problems.append(error)
    return plan


def _inputs(
    given: Iterable[dict[str, Any]],
    files: tuple[FileRequest, ...],
    runtime: Runtime | None,
    problems: list[DomainError],
) -> list[InputRequest]:
    """The inputs that are right; what is wrong with the others is added to `problems`."""
    named = {file.input for file in files if file.kind == "data" and file.input}
    kind = runtime.kind if runtime else "wheel"
    found = list[InputRequest]()
    for number, each in enumerate(map(input_asked, given)):
        try:
            found += read_inputs([each], named=named, kind=kind)
        except DomainError as error:
            error.field = f"inputs.{number}"
            problems.append(error)
        named.add(each.name)
    return found


def _unavailable(runtime: Runtime) -> dict[str, str]:
    """Why options cannot be chosen with this runtime, in words."""
    able = runtime.capabilities
    found = {name: unavailable(option, able) for name, option in OPTIONS.items()}
    return {
        name: word(DomainError(f"option_{code}", option=name, limit=""))
        for name, code in found.items()
        if code and code != "never"
    }


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
