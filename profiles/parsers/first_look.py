"""What the first bytes of a file tell: whether it can be a profile at all.

Files of other tools are refused before they are sent anywhere; whether a file *is* a profile, only
`load_and_run.parse` finds out, and `traces.reading` whether a trace is MegEngine's.
"""

import re
from typing import Literal

#: what a file is instead of a profile
Kind = Literal[
    "empty",
    "svg",  # its memory_flow.svg
    "web_page",
    "archive",
    "model",
    "array",
    "pickle",
    "picture",
    "log",
    "list",
    "not_json",
]

#: so many bytes are enough
HEAD_BYTES = 2_048

_BOM = b"\xef\xbb\xbf"
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
    """Return what the file is if it is no profile for sure, None if it may be one.

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
        return "svg" if b"<svg" in text else "web_page"
    return "log" if _LOG.search(text) else "not_json"


def _json_kind(text: bytes) -> Kind | None:
    if _TRACE.search(text):
        return None
    return "list" if text.startswith(b"[") else None


def looks_like_trace(head: bytes) -> bool:
    """Whether a file is a Chrome trace, of MegEngine's Profiler or of another program.

    head: as above
    """
    text = head.removeprefix(_BOM).lstrip()
    return text.startswith((b"{", b"[")) and bool(_TRACE.search(text))
