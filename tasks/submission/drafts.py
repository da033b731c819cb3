"""Check a request without creating a task: its errors, the commands that would run, the worker."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from accounts.models import User
from agent.protocol.artifacts import profile_name
from agent.protocol.messages import Script
from agent.protocol.options import (
    OPTIONS,
    Value,
    build_arguments,
    check_options,
    clean_iterations_of,
    clean_passes_of,
    has_dump_pass,
    options_of_passes,
    unavailable,
)
from agent.protocol.pairs import ARM_NAMES
from tasks.models import TaskFile, program_name
from tasks.scheduling.targets import candidates_or_refuse
from tasks.submission.inputs import read_inputs
from tasks.submission.pairing import arm_requests, check_pairing
from tasks.submission.request import InputRequest, TaskRequest
from tasks.submission.schema import find_worker, task_request_of
from tasks.submission.validation import (
    Admitted,
    admit,
    check_fits,
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
from workers.selectors import visible_runtime

PROGRAM = "load_and_run"
MODEL = "model.mge"


@dataclass(frozen=True)
class Command:
    """The command line of one kind of pass.

    kind: clean, profiled or dump; for a script timeline or memory
    processes: number of processes that run it
    arm: letter of the arm of a paired comparison that it is for; empty for other tasks
    """

    kind: str
    processes: int
    line: str
    arm: str = ""


@dataclass
class Draft:
    """The result of checking a request that may be incomplete.

    request: what was checked
    admitted: the validated request; None if it is refused
    refusal: the error that creating the task would raise
    problems: all errors in the given fields, whether or not other fields are missing
    commands: the commands that would run; empty if there are problems
    unavailable: options that the chosen version does not support, with the message why; with a
        target those that no matching device supports
    libraries: operator libraries of the chosen version, or of all matching devices
    """

    request: TaskRequest = field(default_factory=TaskRequest)
    admitted: Admitted | None = None
    refusal: DomainError | None = None
    commands: list[Command] = field(default_factory=list)
    problems: list[DomainError] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    libraries: list[str] = field(default_factory=list)


def draft_of(body: dict[str, Any], user: User) -> Draft:
    """Check a validated `DraftBody` as a whole and each of its parts; files may be missing."""
    draft = Draft()
    problems = draft.problems
    request = draft.request = task_request_of(body, user, problems)
    worker = find_worker(body["worker"])
    if problems:
        draft.refusal = problems[0]
    else:
        try:
            draft.admitted = admit(owner=user, worker=worker, request=request)
        except DomainError as error:
            draft.refusal = error
    runtimes = _runtimes(user, worker, request, problems)
    runtime = next(iter(runtimes), None)
    refusals = [
        refusal_by(check_pairing, request),
        refusal_by(check_priority, user, request.priority),
        refusal_by(check_time_limit, request),
    ]
    is_script = body["script"] is not None
    if is_script and runtime:
        refusals.append(refusal_of_script(runtime))
    problems += filter(None, refusals)
    if is_script:
        if request.script and not problems:
            # `program_name` has a default for a program that is not chosen yet
            draft.commands = script_commands_of(request.script, program_name(request.model_name))
        return draft
    draft.unavailable = _unavailable(runtimes)
    draft.libraries = sorted({name for option in runtimes for name in option.libraries})
    for number, arm in enumerate(arm_requests(request)):
        found = next(iter(_runtimes(user, worker, arm, problems)), None) if number else runtime
        _check_arm(draft, arm, found, number, ARM_NAMES[number] if request.pairing else "")
    return draft


def _check_arm(
    draft: Draft, request: TaskRequest, runtime: Runtime | None, number: int, letter: str
) -> None:
    """Add the commands and problems of an arm to the draft; after a problem, there are no commands.

    A task without pairing is one arm.
    """
    own = list[DomainError]()
    inputs = _inputs(request, runtime, own)
    own += option_refusals(request, runtime.capabilities if runtime else None)
    # an arm has the options and inputs of the baseline, unless it has its own
    known = {(error.code, error.field) for error in draft.problems}
    for error in own:
        if (error.code, error.field) not in known:
            error.field = f"pairing.arms.{number - 1}.{error.field}" if number else error.field
            draft.problems.append(error)
    if draft.problems:
        draft.commands = []
        return
    options = check_options(request.options, files=request.option_files, profiled=False)
    commands = commands_of(request, options, inputs)
    draft.commands += [replace(command, arm=letter) for command in commands]


def _runtimes(
    user: User, worker: Worker | None, request: TaskRequest, problems: list[DomainError]
) -> list[Runtime]:
    """Return the chosen runtime if the user may use it, or those that match a target.

    Of the latter, the one on which the task would run is first.
    """
    if request.target is None:
        runtime = visible_runtime(user, worker.pk, request.runtime_version) if worker else None
        return [runtime] if runtime else []
    try:
        options = candidates_or_refuse(request.target, user=user)
    except DomainError as error:
        problems.append(error)
        return []
    return preferred_first(options, request)


def preferred_first(options: Sequence[Runtime], request: TaskRequest) -> list[Runtime]:
    """Return candidates of a target, the one on which the task would run first."""
    fitting = (option for option in options if refusal_by(check_fits, option, request) is None)
    chosen = next(fitting, options[0])
    return [chosen, *(option for option in options if option is not chosen)]


def _inputs(
    request: TaskRequest, runtime: Runtime | None, problems: list[DomainError]
) -> list[InputRequest]:
    """Return the valid inputs; append the errors of the others to `problems`."""
    fed = set(request.fed)
    valid = list[InputRequest]()
    for number, variable in enumerate(request.inputs):
        try:
            valid += read_inputs([variable], named=fed, kind=runtime.kind if runtime else "wheel")
        except DomainError as error:
            error.field = f"inputs.{number}"
            problems.append(error)
        fed.add(variable.name)
    return valid


def _unavailable(runtimes: Sequence[Runtime]) -> dict[str, str]:
    """Return the options that none of the runtimes supports, with the message why for the first."""
    capabilities = [runtime.capabilities for runtime in runtimes]
    codes = {
        name: [unavailable(option, own) for own in capabilities]
        for name, option in OPTIONS.items()
        if option.kind != "agent"
    }
    return {
        name: word(DomainError(f"option_{each[0]}", option=name, limit=""))
        for name, each in codes.items()
        if each and all(each)
    }


def commands_of(
    request: TaskRequest, options: Mapping[str, Value], inputs: Iterable[InputRequest]
) -> list[Command]:
    """Return one command for each kind of pass, in the order in which they run.

    The actual commands may differ: the agent may repeat a clean pass with more iterations, and the
    names of input files shift after a JSON file with several inputs.

    options: validated options
    """
    plan = request.plan
    fed = _fed(request, inputs)
    shared = options_of_passes(options, plan)
    commands = []
    if plan.clean:
        times = clean_iterations_of(options, plan)
        arguments = build_arguments(MODEL, fed, {**shared, "iter": times})
        commands.append(Command("clean", clean_passes_of(options, plan), _line(arguments)))
    if plan.profiled:
        arguments = build_arguments(MODEL, fed, shared, profile_name(1), first=not plan.clean)
        commands.append(Command("profiled", plan.profiled, _line(arguments)))
    if has_dump_pass(options):
        arguments = build_arguments(MODEL, fed, {**shared, "iter": 1}, first=False, dumps=True)
        commands.append(Command("dump", 1, _line(arguments)))
    return commands


def script_commands_of(script: Script, name: str) -> list[Command]:
    """Return one command for each recorded format of a script.

    name: file name of the program
    """
    program = f"{name}/{script.entry}" if script.entry else name
    line = shlex.join(["python", program, *script.arguments])
    kinds = {format_: kind for kind, format_ in FORMATS.items()}
    return [Command(kinds[format_], 1, line) for format_ in script.formats]


def _line(arguments: list[str]) -> str:
    return shlex.join([PROGRAM, *arguments])


def _fed(request: TaskRequest, inputs: Iterable[InputRequest]) -> dict[str, str]:
    """Return the file on the device for each input variable, as `agent.inputs.prepare` names it.

    The variables in a JSON file are not known here, so the file stands for them.
    """
    fed = {}
    data = [file for file in request.files if file.kind == TaskFile.Kind.DATA]
    for position, file in enumerate(data):
        if file.names_its_inputs:
            fed[PurePosixPath(file.name.lower()).stem or "data"] = f"input-{position}.json"
        else:
            fed[file.input or "data"] = f"input_{position}.npy"
    for number, variable in enumerate(inputs, len(data)):
        fed[variable.name] = f"input_{number}.npy"
    return fed
