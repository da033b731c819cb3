"""Inspect uploaded files by their first bytes, and check that they match each other.

Nothing is unpacked, unpickled or executed, no array is allocated, and sizes in headers are not
trusted. Data files are parsed by the agent's own readers (`agent.protocol.inputs`), so that files
that the device would refuse are refused before the task enters the queue.
"""

import io
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from agent.protocol.inputs import InputError, RuntimeKind
from agent.protocol.inputs.json_inputs import LONGEST_JSON, check_json_size, parse_json
from agent.protocol.inputs.npy import HEAD_BYTES as ARRAY_HEAD_BYTES
from agent.protocol.inputs.npy import parse_header
from agent.protocol.inputs.pictures import parse_picture
from tasks.models import Task, TaskFile
from tasks.submission.model_heads import HEAD_BYTES, check_model, is_text, model_form
from webprofile.errors import DomainError

#: a zip up to this size is read as a whole, since its central directory is at its end
ZIP_READ_BYTES = 8 * 1024**2
#: limit on the central directory of a zip; some 10,000 entries
LONGEST_LIST_BYTES = 1024**2
#: how many names of a zip an error message lists
NAMED = 8

_ZIP, _EMPTY_ZIP, _ZIP64 = b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x07"
_UNREADABLE = (
    zipfile.BadZipFile,
    NotImplementedError,
    ValueError,
    OverflowError,
    EOFError,
    struct.error,
)


def head_bytes_of(file: TaskFile) -> int:
    """Return how many bytes of the start of a file to inspect; 0 for no inspection."""
    is_script, name = file.task.is_script, file.name.lower()
    if file.kind == TaskFile.Kind.DATA and not is_script:
        return inspected_bytes_of(file.name, file.size_bytes)
    if file.kind != TaskFile.Kind.MODEL:
        return 0
    if is_script and _is_zip(name) and file.size_bytes <= ZIP_READ_BYTES:
        return file.size_bytes
    return min(file.size_bytes, HEAD_BYTES)


def inspect_files(task: Task, files: Sequence[TaskFile], heads: Mapping[int, bytes]) -> None:
    """Inspect the files of a task, and set `arrays` of data files from their headers.

    heads: the first `head_bytes_of` bytes of files, by their keys

    Raises DomainError input_* for data that no runtime accepts, script_* for an invalid program,
    model_* for what is no model, and input_given_twice if several files, JSON entries or inputs of
    the request feed one variable.
    """
    for file in files:
        if file.kind == TaskFile.Kind.MODEL and file.pk in heads:
            head = heads[file.pk]
            if task.script is None:
                check_model(file.name, head, file.size_bytes)
            else:
                check_program(file.name, head, file.size_bytes, entry=task.script["entry"])
    if task.is_script:
        return  # data files of a script feed no inputs; they are stored beside it
    data = [file for file in files if file.kind == TaskFile.Kind.DATA and file.pk in heads]
    kinds = _kinds(task, files) if data else {}
    for file in data:
        file.arrays = inspect(file.name, heads[file.pk], file.size_bytes, kind=kinds[file.arm])
    _check_feeds(task, files)


def _kinds(task: Task, files: Sequence[TaskFile]) -> dict[int, str]:
    """Return the kind of runtime to check the data of each arm for; 0 without pairing.

    With a target this is `wheel`, which accepts more, since the task may move to another worker.
    Data of the baseline is for all arms that have none of their own, so one binary decides.
    """
    if task.target is not None:
        return {0: "wheel"}
    known = dict(task.worker.runtimes.values_list("version", "kind"))
    kinds = {0: known.get(task.runtime_version, "wheel")}
    own = {file.arm for file in files if file.kind == TaskFile.Kind.DATA}
    for number, arm in enumerate(task.pairing["arms"] if task.pairing else (), start=1):
        kinds[number] = known.get(arm["runtime_version"], "wheel")
        is_shared = number not in own and arm["inputs"] is None
        if is_shared and kinds[number] == "binary":
            kinds[0] = "binary"
    return kinds


def _check_feeds(task: Task, files: Sequence[TaskFile]) -> None:
    for arm in {file.arm for file in files}:
        arms = task.pairing["arms"] if task.pairing else []
        given = arms[arm - 1]["inputs"] if arm else task.inputs
        _check_feeds_of(given or [], [file for file in files if file.arm == arm])


def _check_feeds_of(inputs: Sequence[Mapping[str, Any]], files: Sequence[TaskFile]) -> None:
    feeds = [(row["name"], "") for row in inputs]
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


def inspected_bytes_of(name: str, size_bytes: int) -> int:
    """Return how many bytes of the start of a data file `inspect` needs."""
    if _suffix(name) == ".json" and size_bytes <= LONGEST_JSON:
        return size_bytes
    return min(size_bytes, ARRAY_HEAD_BYTES)


def inspect(
    name: str, head: bytes, size_bytes: int, *, kind: str = "wheel"
) -> list[dict[str, Any]]:
    """Return the arrays of a data file in the format of `TaskFile.arrays`; empty without `head`.

    An array has a name if the file itself names the input variable (JSON).

    head: the first `inspected_bytes_of` bytes of the file
    size_bytes: size of the whole file
    kind: kind of the runtime, `wheel` or `binary`

    Raises DomainError `input_*`, naming file and cause, if the file cannot feed an input.
    """
    if not head:
        return []
    try:
        return _arrays(name, head, size_bytes, "binary" if kind == "binary" else "wheel")
    except InputError as error:
        raise DomainError(
            f"input_{error.rule}", field="data", **{"name": name, **error.data}
        ) from error


def _arrays(name: str, head: bytes, size_bytes: int, kind: RuntimeKind) -> list[dict[str, Any]]:
    suffix = _suffix(name)
    if suffix == ".json":
        check_json_size(name, size_bytes)
        inputs = parse_json(name, head, kind).items()
        return [_array(key, array.dtype.name, array.shape) for key, array in inputs]
    if suffix in (".ppm", ".pgm"):
        shape, _ = parse_picture(name, head, size_bytes)
        return [_array("", "uint8", shape)]
    header = parse_header(name, head, size_bytes, kind)
    return [_array("", header.dtype.newbyteorder("=").name, header.shape)]


def _array(name: str, dtype: str, shape: Sequence[int]) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def _suffix(name: str) -> str:
    return PurePosixPath(name.lower()).suffix


def check_program(name: str, head: bytes, size_bytes: int, *, entry: str | None) -> None:
    """Check that a file can be the program that its name suggests. Raises DomainError script_*.

    head: the first `head_bytes_of` bytes of the file
    size_bytes: size of the whole file
    """
    if model_form(head) != "other":
        raise DomainError("script_is_model", field="model", name=name)
    if _is_zip(name):
        _check_zip(name, head, size_bytes, entry or "")
        return
    if head.startswith((_ZIP, _EMPTY_ZIP)):
        raise DomainError("script_is_zip", field="model", name=name)
    if not is_text(head):
        raise DomainError("script_not_text", field="model", name=name)


def _is_zip(name: str) -> bool:
    return name.lower().endswith(".zip")


def _check_zip(name: str, head: bytes, size_bytes: int, entry: str) -> None:
    if head.startswith(_EMPTY_ZIP):
        raise DomainError("script_zip_empty", field="model", name=name)
    if not head.startswith(_ZIP):
        raise DomainError("script_not_zip", field="model", name=name)
    if len(head) < size_bytes:
        return  # too large to be read here; the device checks whether the entry exists
    names = _names(name, head)
    if names is not None and entry not in names:
        programs = [member for member in names if member.endswith(".py")]
        listed = ", ".join(programs[:NAMED]) + (", …" if len(programs) > NAMED else "")
        raise DomainError(
            "script_entry_not_there", field="entry", entry=entry, name=name, names=listed or "–"
        )


def _names(name: str, data: bytes) -> list[str] | None:
    """Return the names in a zip; None if its central directory is too long, or it is a Zip64."""
    end = data.rfind(_EMPTY_ZIP)
    if end < 0 or len(data) < end + 22:
        raise DomainError("script_zip_damaged", field="model", name=name)
    (list_bytes,) = struct.unpack_from("<I", data, end + 12)
    # Zip64 stores its sizes elsewhere
    if list_bytes > LONGEST_LIST_BYTES or data.startswith(_ZIP64, max(end - 20, 0)):
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.namelist()
    except _UNREADABLE as error:
        raise DomainError("script_zip_damaged", field="model", name=name) from error
