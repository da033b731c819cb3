"""The request for a task as plain dataclasses; `tasks.submission.validation` validates it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.protocol.messages import Script
from agent.protocol.multipart import PART_BYTES
from agent.protocol.options import Value
from agent.protocol.pairs import Pairing
from agent.protocol.plan import DEFAULT, Plan
from tasks.models import Purpose, Task, TaskFile
from tasks.scheduling.targets import Target, target_of
from webprofile.errors import DomainError


@dataclass(frozen=True)
class FileRequest:
    """A file of a request, which the user uploads or which is copied from an earlier task.

    A large file without `md5` is uploaded in parts.

    input: the variable that the file feeds (data only)
    option: the option whose file it is
    arm: the arm of a paired comparison whose file it is; 0 for the baseline, and without pairing
    source: key of the stored object to copy instead of an upload; `part_bytes` and `etag` are those
        of the source then
    """

    kind: str
    name: str
    size_bytes: int
    md5: str
    input: str = ""
    option: str = ""
    arm: int = 0
    source: str = ""
    part_bytes: int = 0
    etag: str = ""

    @property
    def is_parted(self) -> bool:
        """Whether the file, or the source of the copy, is uploaded in parts."""
        return bool(self.part_bytes) or (not self.md5 and self.size_bytes > PART_BYTES)

    @property
    def stored_md5(self) -> str:
        """The checksum that storage reports for the source."""
        return self.etag or self.md5

    @property
    def names_its_inputs(self) -> bool:
        """Whether the file itself names the variables that it feeds (JSON)."""
        return self.kind == TaskFile.Kind.DATA and self.name.lower().endswith(".json")


@dataclass(frozen=True)
class InputRequest:
    """An input variable without a file: literal numbers, or random values.

    shape: of random values; None for the model's own
    dtype: of random values; empty for the model's own
    """

    name: str
    literal: str = ""
    shape: tuple[int, ...] | None = None
    dtype: str = ""


@dataclass(frozen=True)
class ArmRequest:
    """What an arm of a paired comparison has in place of the baseline's; its files are in `files`.

    runtime_version: empty for that of the baseline
    options, inputs: None for those of the baseline
    """

    runtime_version: str = ""
    options: Mapping[str, Value] | None = None
    inputs: tuple[InputRequest, ...] | None = None


@dataclass(frozen=True)
class PairingRequest:
    """A paired comparison of the request, which is the baseline, with one to three other arms."""

    pairing: Pairing
    arms: tuple[ArmRequest, ...]


@dataclass(frozen=True)
class TaskRequest:
    """Everything that defines a task, except its owner and its worker.

    The request has either a `runtime_version`, for a worker that is chosen separately, or a
    `target`, which chooses worker and version. With `script`, the file of kind `model` is a
    program. `tasks.scheduling.fair_share` defines the meaning of `priority`.
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
    pairing: PairingRequest | None = None
    #: for all passes together, s; 0 for the site's limit
    time_limit_s: int = 0

    @property
    def model_name(self) -> str:
        """Name of the model's or the program's file; empty if there is none yet."""
        return next((f.name for f in self.files if f.kind == TaskFile.Kind.MODEL), "")

    @property
    def fed(self) -> frozenset[str]:
        """The variables that data files feed, without those that JSON files name."""
        return frozenset(f.input for f in self.files if f.kind == TaskFile.Kind.DATA and f.input)

    @property
    def option_files(self) -> frozenset[str]:
        return frozenset(f.option for f in self.files if f.kind == TaskFile.Kind.OPTION)


def request_of(task: Task) -> TaskRequest:
    """Return the request of a task; its files have the task's stored objects as sources."""
    target = None if task.target is None else target_of(task.target)
    return TaskRequest(
        runtime_version=task.runtime_version if target is None else "",
        options=task.options,
        files=tuple(file_request_of(file) for file in task.files.all()),
        inputs=tuple(map(input_request_of, task.inputs)),
        plan=Plan.model_validate(task.plan),
        seed=task.seed,
        copied_from=task,
        target=target,
        priority=task.priority,
        title=task.title,
        script=None if task.script is None else Script.model_validate(task.script),
        pairing=None if task.pairing is None else pairing_request_of(task.pairing),
        time_limit_s=task.time_limit_s,
    )


def pairing_request_of(pairing: Mapping[str, Any]) -> PairingRequest:
    """Return the request from `Task.pairing`, or from validated data of `schema.PairingBody`."""
    arms = tuple(
        ArmRequest(
            runtime_version=arm["runtime_version"],
            options=arm["options"],
            inputs=None if arm["inputs"] is None else tuple(map(input_request_of, arm["inputs"])),
        )
        for arm in pairing["arms"]
    )
    return PairingRequest(Pairing.model_validate(pairing), arms)


def input_request_of(row: Mapping[str, Any]) -> InputRequest:
    """Return the request of an input variable from JSON, which has lists instead of tuples."""
    shape = row["shape"]
    return InputRequest(**{**row, "shape": None if shape is None else tuple(shape)})


def file_request_of(file: TaskFile) -> FileRequest:
    names = ("kind", "name", "size_bytes", "md5", "input", "option", "arm", "part_bytes", "etag")
    values = {name: getattr(file, name) for name in names}
    return FileRequest(**values, source=file.object_key)


def check_stored(file: TaskFile) -> None:
    """Raise DomainError file_gone or file_not_uploaded if a file cannot be copied."""
    if file.stored_at is None:
        raise DomainError("file_not_uploaded", field=file.kind, name=file.name)
    if file.purged_at is not None:
        raise DomainError("file_gone", field=file.kind, name=file.name)


def check_all_stored(task: Task) -> None:
    """Raise DomainError as `check_stored` for the first file of a task that cannot be copied."""
    for file in task.files.all():
        check_stored(file)
