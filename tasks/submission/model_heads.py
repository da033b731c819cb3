"""Recognize MegEngine models by their first bytes, and name what other files are.

`static/js/tasks/new/file_heads.js` applies the same rules; `webprofile/tests/test_scripts.py` tests
both with the same files. Sources: MegEngine `src/serialization/impl/serializer_oss*.cpp`,
`lite/src/parse_model/model_parser.cpp`.
"""

import codecs
import re
import struct
from typing import Literal

from webprofile.errors import DomainError

#: how much of a program or a model is read
HEAD_BYTES = 64 * 1024
#: number of bytes at the start of a file that determine its form
FORM_BYTES = 32
#: v2: what MegEngine dumps by default (`dump_format='FBS_V2'`); v1: `FBS`; old: before
#: FlatBuffers; packed: `load_and_run --packed_model_dump`; other: no model
ModelForm = Literal["v2", "v1", "old", "packed", "other"]

#: precedes a graph with test data (`trace.dump(input_data=...)`), with the number of test cases
_TEST_CASE = b"mgbtest0"
_TEST_CASE_BYTES = 12
#: identifier of FlatBuffers at byte 8, after the size of what follows and the offset of the root
_TAG = b"mgv2"
_OLD = (b"mgb0001", b"mgb0000a", b"MGBS")
#: forms that end with a size and that many bytes of FlatBuffers: bytes before the weights, the last
#: 8 of which are the size of the weights
_SIZED_WEIGHTS = {b"MGBC": 24, b"MGBS": 16}
#: load_and_run reads no shorter file
_SHORTEST = 16
#: with so many line ends, that all are CRLF is no coincidence
_MANY_LINE_ENDS = 4
_REPLACEMENT = "\ufffd".encode()
#: files that are mistaken for models, by their first bytes; the error is `model_is_<kind>`
_OTHERS = (
    (b"version https://git-lfs", "lfs_pointer"),
    (b"PK\x03\x04", "zip"),
    (b"\x80\x02", "pickle"),
    (b"\x80\x03", "pickle"),
    (b"\x80\x04", "pickle"),
    (b"\x80\x05", "pickle"),
    (b"\x93NUMPY", "npy"),
    (b"\x89HDF", "hdf5"),
    (b"\x1f\x8b", "gzip"),
    (b"\x89PNG", "picture"),
    (b"\xff\xd8\xff", "picture"),
    (b"GIF8", "picture"),
    (b"\x7fELF", "executable"),
    (b"{", "json"),
)
_WEB_PAGES = (b"<!doctype html", b"<html")
#: PEP 263
_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*[-_.a-zA-Z0-9]+")


def graph_offset(head: bytes) -> int:
    """Return where the graph begins: behind the header of test data, if the file has one."""
    return _TEST_CASE_BYTES if head.startswith(_TEST_CASE) else 0


def model_form(head: bytes) -> ModelForm:
    """Return the form of the model whose first bytes, at least `FORM_BYTES`, are `head`."""
    start = head[graph_offset(head) :]
    if start[8:12] == _TAG:
        return "v2"
    if start.startswith(b"MGBC"):
        return "v1"
    if start.startswith(b"packed_model"):
        return "packed"
    return "old" if start.startswith(_OLD) else "other"


def graph_end(head: bytes) -> int | None:
    """Return where the graph of a v2 model ends; None for other forms."""
    if model_form(head) != "v2":
        return None
    offset = graph_offset(head)
    (length,) = struct.unpack_from("<I", head, offset)
    return int(offset + 4 + length)


def _least_size(head: bytes) -> int:
    """Return how long a model with sized weights is at least; 0 for other forms.

    The size of the graph follows the weights, so it counts only if they end within `head`.
    """
    start = graph_offset(head)
    prefix = _SIZED_WEIGHTS.get(head[start : start + 4])
    if prefix is None:
        return 0
    weights = start + prefix
    if len(head) < weights:
        return weights
    graph = weights + int.from_bytes(head[weights - 8 : weights], "little")
    size = int.from_bytes(head[graph : graph + 4], "little") if graph + 4 <= len(head) else 0
    return graph + 4 + size


def check_model(name: str, head: bytes, size_bytes: int) -> None:
    """Raise DomainError model_* unless the file begins as a model does and is long enough.

    head: the first HEAD_BYTES of the file
    size_bytes: size of the whole file
    """
    code, data = _problem(head, size_bytes)
    if code:
        raise DomainError(code, field="model", name=name, **data)


def _problem(head: bytes, size_bytes: int) -> tuple[str, dict[str, int]]:
    if model_form(head) == "other" and (code := _other(head, size_bytes)):
        return code, {}
    end = graph_end(head)
    if _is_changed(head, None if end is None else size_bytes - end):
        return "model_changed", {}
    wanted = max(end or _least_size(head), _SHORTEST)
    if size_bytes < wanted:
        return "model_cut_short", {"size": size_bytes, "wanted": wanted}
    return "", {}


def _other(head: bytes, size_bytes: int) -> str:
    """Return the error of what is no model; empty if too little is left to tell."""
    if _TAG in head[:FORM_BYTES]:
        return "model_changed"
    for start, kind in _OTHERS:
        if head.startswith(start):
            return f"model_is_{kind}"
    if head.lstrip(b" \t\r\n")[:14].lower().startswith(_WEB_PAGES):
        return "model_is_web_page"
    if size_bytes < _SHORTEST:
        return ""
    return "model_is_text" if is_text(head) else "model_unknown"


def _is_changed(head: bytes, extra: int | None) -> bool:
    """Whether a program took the model for text, and changed its line ends or its encoding.

    extra: how many bytes the file is longer than its header says; None if the header does not
        tell its size
    """
    if extra == 0:
        return False
    line_ends = head.count(b"\r\n")
    if line_ends == head.count(b"\n") and (line_ends >= _MANY_LINE_ENDS or line_ends == extra):
        return True
    return _REPLACEMENT in head and is_utf8(head)


def is_text(head: bytes) -> bool:
    """Whether the bytes can be Python source: UTF-8, or the encoding named in two first lines."""
    if b"\0" in head:
        return False
    first_lines = head.split(b"\n", 2)[:2]
    return any(_CODING.match(line) for line in first_lines) or is_utf8(head)


def is_utf8(head: bytes) -> bool:
    """Whether the bytes are UTF-8; they may end within a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True
