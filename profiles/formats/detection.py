"""Detect the kind of a file from its first bytes.

Files of other tools are rejected before they are uploaded. Whether a file really is a profile is
only known after `load_and_run.reader.parse`, and whether a trace is MegEngine's after
`chrome_trace.dynamic_profile.read_dynamic`.
"""

import json
import re
from mmap import mmap
from pathlib import Path
from typing import Literal, TypeVar

from profiles.formats.errors import ProfileFormatError

AnyBytes = TypeVar("AnyBytes", bound=bytes | mmap)

#: kinds of files of a run: a pass of load_and_run or of a static graph; chrome_timeline.json and
#: memory_flow.svg of MegEngine's Profiler; StaticMemoryInfo.json and its graph.json
FileKind = Literal["profile", "trace", "memory_flow", "static_memory", "graph"]
#: kinds of unsupported files
Kind = Literal[
    "empty",
    "svg",  # of another program
    "web_page",
    "archive",
    "lfs_pointer",
    "model",
    "array",
    "pickle",
    "picture",
    "log",
    "list",
    "utf16",  # UTF-16 or UTF-32
    "not_a_profile",
    "not_json",
]

#: number of leading bytes needed for the detection
HEAD_BYTES = 2_048

_BOM = b"\xef\xbb\xbf"
#: begin of JSON in UTF-16 or UTF-32, with or without a byte order mark
_UTF16 = re.compile(rb"\xff\xfe|\xfe\xff|\x00\x00\xfe\xff|\x00{1,3}[\s{\[]|[\s{\[]\x00")
_FLOW = re.compile(rb"<svg\b[^<>]*\bxmlns:tag\s*=\s*[\"']https://megengine")
_STATIC_MEMORY = re.compile(rb'\{\s*"(?:opr|chunk)"\s*:\s*\{')
#: graph.json has at its top level what a profile has in `graph_exec`
_GRAPH = re.compile(rb'\{\s*"(?:operator|var|mem_chunk|comp_seq)"\s*:')
#: every JSON file of a run has one of these keys at its top level
_KEYS = frozenset(
    {"profiler", "graph_exec", "traceEvents", "opr", "chunk"}
    | {"operator", "var", "mem_chunk", "comp_seq"}
)
_TRACE_KEY = re.compile(rb'"traceEvents"\s*:')
#: a key of each event, which may come after its `args`
_PHASE = re.compile(rb'"ph"\s*:\s*"')
_LIST_OF_OBJECTS = re.compile(rb"\[\s*\{")
#: lines of load_and_run start with the time; `===` and the title are part of its output
_LOG = re.compile(rb"\[\d\d \d\d:\d\d:\d\d |mgb load-and-run|megengine|=== ", re.IGNORECASE)
_STARTS: tuple[tuple[bytes, Kind], ...] = (
    (b"version https://git-lfs", "lfs_pointer"),
    (b"\x1f\x8b", "archive"),
    (b"PK\x03\x04", "archive"),
    (b"\xfd7zXZ", "archive"),
    (b"BZh", "archive"),
    (b"\x28\xb5\x2f\xfd", "archive"),
    (b"7z\xbc\xaf", "archive"),
    (b"\x93NUMPY", "array"),
    (b"\x89PNG", "picture"),
    (b"\xff\xd8\xff", "picture"),
    (b"mgbtest0", "model"),
    (b"mgbteset0", "model"),
    (b"MGBC", "model"),
    (b"\x80", "pickle"),
)
#: identifier of MegEngine's FlatBuffers files, after a size and an offset of 4 bytes each
_MODEL_TAG, _TAG_AT = b"mgv2", 8


def read_head(path: Path) -> bytes:
    """Return the first bytes of a file, for the functions below."""
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def is_utf16(head: bytes) -> bool:
    """Whether JSON that begins with these bytes is UTF-16 or UTF-32, as PowerShell's `>` writes."""
    return _UTF16.match(head) is not None


def refuse_utf16(head: bytes) -> None:
    """Raise ProfileFormatError (`utf16`) for JSON in UTF-16 or UTF-32."""
    if is_utf16(head):
        raise ProfileFormatError("utf16", "The file is UTF-16: save it as UTF-8.")


def without_mark(data: AnyBytes) -> AnyBytes | bytes:
    """Return the data with spaces for the byte order mark of UTF-8, so that positions are kept."""
    return b"   " + data[len(_BOM) :] if data[: len(_BOM)] == _BOM else data


def other_kind(head: bytes) -> Kind | None:
    """Return the kind of an unsupported file, None if the file may be part of a run.

    head: the first `HEAD_BYTES` bytes of the file, or all of a smaller file
    """
    text = head.removeprefix(_BOM).lstrip()
    if not text:
        return "empty"
    for start, kind in _STARTS:
        if head.startswith(start):
            return kind
    if head.startswith(_MODEL_TAG, _TAG_AT):
        return "model"
    if is_utf16(head):
        return "utf16"
    if text.startswith((b"{", b"[")):
        return _json_kind(text)
    if text.startswith(b"<"):
        if _FLOW.search(text):
            return None
        return "svg" if b"<svg" in text else "web_page"
    return "log" if _LOG.search(text) else "not_json"


def _is_trace(text: bytes) -> bool:
    """Whether a JSON text has events of a trace, in an object or as a list.

    A list whose first object is longer than the head is left to the parser.
    """
    if _TRACE_KEY.search(text):
        return True
    first = _LIST_OF_OBJECTS.match(text)
    return bool(first) and bool(_PHASE.search(text) or not _begins_with_value(text[1:]))


def _begins_with_value(text: bytes) -> bool:
    """Whether a complete JSON value is at the begin of the text."""
    try:
        json.JSONDecoder().raw_decode(text.decode("utf-8", "replace").lstrip())
    except (ValueError, RecursionError):
        return False
    return True


def _json_kind(text: bytes) -> Kind | None:
    if _is_trace(text):
        return None
    if text.startswith(b"["):
        return "list"
    return "not_a_profile" if _is_of_another(text) else None


def _is_of_another(text: bytes) -> bool:
    """Whether the text is a complete JSON object without any key of a run.

    Damaged objects and objects longer than the head are left to the parsers.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and not _KEYS & document.keys()


def kind_of(head: bytes) -> FileKind:
    """Return the kind of a file of a run; JSON that is not recognised counts as a profile.

    head: as for `other_kind`, which must have returned None
    """
    text = head.removeprefix(_BOM).lstrip()
    if text.startswith(b"<"):
        return "memory_flow"
    if _is_trace(text):
        return "trace"
    if _STATIC_MEMORY.match(text):
        return "static_memory"
    return "graph" if _GRAPH.match(text) else "profile"
