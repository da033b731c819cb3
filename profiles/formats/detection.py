"""What the first bytes of a file tell: whether it is one of a run, and of which kind.

Files of other tools are refused before they are sent anywhere; whether a file *is* a profile, only
`load_and_run.parse` finds out, and `traces.reading` whether a trace is MegEngine's.
"""

import json
import re
from typing import Literal

#: what a file of a run may be: a pass of load_and_run or of a static graph; MegEngine's Profiler's
#: chrome_timeline.json and memory_flow.svg; StaticMemoryInfo.json and the graph.json beside it
FileKind = Literal["profile", "trace", "memory_flow", "static_memory", "graph"]
#: what a file is instead
Kind = Literal[
    "empty",
    "svg",  # of another program
    "web_page",
    "archive",
    "model",
    "array",
    "pickle",
    "picture",
    "log",
    "list",
    "not_a_profile",
    "not_json",
]

#: so many bytes are enough
HEAD_BYTES = 2_048

_BOM = b"\xef\xbb\xbf"
_FLOW = re.compile(rb"<svg\b[^>]*\bxmlns:tag\s*=\s*[\"']https://megengine")
_STATIC_MEMORY = re.compile(rb'\{\s*"(?:opr|chunk)"\s*:\s*\{')
#: what a profile has below `graph_exec` stands at the top of graph.json
_GRAPH = re.compile(rb'\{\s*"(?:operator|var|mem_chunk|comp_seq)"\s*:')
#: one of them stands at the top of every JSON of a run
_KEYS = frozenset(
    {"profiler", "graph_exec", "traceEvents", "opr", "chunk"}
    | {"operator", "var", "mem_chunk", "comp_seq"}
)
_TRACE = re.compile(rb'"traceEvents"\s*:|\[\s*\{[^{}]*"ph"\s*:')
#: load_and_run's lines start with their time; `iter`, `===` and the title stand in them
_LOG = re.compile(rb"\[\d\d \d\d:\d\d:\d\d |mgb load-and-run|megengine|=== ", re.IGNORECASE)
_STARTS: tuple[tuple[bytes, Kind], ...] = (
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
#: of MegEngine's FlatBuffers, behind a size and an offset of 4 bytes each
_MODEL_TAG, _TAG_AT = b"mgv2", 8


def other_kind(head: bytes) -> Kind | None:
    """Return what the file is if it is none of a run for sure, None if it may be one.

    head: the file's first `HEAD_BYTES` bytes, all of it if it is smaller
    """
    text = head.removeprefix(_BOM).lstrip()
    if not text:
        return "empty"
    if text.startswith((b"{", b"[")):
        return _json_kind(text)
    for start, kind in _STARTS:
        if head.startswith(start):
            return kind
    if head.startswith(_MODEL_TAG, _TAG_AT):
        return "model"
    if text.startswith(b"<"):
        if _FLOW.search(text):
            return None
        return "svg" if b"<svg" in text else "web_page"
    return "log" if _LOG.search(text) else "not_json"


def _json_kind(text: bytes) -> Kind | None:
    if _TRACE.search(text):
        return None
    if text.startswith(b"["):
        return "list"
    return "not_a_profile" if _is_of_another(text) else None


def _is_of_another(text: bytes) -> bool:
    """Whether it is a whole object without any part of a run.

    One that is damaged, or longer than the head, a parser tells.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and not _KEYS & found.keys()


def kind_of(head: bytes) -> FileKind:
    """Return what kind of file of a run it is; any other JSON counts as a profile.

    head: as above, of a file that `other_kind` does not refuse
    """
    text = head.removeprefix(_BOM).lstrip()
    if text.startswith(b"<"):
        return "memory_flow"
    if _TRACE.search(text):
        return "trace"
    if _STATIC_MEMORY.match(text):
        return "static_memory"
    return "graph" if _GRAPH.match(text) else "profile"
