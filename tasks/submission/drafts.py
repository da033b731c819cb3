"""Check a request without creating a task: its problems, what would run, and where."""

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
from tasks.kinds import program_name
from tasks.models import DATA_SUFFIXES, TaskFile
from tasks.scheduling.targets import Candidate
from tasks.submission.inputs import read_inputs
from tasks.submission.request import InputRequest, TaskRequest
from tasks.submission.schema import request_asked, worker_asked
from tasks.submission.validation import (
    Admitted,
    admit,
    candidates_or_refuse,
    check_priority,
    check_time_limit,
    option_refusals,
    refusal_by,
    refusal_of_script,
)
from webprofile.client.batchfile.values import FORMATS
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from workers.models import Runtime, Worker
from workers.selectors import named_runtime

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

    `admitted` is what a task would be made of, else `refusal` says why none would. `problems` are
    all that is wrong with what is written, each at its field; `commands` what would run, empty if
    anything is wrong. `unavailable` maps options that the chosen version cannot do to why, in
    words; `libraries` are those of operators that it has.
    """

    admitted: Admitted | None = None
    refusal: DomainError | None = None
    commands: list[Command] = field(default_factory=list)
    problems: list[DomainError] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    libraries: list[str] = field(default_factory=list)


def draft_of(body: dict[str, Any], reader: User) -> Draft:
    """Judge a validated `DraftBody`, and look at each of its parts; files may be missing."""
    draft = Draft()
    problems = draft.problems
    request = request_asked(body, reader, problems)
    worker = worker_asked(body["worker"])
    if problems:
        draft.refusal = problems[0]
    else:
        try:
            draft.admitted = admit(owner=reader, worker=worker, request=request)
        except DomainError as error:
            draft.refusal = error
    runtime = _runtime(reader, worker, request, problems)
    refusals = [
        refusal_by(check_priority, reader, request.priority),
        refusal_by(check_time_limit, request),
    ]
    is_script = body["script"] is not None
    if is_script and runtime:
        refusals.append(refusal_of_script(Candidate(runtime.worker, runtime)))
    problems += filter(None, refusals)
    if is_script:
        if request.script and not problems:
            # named as on the device, until a program is chosen
            draft.commands = script_commands_of(request.script, program_name(request.model_name))
        return draft
    if runtime:
        draft.unavailable, draft.libraries = _unavailable(runtime), list(runtime.libraries)
    inputs = _inputs(request, runtime, problems)
    problems += option_refusals(
        request.options,
        runtime=runtime.capabilities if runtime else None,
        files=request.option_files,
        plan=request.plan,
    )
    if not problems:
        options = check_options(request.options, files=request.option_files, profiled=False)
        draft.commands = commands_of(request, options, inputs)
    return draft


def _runtime(
    reader: User, worker: Worker | None, request: TaskRequest, problems: list[DomainError]
) -> Runtime | None:
    """The runtime that is chosen, or the best for a target, if the reader may see it."""
    if request.target is None:
        return named_runtime(reader, worker.pk, request.runtime_version) if worker else None
    try:
        return candidates_or_refuse(request.target, user=reader)[0].runtime
    except DomainError as error:
        problems.append(error)
        return None


def _inputs(
    request: TaskRequest, runtime: Runtime | None, problems: list[DomainError]
) -> list[InputRequest]:
    """The inputs that are right; what is wrong with the others is added to `problems`."""
    fed = set(request.fed)
    found = list[InputRequest]()
    for number, given in enumerate(request.inputs):
        try:
            found += read_inputs([given], named=fed, kind=runtime.kind if runtime else "wheel")
        except DomainError as error:
            error.field = f"inputs.{number}"
            problems.append(error)
        fed.add(given.name)
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
    request: TaskRequest, options: Mapping[str, Value], inputs: Iterable[InputRequest]
) -> list[Command]:
    """One command for each kind of pass, in the order in which they run; options were checked.

    A clean pass may be made anew with more iterations, and names of files that the agent writes
    for numbers and random values may differ.
    """
    plan = request.plan
    fed = _fed(request, inputs)
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


def _fed(request: TaskRequest, inputs: Iterable[InputRequest]) -> dict[str, str]:
    """Variable -> file on the device. What JSON names is not known here: its own name stands."""
    fed = {}
    data = [file for file in request.files if file.kind == TaskFile.Kind.DATA]
    for position, file in enumerate(data):
        path = PurePosixPath(file.name.lower())
        suffix = path.suffix if path.suffix in DATA_SUFFIXES else ".npy"
        name = path.stem if file.names_its_inputs else file.input
        fed[name or "data"] = f"input-{position}{suffix}"
    for number, given in enumerate(inputs, len(data)):
        fed[given.name] = f"input_{number}.npy"
    return fed
