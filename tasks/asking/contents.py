"""What the files of a task are, by their first bytes, and whether they go together."""

from collections.abc import Mapping, Sequence

from tasks.asking.copying import script_of
from tasks.asking.inspection import bytes_wanted, inspect
from tasks.asking.programs import bytes_wanted_of, check_model, check_program
from tasks.models import Task, TaskFile
from webprofile.errors import DomainError


def head_bytes_of(file: TaskFile) -> int:
    """Return how many bytes of its start are read; 0 for a file that is not looked into."""
    if file.kind == TaskFile.Kind.DATA and not file.task.is_script:
        return bytes_wanted(file.name, file.size_bytes)
    return bytes_wanted_of(file)


def look_into(task: Task, files: Sequence[TaskFile], heads: Mapping[int, bytes]) -> None:
    """Put what the headers of data files say into `arrays`; refuse what cannot be inputs.

    heads: the first `head_bytes_of` bytes of files, by their keys
    Raises DomainError input_*, script_* for a program that is none, model_is_script;
    input_given_twice if two of files, JSON's entries and given inputs are for one variable.
    """
    for file in files:
        if file.kind == TaskFile.Kind.MODEL and file.pk in heads:
            _check_start(task, file, heads[file.pk])
    if task.is_script:
        return  # its data feed nothing, they lie beside it
    data = [file for file in files if file.kind == TaskFile.Kind.DATA and file.pk in heads]
    kind = _kind(task) if data else ""
    for file in data:
        found = inspect(file.name, heads[file.pk], file.size_bytes, kind=kind)
        file.arrays = [array.as_row() for array in found]
    _check_feeds(task, files)


def _kind(task: Task) -> str:
    """With a target another device may take what the task's own cannot."""
    runtime = task.worker.runtimes.filter(version=task.runtime_version).first()
    return runtime.kind if runtime and task.target is None else "wheel"


def _check_start(task: Task, file: TaskFile, head: bytes) -> None:
    if script := script_of(task):
        check_program(file.name, head, file.size_bytes, entry=script.entry)
    else:
        check_model(file.name, head)


def _check_feeds(task: Task, files: Sequence[TaskFile]) -> None:
    feeds = [(given["name"], "") for given in task.inputs]
    for file in files:
        if file.kind == TaskFile.Kind.DATA:
            names = [file.input] if file.input else [array["name"] for array in file.arrays]
            feeds += [(name, file.name) for name in names]
    sources = dict[str, str]()
    for name, source in feeds:
        if name in sources:
            both = sorted({sources[name], source} - {""})
            raise DomainError("input_given_twice", field="data", input=name, files=", ".join(both))
        sources[name] = source
