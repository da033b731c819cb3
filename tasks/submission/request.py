"""The request for a task as plain data; `tasks.submission.validation` judges it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.protocol import Plan, Script
from agent.protocol.options import Value
from agent.protocol.parts import PART_BYTES
from agent.protocol.plan import DEFAULT
from tasks.models import Purpose, Task, TaskFile
from tasks.scheduling.targets import Target, target_of
from webprofile.errors import DomainError


@dataclass(frozen=True)
class FileRequest:
    """A file that a user announces.

    `input` is the variable that it feeds (data only), `option` the one whose content it is.
    `source` is the key of a stored object to copy it from: then nothing is uploaded, and
    `part_bytes` and `etag` are the source's. A large file without `md5` comes in parts.
    """

    kind: str
    name: str
    size_bytes: int
    md5: str
    input: str = ""
    option: str = ""
    source: str = ""
    part_bytes: int = 0
    etag: str = ""

    @property
    def is_parted(self) -> bool:
        """It comes in parts, or did when it was uploaded."""
        return bool(self.part_bytes) or (not self.md5 and self.size_bytes > PART_BYTES)

    @property
    def stored_md5(self) -> str:
        """What storage answers for its source."""
        return self.etag or self.md5

    @property
    def feeds_an_input(self) -> bool:
        """It is for the one variable that `input` names."""
        return self.kind == TaskFile.Kind.DATA and not self.names_its_inputs

    @property
    def names_its_inputs(self) -> bool:
        """JSON says itself which variables it feeds."""
        return self.kind == TaskFile.Kind.DATA and self.name.lower().endswith(".json")


@dataclass(frozen=True)
class InputRequest:
    """An input variable without a file: numbers, or random values of a shape and a type.

    `shape` None and `dtype` empty mean the model's own.
    """

    name: str
    literal: str = ""
    shape: tuple[int, ...] | None = None
    dtype: str = ""


@dataclass(frozen=True)
class TaskRequest:
    """All that makes a task but its owner and its device.

    Either a device is asked for by name, then with `runtime_version`; or with a `target`, which
    chooses both. `priority` orders tasks as `tasks.scheduling.fair_share` says. With `script`
    the file of kind `model` is a program.
    """

    runtime_version: str = ""
    options: Mapping[str, Value] = field(default_factory=dict)
    files: tuple[FileRequest, ...] = ()
    inputs: tuple[InputRequest, ...] = ()
    plan: Plan = DEFAULT
    seed: int = 0
    copied_from: Task | None = None
    target: Target | None = None
    priority: int = 0
    title: str = ""
    purpose: Purpose = Purpose.USER
    script: Script | None = None
    #: of all passes together, s; 0 for what the site allows
    time_limit_s: int = 0

    @property
    def model_name(self) -> str:
        """Of the model's or the program's file, empty if none is announced."""
        return next((f.name for f in self.files if f.kind == TaskFile.Kind.MODEL), "")

    @property
    def fed(self) -> frozenset[str]:
        """The variables that files feed, as far as the request names them."""
        return frozenset(f.input for f in self.files if f.kind == TaskFile.Kind.DATA and f.input)

    @property
    def option_files(self) -> frozenset[str]:
        """The options that a file comes for."""
        return frozenset(f.option for f in self.files if f.kind == TaskFile.Kind.OPTION)


def request_of(task: Task) -> TaskRequest:
    """The request that made `task`; its files name the stored objects they can be copied from."""
    target = None if task.target is None else target_of(task.target)
    return TaskRequest(
        runtime_version=task.runtime_version if target is None else "",
        options=task.options,
        files=tuple(file_request_of(file) for file in task.files.all()),
        inputs=tuple(
            InputRequest(
                name=given["name"],
                literal=given.get("literal", ""),
                shape=tuple(given["shape"]) if given.get("shape") else None,
                dtype=given.get("dtype", ""),
            )
            for given in task.inputs
        ),
        # a script has none; rows of earlier versions keep the default of their time
        plan=DEFAULT if task.script is not None else Plan.model_validate(task.plan),
        seed=task.seed,
        copied_from=task,
        target=target,
        priority=task.priority,
        title=task.title,
        script=None if task.script is None else Script.model_validate(task.script),
        time_limit_s=task.time_limit_s,
    )


def file_request_of(file: TaskFile) -> FileRequest:
    """A request for a copy of a stored file."""
    names = ("kind", "name", "size_bytes", "md5", "input", "option", "part_bytes", "etag")
    values = {name: getattr(file, name) for name in names}
    return FileRequest(**values, source=file.object_key)


def check_stored(file: TaskFile) -> None:
    """Raises DomainError file_gone or file_not_uploaded for a file that cannot be copied."""
    if file.stored_at is None:
        raise DomainError("file_not_uploaded", field=file.kind, name=file.name)
    if file.purged_at is not None:
        raise DomainError("file_gone", field=file.kind, name=file.name)
