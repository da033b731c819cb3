"""What would make a task once more: its own request, with the stored files to copy."""

import shlex
from dataclasses import replace
from typing import Any

from agent.protocol import Plan, Script
from agent.protocol.options import Value
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


def form_data(task: Task) -> dict[str, Any]:
    """What the form needs to show a task's request again, ready for JSON.

    A file is taken over by its id: `{"kind", "from_file"}` in the new request.
    """
    return {
        "task": task.pk,
        "worker": task.worker_id,
        "runtime": task.runtime_version,
        "target": task.target,
        "priority": task.priority,
        "title": task.title,
        "kind": task.kind,
        "script": None if task.script is None else form_script(task.script),
        "options": {name: _exact(value) for name, value in task.options.items()},
        "plan": task.plan,
        "seed": str(task.seed),
        "time_limit_s": task.time_limit_s,
        "inputs": task.inputs,
        "files": [_file_data(file) for file in task.files.all()],
    }


def form_script(script: dict[str, Any]) -> dict[str, Any]:
    """As the form's fields show it: the arguments as one would type them."""
    return {**script, "arguments": shlex.join(script["arguments"])}


def _exact(value: Value) -> Value:
    """JavaScript's numbers lose the last digits of whole numbers beyond 2**53."""
    return str(value) if isinstance(value, int) and abs(value) > 2**53 else value


def _file_data(file: TaskFile) -> dict[str, Any]:
    return {
        "id": file.pk,
        "kind": file.kind,
        "name": file.name,
        "size_bytes": file.size_bytes,
        "input": file.input,
        "option": file.option,
        "arrays": file.arrays,
        "is_stored": file.stored_at is not None and file.purged_at is None,
    }
