"""What would make a task once more: its own request, with the stored files to copy."""

from dataclasses import replace

from agent.protocol import Plan, Script
from agent.protocol.plan import DEFAULT
from tasks.asking.request import FileRequest, InputRequest, TaskRequest
from tasks.models import Task, TaskFile
from tasks.queue.targets import target_of
from webprofile.errors import DomainError


def request_of(task: Task) -> TaskRequest:
    """The request that made `task`; its files name the objects they are to be copied from.

    Raises DomainError file_gone or file_not_uploaded if a row says that storage does not hold one.
    """
    files = tuple(copy_of(file) for file in task.files.all())
    return replace(described(task), files=files, copied_from=task)


def described(task: Task) -> TaskRequest:
    """What was asked for with `task`, to be judged again; nothing of it is to be copied."""
    target = None if task.target is None else target_of(task.target)
    return TaskRequest(
        runtime_version=task.runtime_version if target is None else "",
        options=task.options,
        files=tuple(_file_request(file) for file in task.files.all()),
        inputs=inputs_of(task),
        # a script has none; rows of earlier versions keep the default of their time
        plan=DEFAULT if task.script is not None else Plan.model_validate(task.plan),
        seed=task.seed,
        target=target,
        priority=task.priority,
        title=task.title,
        script=script_of(task),
        time_limit_s=task.time_limit_s,
    )


def script_of(task: Task) -> Script | None:
    """How the task's program is called; None for a model."""
    return None if task.script is None else Script.model_validate(task.script)


def copy_of(file: TaskFile) -> FileRequest:
    """A request for a copy of a stored file. Raises DomainError file_gone, file_not_uploaded."""
    if file.stored_at is None:
        raise DomainError("file_not_uploaded", field=file.kind, name=file.name)
    if file.purged_at is not None:
        raise DomainError("file_gone", field=file.kind, name=file.name)
    return replace(_file_request(file), source=file.object_key)


def _file_request(file: TaskFile) -> FileRequest:
    return FileRequest(
        kind=file.kind,
        name=file.name,
        size_bytes=file.size_bytes,
        md5=file.md5,
        input=file.input,
        option=file.option,
        part_bytes=file.part_bytes,
        etag=file.etag,
    )


def inputs_of(task: Task) -> tuple[InputRequest, ...]:
    """The inputs that no file feeds, as they were asked for."""
    return tuple(
        InputRequest(
            name=given["name"],
            literal=given.get("literal", ""),
            shape=tuple(given["shape"]) if given.get("shape") else None,
            dtype=given.get("dtype", ""),
        )
        for given in task.inputs
    )
