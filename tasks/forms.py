"""What a browser or script sends to ask for a task: shape and types.

The rules are in `tasks.asking.admission`.
"""

import re
from typing import Annotated, Any, Literal, TypeVar

from django.http import HttpRequest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)

from agent.protocol.parts import MOST_PARTS
from tasks.asking.admission import SEED_LIMIT, check_time_limit, seed_refusal
from tasks.asking.inputs import read_shape
from tasks.asking.measuring import read_plan
from tasks.asking.request import FileRequest, InputRequest, TaskRequest
from tasks.asking.scripts import read_script
from tasks.queue.targets import Target, read_target
from tasks.queue.turns import OWN_PRIORITY
from webprofile.errors import DomainError
from webprofile.integers import LARGEST_KEY, parse_int

#: of a row in the database
Key = Annotated[StrictInt, Field(ge=0, le=2**63 - 1)]
#: a version's name: what the database is asked for must be something that it can hold
Version = Annotated[StrictStr, Field(max_length=40, pattern=r"^[^\x00-\x1f\x7f]*$")]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileBody(_Body):
    """A file to be uploaded, or one that is in storage already.

    `from_task`: the cache that this task of the reader's left; `from_file`: a file of a task, by
    its id.
    """

    kind: Literal["model", "data", "option"]
    name: StrictStr = ""
    size_bytes: StrictInt = 0
    md5: StrictStr = ""
    input: StrictStr = ""
    option: StrictStr = Field(default="", max_length=100)
    from_task: StrictInt | None = Field(default=None, ge=1, le=2**63 - 1)
    from_file: StrictInt | None = Field(default=None, ge=1, le=2**63 - 1)

    def as_request(self) -> FileRequest:
        return FileRequest(
            self.kind, self.name, self.size_bytes, self.md5, self.input.strip(), self.option
        )


class InputBody(_Body):
    """An input without a file: `literal`, or random values. A shape is a list, or text: 1,3,8,8."""

    name: StrictStr
    literal: StrictStr = ""
    shape: list[StrictInt] | StrictStr | None = None
    dtype: StrictStr = ""

    def as_request(self, number: int) -> InputRequest:
        """Raises DomainError shape_bad."""
        shape = self.shape
        if isinstance(shape, str):
            found = read_shape(shape, f"inputs.{number}")
        else:
            found = None if shape is None else tuple(shape)
        return InputRequest(self.name.strip(), self.literal.strip(), found, self.dtype)


class TargetBody(_Body):
    """What any device must have that may take a task: see `tasks.queue.targets`."""

    labels: dict[StrictStr, StrictStr] = Field(default_factory=dict, max_length=50)
    pool: StrictStr = Field(default="", max_length=200)
    versions: StrictStr = Field(default="", max_length=200)


class TaskBody(_Body):
    """{"worker": id, "runtime": "1.13.0", "options": {name: value}, "files": [...],
    "inputs": [...], "plan": {"preset": name} or a custom plan's fields, "seed": number}

    Instead of worker and runtime: "target": {"labels": {...}, "pool": name, "versions": range}.
    """

    worker: Key | None = None
    runtime: Version = ""
    target: TargetBody | None = None
    priority: StrictInt | StrictFloat | StrictStr = 0
    title: StrictStr = Field(default="", max_length=1000)
    options: dict[str, StrictBool | StrictInt | StrictFloat | StrictStr] = Field(
        default_factory=dict, max_length=200
    )
    files: list[FileBody] = Field(max_length=200)
    inputs: list[InputBody] = Field(default_factory=list, max_length=200)
    plan: dict[str, Any] = Field(default_factory=dict, max_length=20)
    seed: StrictInt | StrictStr = 0
    #: of a model's run, in whole seconds; 0: the site's limit
    time_limit_s: StrictInt | StrictFloat | StrictStr = 0
    #: of a program in place of a model: `tasks.asking.scripts.read_script`
    script: dict[str, Any] | None = Field(default=None, max_length=20)
    #: the task that this one repeats with changes
    copied_from: StrictInt | None = Field(default=None, ge=1, le=2**63 - 1)

    def seed_number(self) -> int:
        """A browser's numbers are exact to 2**53 only: it sends digits. Raises DomainError."""
        if isinstance(self.seed, int):
            return self.seed
        seed = parse_int(self.seed, maximum=SEED_LIMIT)
        if seed is None:
            raise seed_refusal()
        return seed

    def as_request(self, files: tuple[FileRequest, ...]) -> TaskRequest:
        """`files` are this body's, with what belongs to those of other tasks filled in.

        Raises DomainError, naming the field.
        """
        plan = read_plan(self.plan)
        return TaskRequest(
            runtime_version=self.runtime,
            options=self.options,
            files=files,
            inputs=tuple(each.as_request(number) for number, each in enumerate(self.inputs)),
            plan=plan,
            seed=self.seed_number(),
            time_limit_s=check_time_limit(self.time_limit_s, plan=plan),
            target=self.target_asked(),
            priority=self.priority_number(),
            title=self.title,
            script=read_script(self.script),
        )

    def priority_number(self) -> int:
        """Raises DomainError priority_bad."""
        return self.priority if isinstance(self.priority, int) else read_priority(self.priority)

    def target_asked(self) -> Target | None:
        """Raises DomainError target_*, naming the field."""
        return (
            None
            if self.target is None
            else read_target(self.target.model_dump(), scripts=self.script is not None)
        )


class DraftBody(TaskBody):
    """A task that is still being described: nothing has to be there yet."""

    files: list[FileBody] = Field(default_factory=list, max_length=200)


class IdsBody(_Body):
    """Which tasks: {"ids": [...]} or {"all": true}."""

    ids: list[Key] = Field(default_factory=list, max_length=100_000)
    all: StrictBool = False


class PartBody(_Body):
    """A part of a file; with `md5` storage itself checks what it gets."""

    number: Key
    md5: StrictStr | None = None


class PartsBody(_Body):
    """{"upload": number, "parts": [{"number", "md5"}]}"""

    upload: Key
    parts: list[PartBody] = Field(max_length=1000)

    def asked(self) -> list[tuple[int, str | None]]:
        return [(part.number, part.md5) for part in self.parts]


class JoinBody(_Body):
    """{"md5s": [MD5 of each part, in their order]}"""

    md5s: list[StrictStr] = Field(max_length=MOST_PARTS)


_T = TypeVar("_T", bound=_Body)


def read_task_body(body: bytes) -> TaskBody:
    """Parse the request. Raises DomainError bad_request."""
    return _read(TaskBody, body)


def read_draft_body(body: bytes) -> DraftBody:
    """Parse the request. Raises DomainError bad_request."""
    return _read(DraftBody, body)


def read_parts_body(body: bytes) -> PartsBody:
    """Parse the request. Raises DomainError bad_request."""
    return _read(PartsBody, body)


def read_join_body(body: bytes) -> JoinBody:
    """Parse the request. Raises DomainError bad_request."""
    return _read(JoinBody, body)


def read_ids_body(request: HttpRequest) -> IdsBody:
    """Parse JSON, or a form's fields `ids` and `all`. Raises DomainError bad_request."""
    if request.content_type == "application/json":
        return _read(IdsBody, request.body)
    given = request.POST.getlist("ids")
    ids = [number for text in given if (number := parse_int(text, maximum=LARGEST_KEY)) is not None]
    if len(ids) < len(given):
        raise DomainError("bad_request", status=400)
    return IdsBody(ids=ids, all=request.POST.get("all") == "1")


def read_priority(given: str | float) -> int:
    """A whole number that a form sends. Raises DomainError priority_bad."""
    text = str(given).strip()
    if re.fullmatch(r"[+-]?[0-9]{1,4}", text):
        return int(text)
    raise DomainError("priority_bad", field="priority", low=-OWN_PRIORITY, high=OWN_PRIORITY)


def _read(kind: type[_T], body: bytes) -> _T:
    try:
        # pydantic's own reader refuses halves of characters (\ud800), which no database stores
        return kind.model_validate_json(body)
    except (ValidationError, ValueError, RecursionError) as error:
        raise DomainError("bad_request", status=400) from error
