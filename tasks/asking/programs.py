"""What an uploaded model or program is, read from its first bytes: one is not the other.

Bytes in, refusal or nothing out. Nothing is unpacked or run; of a zip its list of names is read.
"""

import codecs
import io
import re
import struct
import zipfile

from tasks.models import TaskFile
from webprofile.errors import DomainError

#: how much of a program or a model is looked at
HEAD_BYTES = 64 * 1024
#: a zip up to this size is read as a whole, since its list of names is at its end
ZIP_READ_BYTES = 8 * 1024**2
#: of the list of names within a zip; some 10,000 entries
LONGEST_LIST_BYTES = 1024**2
#: names of a zip that a refusal tells
NAMED = 8

_ZIP, _EMPTY_ZIP, _ZIP64 = b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x07"
_MODELS = (b"mgbtest0", b"mgb0001", b"mgb0000a", b"MGBS", b"MGBC", b"packed_model")
#: of MegEngine's FlatBuffers: behind an offset, or a size and an offset, of 4 bytes each
_TAG = b"mgv2"
_PYTHON = re.compile(r"^\s*(?:import|from)\s+[A-Za-z_][\w.]*|^#!.*python", re.MULTILINE)
#: PEP 263
_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*[-_.a-zA-Z0-9]+")
_UNREADABLE = (
    zipfile.BadZipFile,
    NotImplementedError,
    ValueError,
    OverflowError,
    EOFError,
    struct.error,
)


def bytes_wanted_of(file: TaskFile) -> int:
    """How many bytes from its begin `check_program` or `check_model` wants of a task's one file.

    A file that is called .mge is taken for what its name says: the device reads it anyway.
    """
    if file.kind != TaskFile.Kind.MODEL:
        return 0
    if not file.task.is_script and file.name.lower().endswith((".mge", ".mgb")):
        return 0
    if file.task.is_script and _is_zip(file.name) and file.size_bytes <= ZIP_READ_BYTES:
        return file.size_bytes
    return min(file.size_bytes, HEAD_BYTES)


def check_program(name: str, head: bytes, size_bytes: int, *, entry: str | None) -> None:
    """Raises DomainError script_* if the file cannot be the program that its name says.

    head: its first `bytes_wanted_of` bytes; size_bytes: of the whole file
    """
    if looks_like_model(head):
        raise DomainError("script_is_model", field="model", name=name)
    if _is_zip(name):
        _check_zip(name, head, size_bytes, entry or "")
        return
    if head.startswith((_ZIP, _EMPTY_ZIP)):
        raise DomainError("script_is_zip", field="model", name=name)
    if not _is_text(head):
        raise DomainError("script_not_text", field="model", name=name)


def check_model(name: str, head: bytes) -> None:
    """Raises DomainError model_is_script if the file is a program for sure."""
    if looks_like_model(head):
        return
    is_program = head.startswith(_ZIP)
    if not is_program and b"\0" not in head and _is_text(head):
        is_program = bool(_PYTHON.search(head.decode(errors="replace")))
    if is_program:
        raise DomainError("model_is_script", field="model", name=name)


def looks_like_model(head: bytes) -> bool:
    """Whether a file begins as MegEngine's models do."""
    return head.startswith(_MODELS) or _TAG in (head[4:8], head[8:12])


def _is_zip(name: str) -> bool:
    return name.lower().endswith(".zip")


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    first_lines = head.split(b"\n", 2)[:2]
    if any(_CODING.match(line) for line in first_lines):
        return True
    try:
        # the last character may be cut
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _check_zip(name: str, head: bytes, size_bytes: int, entry: str) -> None:
    if head.startswith(_EMPTY_ZIP):
        raise DomainError("script_zip_empty", field="model", name=name)
    if not head.startswith(_ZIP):
        raise DomainError("script_not_zip", field="model", name=name)
    if len(head) < size_bytes:
        return  # the device tells whether the entry is there
    names = _names(name, head)
    if names is not None and entry not in names:
        programs = [each for each in names if each.endswith(".py")]
        shown = ", ".join(programs[:NAMED]) + (", …" if len(programs) > NAMED else "")
        raise DomainError(
            "script_entry_not_there", field="entry", entry=entry, name=name, names=shown or "–"
        )


def _names(name: str, data: bytes) -> list[str] | None:
    """What a zip holds, None if its list is too long to be looked at here."""
    end = data.rfind(_EMPTY_ZIP)
    if end < 0 or len(data) < end + 22:
        raise DomainError("script_zip_damaged", field="model", name=name)
    (list_bytes,) = struct.unpack_from("<I", data, end + 12)
    # of a larger kind of zip, whose sizes stand elsewhere
    if list_bytes > LONGEST_LIST_BYTES or data.startswith(_ZIP64, max(end - 20, 0)):
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.namelist()
    except _UNREADABLE as error:
        raise DomainError("script_zip_damaged", field="model", name=name) from error
