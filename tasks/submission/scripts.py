"""What a task asks for that profiles a Python program: how it is called, and which files it has."""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from agent.protocol import Script
from agent.protocol.plan import DEFAULT
from agent.protocol.script import MAX_ARGUMENTS
from tasks.kinds import PLAIN_NAME, program_name
from tasks.models import TaskFile
from tasks.submission.plans import longest_run_s
from tasks.submission.request import FileRequest, TaskRequest
from webprofile.client.batchfile.values import FORMATS
from webprofile.errors import DomainError

SUFFIXES = (".py", ".zip")
LONGEST_ARGUMENT = 1000
LARGEST_SAMPLE_RATE = 1_000_000
#: where a shell lets a command go on in the next line
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\r?\n")


def read_script(given: Mapping[str, Any] | None) -> Script | None:
    """Turn the values of a `schema.ScriptAsked` into a Script; None stays None: a model.

    Raises DomainError script_*, naming the field.
    """
    if given is None:
        return None
    try:
        script = Script.model_validate({**given, "entry": given["entry"] or None})
    except ValidationError as error:
        raise _refusal(error, given) from error
    most = longest_run_s(len(script.formats))
    if script.time_limit_s > most:
        raise DomainError("script_time_limit", field="time_limit_s", limit=most)
    return script


def split_arguments(text: str) -> list[str]:
    """The arguments of a line, or of several, as a shell would split them; nothing is expanded.

    Raises DomainError script_arguments_unreadable for a quotation that does not end.
    """
    try:
        return shlex.split(_CONTINUED.sub(r"\1 ", text))
    except ValueError as error:
        raise DomainError("script_arguments_unreadable", field="arguments") from error


def check_script(request: TaskRequest) -> None:
    """Whether the files, and what else is asked for, go with a script; of a model with a model.

    Raises DomainError, naming the field and the cause.
    """
    program = next((f for f in request.files if f.kind == TaskFile.Kind.MODEL), None)
    if request.script is None:
        if program is not None and program.name.lower().endswith(SUFFIXES):
            raise DomainError("model_is_script", field="model", name=program.name)
        return
    if program is None:
        raise DomainError("one_program_wanted", field="model")
    is_zip = program.name.lower().endswith(".zip")
    if not program.name.lower().endswith(SUFFIXES):
        raise DomainError("script_suffix", field="model", name=program.name)
    if is_zip and request.script.entry is None:
        raise DomainError("script_entry_missing", field="entry", name=program.name)
    if not is_zip and request.script.entry is not None:
        raise DomainError("script_entry_unwanted", field="entry", name=program.name)
    _check_nothing_else(request)
    _check_data(program, [f for f in request.files if f.kind == TaskFile.Kind.DATA])


def _check_nothing_else(request: TaskRequest) -> None:
    """What is load_and_run's is refused, rather than dropped without a word."""
    given = {
        "options": bool(request.options) or bool(request.option_files),
        "plan": request.plan != DEFAULT,
        "inputs": bool(request.inputs),
        "seed": bool(request.seed),
    }
    for name, is_given in given.items():
        if is_given:
            raise DomainError(f"script_takes_no_{name}", field=name)


def _check_data(program: FileRequest, data: Iterable[FileRequest]) -> None:
    """Files beside a program have names that no device mistakes, each once."""
    seen = {program_name(program.name).lower()}
    for file in data:
        if file.input:
            raise DomainError("script_takes_no_inputs", field="data")
        if not PLAIN_NAME.fullmatch(file.name):
            raise DomainError("script_data_name", field="data", name=file.name)
        if file.name.lower() in seen:
            raise DomainError("script_data_twice", field="data", name=file.name)
        seen.add(file.name.lower())


def _refusal(error: ValidationError, given: Mapping[str, Any]) -> DomainError:
    """The rules that the schema does not have: plain paths, plain characters, each format once."""
    place = error.errors()[0]["loc"]
    if place and place[0] == "entry":
        return DomainError("script_entry_bad", field="entry", entry=given["entry"][:100])
    if place and place[0] == "arguments":
        return DomainError(
            "script_arguments_bad", field="arguments", limit=MAX_ARGUMENTS, length=LONGEST_ARGUMENT
        )
    return DomainError("script_formats", field="formats", choices=", ".join(FORMATS.values()))
