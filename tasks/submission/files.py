"""Validation of the files of a request: kind, number, name, size and checksum."""

import re

from django.conf import settings

from agent.protocol.artifacts import limit_of
from agent.protocol.input_rules import LONGEST_NAME, can_be_given
from agent.protocol.options import OPTIONS
from tasks.models import DATA_SUFFIXES, TaskFile
from tasks.submission.request import FileRequest, TaskRequest
from webprofile.errors import DomainError
from webprofile.texts import check_text

NAME_LIMIT = 255
MIB = 1024**2
#: for files of options that are not artifacts of an earlier task
OPTION_FILE_LIMIT_BYTES = 64 * MIB
_MD5 = re.compile(r"[0-9a-f]{32}")


def check_files(request: TaskRequest) -> None:
    """Check all files of a request. Raises DomainError, naming the field and the cause."""
    of_kind: dict[str, list[FileRequest]] = {kind: [] for kind in TaskFile.Kind.values}
    one = "one_model_wanted" if request.script is None else "one_program_wanted"
    for file in request.files:
        of_kind[file.kind].append(file)
    models, data, options = (of_kind[kind] for kind in ("model", "data", "option"))
    if len(models) != 1:
        raise DomainError(one, field="model")
    if len(data) > settings.DATA_FILES_LIMIT:
        raise DomainError("too_many_files", field="data", limit=settings.DATA_FILES_LIMIT)
    check_file(models[0], "model", settings.MODEL_SIZE_LIMIT_BYTES)
    seen: set[str] = set()
    for file in data:
        check_file(file, "data", settings.DATA_SIZE_LIMIT_BYTES)
        if request.script is None:
            _check_data(file, seen)
    _check_options(options)


def check_input_name(name: str, field: str, kind: str = "wheel") -> None:
    """Check that a kind of runtime takes this name of a variable. Raises DomainError."""
    if len(name) > LONGEST_NAME:
        raise DomainError("input_name_long", field=field, limit=LONGEST_NAME)
    if not can_be_given(name, "wheel"):
        raise DomainError("input_name_unprintable", field=field)
    if not can_be_given(name, kind):
        raise DomainError("input_name_bad", field=field, input=name)


def check_file(file: FileRequest, field: str, limit_bytes: int) -> None:
    """Check a file's name, size and checksum. Raises DomainError."""
    if not file.name.strip():
        raise DomainError("file_name_bad", field=field)
    check_text(file.name, field)
    if len(file.name) > NAME_LIMIT:
        raise DomainError("file_name_long", field=field, limit=NAME_LIMIT)
    if "/" in file.name or "\\" in file.name or file.name.strip() in (".", ".."):
        raise DomainError("file_name_path", field=field, name=file.name)
    if file.size_bytes <= 0:
        raise DomainError("file_empty", field=field, name=file.name)
    if file.size_bytes > limit_bytes:
        raise DomainError(
            "file_too_large", field=field, name=file.name, limit_mib=limit_bytes // MIB
        )
    if file.is_parted and not file.source and not settings.S3_TAKES_PARTS:
        raise DomainError("parts_not_here", field=field, name=file.name)
    # the checksum of an upload in parts follows when all parts have arrived
    if not file.is_parted and not _MD5.fullmatch(file.md5):
        raise DomainError("checksum_bad", field=field, name=file.name)


def _check_data(file: FileRequest, seen: set[str]) -> None:
    if not file.name.lower().endswith(DATA_SUFFIXES):
        raise DomainError("data_kind_unknown", field="data", name=file.name)
    if file.names_its_inputs:
        return
    if not file.input:
        raise DomainError("input_name_missing", field="data", name=file.name)
    check_input_name(file.input, "data")
    if file.input in seen:
        raise DomainError("input_name_twice", field="data", input=file.input)
    seen.add(file.input)


def _check_options(files: list[FileRequest]) -> None:
    seen: set[str] = set()
    for file in files:
        option = OPTIONS.get(file.option)
        if option is None or not (option.file_taken or option.kind == "file"):
            raise DomainError(
                "option_file_unwanted", field=file.option[:100], option=file.option[:100]
            )
        if option.name in seen:
            raise DomainError("option_file_twice", field=option.name, option=option.name)
        seen.add(option.name)
        check_file(file, option.name, limit_of(option.file) or OPTION_FILE_LIMIT_BYTES)
