"""What the form for a new task shows beside itself while it is filled in: JSON in, JSON out."""

from collections.abc import Iterator
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, JsonResponse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from accounts.models import User
from accounts.selectors import reader_of
from agent.protocol.options import OPTIONS, check_options, unavailable
from agent.protocol.plan import DEFAULT, Plan
from tasks.api import named_runtime
from tasks.asking.admission import (
    candidates_or_refuse,
    check_priority,
    check_seed,
    check_time_limit,
    option_refusals,
    refusal_of_script,
)
from tasks.asking.command_line import Command, commands_of, script_commands_of
from tasks.asking.inputs import read_inputs
from tasks.asking.measuring import read_plan
from tasks.asking.request import FileRequest, InputRequest
from tasks.asking.scripts import read_script
from tasks.forms import DraftBody, read_draft_body
from tasks.kinds import program_name
from tasks.queue.targets import Candidate
from webprofile.errors import DomainError
from webprofile.wording import word
from workers.models import Runtime

PASS_KINDS = {
    "clean": _("clean pass: the time of an iteration"),
    "profiled": _("profiled pass: the time of each operator"),
    "dump": _("pass that writes dumps"),
    "timeline": _("run that records the timeline"),
    "memory": _("run that records the memory"),
}


@login_required
@require_POST
@never_cache
def command(request: HttpRequest) -> JsonResponse:
    """What the form shows beside itself: command lines, what is wrong, what cannot be chosen."""
    draft = read_draft_body(request.body)
    problems = list[DomainError]()
    runtime = _runtime(reader_of(request), draft, problems)
    files = tuple(file.as_request() for file in draft.files)
    if draft.script is not None:
        _look_at_numbers(reader_of(request), draft, problems)
        return _answer(_script_commands(draft, files, runtime, problems), problems)
    plan = _plan(draft, problems)
    _look_at_numbers(reader_of(request), draft, problems)
    try:
        check_time_limit(draft.time_limit_s, plan=plan)
    except DomainError as error:
        problems.append(error)
    inputs = list(_inputs(draft, files, runtime, problems))
    options = frozenset(file.option for file in files if file.kind == "option")
    capabilities = runtime.capabilities if runtime else None
    problems += option_refusals(draft.options, runtime=capabilities, files=options, plan=plan)
    commands = []
    if not problems:
        chosen = check_options(draft.options, files=options, profiled=False)
        commands = commands_of(chosen, plan=plan, files=files, inputs=inputs)
    return _answer(commands, problems, runtime)


def _script_commands(
    draft: DraftBody,
    files: tuple[FileRequest, ...],
    runtime: Runtime | None,
    problems: list[DomainError],
) -> list[Command]:
    """What a script becomes; what is wrong with it is added to `problems`."""
    try:
        script = read_script(draft.script)
    except DomainError as error:
        problems.append(error)
        return []
    refusal = refusal_of_script(Candidate(runtime.worker, runtime)) if runtime else None
    if refusal is not None:
        problems.append(refusal)
    # as on the device, until a program is chosen
    program = program_name(next((file.name for file in files if file.kind == "model"), ""))
    return script_commands_of(script, program) if script and not problems else []


def _answer(
    commands: list[Command], problems: list[DomainError], runtime: Runtime | None = None
) -> JsonResponse:
    answer = {
        "commands": [
            {
                "kind": each.kind,
                "label": str(PASS_KINDS[each.kind]),
                "processes": each.processes,
                "line": each.line,
            }
            for each in commands
        ],
        "problems": [_as_problem(problem) for problem in problems],
        "unavailable": _unavailable(runtime) if runtime else {},
        "libraries": list(runtime.libraries) if runtime else [],
    }
    return JsonResponse(answer)


def _runtime(reader: User, draft: DraftBody, problems: list[DomainError]) -> Runtime | None:
    """The runtime that is chosen, or the best for a target, if the reader may see it."""
    try:
        target = draft.target_asked()
        if target is not None:
            return candidates_or_refuse(target, user=reader)[0].runtime
    except DomainError as error:
        problems.append(error)
        return None
    return named_runtime(reader, draft.worker, draft.runtime)


def _plan(draft: DraftBody, problems: list[DomainError]) -> Plan:
    try:
        return read_plan(draft.plan)
    except DomainError as error:
        problems.append(error)
        return DEFAULT


def _look_at_numbers(reader: User, draft: DraftBody, problems: list[DomainError]) -> None:
    """Seed and priority."""
    try:
        check_seed(draft.seed_number())
    except DomainError as error:
        problems.append(error)
    try:
        check_priority(reader, draft.priority_number())
    except DomainError as error:
        problems.append(error)


def _inputs(
    draft: DraftBody,
    files: tuple[FileRequest, ...],
    runtime: Runtime | None,
    problems: list[DomainError],
) -> Iterator[InputRequest]:
    """The inputs that are right; what is wrong with the others is added to `problems`."""
    named = {file.input for file in files if file.kind == "data" and file.input}
    kind = runtime.kind if runtime else "wheel"
    for number, each in enumerate(draft.inputs):
        try:
            yield from read_inputs([each.as_request(number)], named=named, kind=kind)
        except DomainError as error:
            error.field = f"inputs.{number}"
            problems.append(error)
        named.add(each.name.strip())


def _as_problem(error: DomainError) -> dict[str, Any]:
    option = error.field if error.field in OPTIONS else ""
    return {"code": error.code, "field": error.field, "option": option, "text": word(error)}


def _unavailable(runtime: Runtime) -> dict[str, str]:
    """Why options cannot be chosen with this runtime, in words."""
    able = runtime.capabilities
    found = {name: unavailable(option, able) for name, option in OPTIONS.items()}
    return {
        name: word(DomainError(f"option_{code}", option=name, limit=""))
        for name, code in found.items()
        if code and code != "never"
    }
