"""Whether a request for a task can be met: every reason to refuse it before it exists."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings

from accounts.models import User
from agent.protocol.options import OptionError, Value, check_options
from tasks.models import TaskFile
from webprofile.errors import DomainError
from workers.models import Worker
from workers.selectors import may_use_worker

NAME_LIMIT = 255
#: load_and_run splits its --input at these; it has no way to escape them
INPUT_SEPARATORS = ":;"
DATA_SUFFIXES = (".npy", ".json")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MD5 = re.compile(r"^[0-9a-f]{32}$")


@dataclass(frozen=True)
class FileRequest:
    """A file that a user announces; `input` is the variable that it feeds (data only)."""

    kind: str
    name: str
    size_bytes: int
    md5: str
    input: str = ""


def admit(
    *,
    owner: User,
    worker: Worker,
    runtime_version: str,
    options: Mapping[str, Value],
    files: list[FileRequest],
) -> dict[str, Value]:
    """Return the options that differ from their defaults.

    Raises DomainError, naming the field and the cause.
    """
    _check_worker(owner, worker)
    _check_runtime(worker, runtime_version)
    _check_files(files)
    try:
        return check_options(options)
    except OptionError as error:
        raise DomainError(
            f"option_{error.code}", field=error.option, option=error.option, limit=error.limit
        ) from error


def _check_worker(owner: User, worker: Worker) -> None:
    if not may_use_worker(owner, worker):
        # as if it did not exist: a stranger learns nothing of private devices
        raise DomainError("worker_unknown", field="worker")
    if not worker.is_enabled:
        raise DomainError("worker_disabled", field="worker", worker=worker.name)
    if not worker.is_online:
        raise DomainError("worker_is_offline", field="worker", worker=worker.name)


def _check_runtime(worker: Worker, version: str) -> None:
    runtime = worker.runtimes.filter(version=version).first()
    if runtime is None:
        raise DomainError(
            "runtime_missing", field="runtime", worker=worker.name, version=version[:40]
        )
    if runtime.problem:
        raise DomainError(
            "runtime_broken", field="runtime", worker=worker.name, problem=runtime.problem
        )


def _check_files(files: list[FileRequest]) -> None:
    models = [file for file in files if file.kind == TaskFile.Kind.MODEL]
    data = [file for file in files if file.kind == TaskFile.Kind.DATA]
    if len(models) != 1 or len(models) + len(data) != len(files):
        raise DomainError("one_model_wanted", field="model")
    if len(data) > settings.DATA_FILES_LIMIT:
        raise DomainError("too_many_files", field="data", limit=settings.DATA_FILES_LIMIT)
    _check_file(models[0], "model", settings.MODEL_SIZE_LIMIT_BYTES)
    seen: set[str] = set()
    for file in data:
        _check_file(file, "data", settings.DATA_SIZE_LIMIT_BYTES)
        _check_data(file, seen)


def _check_file(file: FileRequest, field: str, limit_bytes: int) -> None:
    if not file.name.strip() or _CONTROL.search(file.name):
        raise DomainError("file_name_bad", field=field)
    if len(file.name) > NAME_LIMIT:
        raise DomainError("file_name_long", field=field, limit=NAME_LIMIT)
    if "/" in file.name or "\\" in file.name:
        raise DomainError("file_name_path", field=field, name=file.name)
    if file.size_bytes <= 0:
        raise DomainError("file_empty", field=field, name=file.name)
    if file.size_bytes > limit_bytes:
        raise DomainError(
            "file_too_large", field=field, name=file.name, limit_mib=limit_bytes // 1024**2
        )
    if not _MD5.match(file.md5):
        raise DomainError("checksum_bad", field=field, name=file.name)


def _check_data(file: FileRequest, seen: set[str]) -> None:
    if not file.name.lower().endswith(DATA_SUFFIXES):
        raise DomainError("data_kind_unknown", field="data", name=file.name)
    if not file.input:
        raise DomainError("input_name_missing", field="data", name=file.name)
    if len(file.input) > NAME_LIMIT:
        raise DomainError("input_name_long", field="data", limit=NAME_LIMIT)
    if not file.input.isprintable() or any(mark in file.input for mark in INPUT_SEPARATORS):
        raise DomainError("input_name_bad", field="data", input=file.input)
    if file.input in seen:
        raise DomainError("input_name_twice", field="data", input=file.input)
    seen.add(file.input)
