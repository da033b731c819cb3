"""Validation of the parts of a request that concern scripts: arguments, entry and files."""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from agent.protocol.messages import MAX_ARGUMENTS, Script
from agent.protocol.plan import DEFAULT
from tasks.models import PLAIN_NAME, TaskFile, program_name
from tasks.submission.plans import longest_run_s
from tasks.submission.request import FileRequest, TaskRequest
from webprofile.client.batchfile.values import FORMATS
from webprofile.errors import DomainError

SUFFIXES = (".py", ".zip")
LONGEST_ARGUMENT = 1000
LARGEST_SAMPLE_RATE = 1_000_000
#: a backslash that continues a shell command on the next line
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\r?\n")


def read_script(body: Mapping[str, Any] | None) -> Script | None:
    """Convert validated data of `schema.ScriptBody` into a Script; None (a model) stays None.

    Raises DomainError script_*, naming the field.
    """
    if body is None:
        return None
    try:
        script = Script.model_validate({**body, "entry": body["entry"] or None})
    except ValidationError as error:
        raise _refusal(error, body) from error
    most = longest_run_s(len(script.formats))
    if script.time_limit_s > most:
        raise DomainError("script_time_limit", field="time_limit_s", limit=most)
    return script


def split_arguments(text: str) -> list[str]:
    """Split a command line as a shell does, without expansions; lines may be continued.

    Raises DomainError script_arguments_unreadable for an unterminated quotation.
    """
    try:
        return shlex.split(_CONTINUED.sub(r"\1 ", text))
    except ValueError as error:
        raise DomainError("script_arguments_unreadable", field="arguments") from error


def check_script(request: TaskRequest) -> None:
    """Check that files and other parts of a request suit its kind, script or model.

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
    """Refuse what applies to load_and_run only, instead of ignoring it silently."""
    settings_of_models = {
        "options": bool(request.options) or bool(request.option_files),
        "plan": request.plan != DEFAULT,
        "inputs": bool(request.inputs),
        "seed": bool(request.seed),
    }
    for name, is_set in settings_of_models.items():
        if is_set:
            raise DomainError(f"script_takes_no_{name}", field=name)


def _check_data(program: FileRequest, data: Iterable[FileRequest]) -> None:
    """Check that data files beside a program have safe and unique names."""
    seen = {program_name(program.name).lower()}
    for file in data:
        if file.input:
            raise DomainError("script_takes_no_inputs", field="data")
        if not PLAIN_NAME.fullmatch(file.name):
            raise DomainError("script_data_name", field="data", name=file.name)
        if file.name.lower() in seen:
            raise DomainError("script_data_twice", field="data", name=file.name)
        seen.add(file.name.lower())


def _refusal(error: ValidationError, body: Mapping[str, Any]) -> DomainError:
    """Translate an error of `Script`, whose rules exceed those of the schema."""
    location = error.errors()[0]["loc"]
    if location and location[0] == "entry":
        return DomainError("script_entry_bad", field="entry", entry=body["entry"][:100])
    if location and location[0] == "arguments":
        return DomainError(
            "script_arguments_bad", field="arguments", limit=MAX_ARGUMENTS, length=LONGEST_ARGUMENT
        )
    return DomainError("script_formats", field="formats", choices=", ".join(FORMATS.values()))
