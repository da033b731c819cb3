"""What a browser or script sends to ask for a task: shape and types.

The rules are in `tasks.admission`.
"""

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError

from agent.protocol.options import OPTIONS, Option
from tasks.admission import FileRequest
from tasks.option_help import OPTION_HELP
from webprofile.errors import DomainError


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileBody(_Body):
    kind: Literal["model", "data"]
    name: StrictStr
    size_bytes: StrictInt
    md5: StrictStr
    input: StrictStr = ""

    def as_request(self) -> FileRequest:
        return FileRequest(self.kind, self.name, self.size_bytes, self.md5, self.input.strip())


class TaskBody(_Body):
    """{"worker": id, "runtime": "1.13.0", "options": {name: value}, "files": [...]}"""

    worker: StrictInt
    runtime: StrictStr
    options: dict[str, StrictBool | StrictInt | StrictStr] = Field(default_factory=dict)
    files: list[FileBody] = Field(max_length=200)


def read_task_body(body: bytes) -> TaskBody:
    """Parse the request. Raises DomainError bad_request."""
    try:
        return TaskBody.model_validate(json.loads(body))
    except (ValidationError, ValueError, RecursionError) as error:
        raise DomainError("bad_request", status=400) from error


def option_fields() -> list[dict[str, Any]]:
    """The options as the form shows them, in the order of the table."""
    return [_field(option) for option in OPTIONS.values()]


def _field(option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "kind": option.kind,
        "default": option.default,
        "minimum": option.minimum,
        "maximum": option.maximum,
        "help": OPTION_HELP[option.name],
    }
