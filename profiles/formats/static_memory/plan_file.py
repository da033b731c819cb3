"""Read `StaticMemoryInfo.json` into validated numpy columns; every number in it is a text.

MegEngine's `StaticMemRecorder` (`src/plugin/impl/static_mem_record.cpp`) writes it as
`{"opr": {step: {id, name}}, "chunk": {id: {...}}}`; the semantics are those of MegEngine's own tool
`megengine.tools.graph_info_analyze`. Unlike that tool, this reader rejects impossible values. A
device stores the file in a zip, together with its graph.json (`unpack`).
"""

import re
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from profiles.formats.detection import refuse_utf16, without_mark
from profiles.formats.errors import FormatCode, ProfileFormatError
from webprofile.integers import parse_int

Whole = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: a million takes half of the reader's memory limit
MOST_CHUNKS = MOST_OPERATORS = 1_000_000
#: limits of an address and of the sum of all sizes, which must be exact in JavaScript
HIGHEST_ADDRESS, MOST_BYTES_TOGETHER = 1 << 50, 1 << 53
#: maximum number of digits of a number
_MOST_DIGITS = 16
NOWHERE = -1

#: names of the files in the zip in which a device stores them, as MegEngine names them
PLAN_NAME, GRAPH_NAME = "StaticMemoryInfo.json", "graph.json"
#: maximum number of files in the zip; a device packs two
_MOST_FILES = 1_000
_PIECE_BYTES = 1 << 20
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError,
    ValueError, LookupError,
)  # fmt: skip


class _PlanChunk(Struct, gc=False):
    id: str
    type: Literal["static_mem", "weight_mem"]
    time_begin: str
    time_end: str
    logic_addr_begin: str
    logic_addr_end: str
    overwrite_dest_id: str


class _PlanOperator(Struct, gc=False):
    id: str
    name: str


class _PlanJson(Struct, gc=False):
    opr: dict[str, _PlanOperator]
    chunk: dict[str, _PlanChunk]


@dataclass(frozen=True, eq=False)
class PlanFile:
    """The n operators of a plan in execution order, and its k chunks in the order of their ids.

    names: names of the operators, by step
    ids, begin, end, low, high, overwrites: (k,) int64; a chunk is in use from step `begin` to the
        step before `end`, at the addresses from `low` to `high`; `overwrites` is the id of the
        chunk that it is written over in place, NOWHERE for most
    is_weight: (k,) bool: parameters, constants and inputs, which are always in use
    """

    names: tuple[str, ...]
    ids: Whole
    is_weight: Bools
    begin: Whole
    end: Whole
    low: Whole
    high: Whole
    overwrites: Whole

    @cached_property
    def size(self) -> Whole:
        """(k,) int64, bytes."""
        return self.high - self.low


_DECODER = msgspec.json.Decoder(_PlanJson)
_LOOSE = msgspec.json.Decoder(dict[str, Any])
_ENTRY: dict[str, type[Struct]] = {"opr": _PlanOperator, "chunk": _PlanChunk}
#: a key that each entry has once: if it occurs more often than there are entries, an id is
#: duplicated
_KEYS = {"opr": re.compile(rb'"name"\s*:'), "chunk": re.compile(rb'"time_begin"\s*:')}


def read_plan(data: bytes) -> PlanFile:
    """Return the plan in `data`.

    Raises ProfileFormatError: empty, utf16, not_utf8, not_json, too_deep; static_memory_many,
    static_memory_missing, static_memory_bad, static_memory_twice, static_memory_operator.
    """
    file = _decode(data)
    for section, entries in (("opr", file.opr), ("chunk", file.chunk)):
        _check_entries(section, entries, data)
    names = _names(file.opr)
    plan = _columns(list(file.chunk.values()), names)
    _check(plan)
    return plan


def _decode(data: bytes) -> _PlanJson:
    if not data.strip():
        raise ProfileFormatError("empty", "The file is empty.")
    refuse_utf16(data[:4])
    data = without_mark(data)
    try:
        return _DECODER.decode(data)
    except msgspec.ValidationError as error:
        raise _schema_error(data, error) from None
    except UnicodeDecodeError:
        raise ProfileFormatError("not_utf8", "The file is not UTF-8.") from None
    except msgspec.DecodeError as error:
        raise ProfileFormatError("not_json", f"The file is not JSON: {error}.") from None
    except RecursionError:
        raise ProfileFormatError("too_deep", "Its brackets are nested too deep.") from None


def _schema_error(data: bytes, error: msgspec.ValidationError) -> ProfileFormatError:
    """The error for a file that does not match the schema; names the invalid entry."""
    try:
        file = _LOOSE.decode(data)
    except RecursionError:
        return ProfileFormatError("too_deep", "Its brackets are nested too deep.")
    except (msgspec.DecodeError, UnicodeDecodeError) as damage:
        return ProfileFormatError("not_json", f"The file is not JSON: {damage}.")
    for section, form in _ENTRY.items():
        entries = file.get(section)
        if not isinstance(entries, dict):
            if section in file:
                return _wrong("static_memory_bad", f"“{section}” is no object.")
            continue
        for key, entry in entries.items():
            try:
                msgspec.convert(entry, form)
            except msgspec.ValidationError as mismatch:
                missing = isinstance(entry, dict) and "missing required" in str(mismatch)
                code: FormatCode = "static_memory_missing" if missing else "static_memory_bad"
                return _wrong(code, f"{_entry_name(section, key)}: {mismatch}.")
    return _wrong("static_memory_missing", f"{error}.")


def _wrong(code: FormatCode, detail: str) -> ProfileFormatError:
    return ProfileFormatError(code, f"Wrong plan: {detail}")


def _entry_name(section: str, key: object) -> str:
    """Describe an entry for an error message; its key is untrusted."""
    kind = {"opr": "operator", "chunk": "chunk"}[section]
    return f"{kind} {str(key)[:40]!r}"


def _check_entries(
    section: str, entries: Mapping[str, _PlanOperator | _PlanChunk], data: bytes
) -> None:
    most = MOST_OPERATORS if section == "opr" else MOST_CHUNKS
    if len(entries) > most:
        raise _wrong("static_memory_many", f"It has {len(entries)} entries in “{section}”.")
    if sum(1 for _ in _KEYS[section].finditer(data)) > len(entries):
        raise _wrong("static_memory_twice", f"An entry of “{section}” stands twice.")
    for key, entry in entries.items():
        if key != entry.id:
            raise _wrong(
                "static_memory_bad",
                f"{_entry_name(section, key)} calls itself {entry.id[:40]!r}.",
            )


def _numbers(texts: Sequence[str], place: Callable[[int], str]) -> Whole:
    """Parse texts as (k,) int64; `place` describes the text at an index for an error."""
    is_plain = all(map(str.isdigit, texts)) and "".join(texts).isascii()
    if not is_plain or max(map(len, texts), default=0) > _MOST_DIGITS:
        for number, text in enumerate(texts):
            if parse_int(text, maximum=10**_MOST_DIGITS - 1) is None:
                detail = f"{place(number)} is {text[:40]!r}, not an integer."
                raise _wrong("static_memory_bad", detail)
    return np.array(texts, dtype=np.bytes_).astype(np.int64) if texts else np.zeros(0, np.int64)


def _names(operators: Mapping[str, _PlanOperator]) -> tuple[str, ...]:
    """Names by step; raises if the ids are not consecutive from 0."""
    keys = list(operators)
    steps = _numbers(keys, lambda at: f"The id of {_entry_name('opr', keys[at])}")
    order = np.argsort(steps, kind="stable")
    wrong = np.flatnonzero(steps[order] != np.arange(len(steps)))
    if len(wrong):
        detail = f"There are {len(keys)} operators, and none has the id {wrong[0]}."
        raise _wrong("static_memory_operator", detail)
    names = [operator.name for operator in operators.values()]
    return tuple([names[index] for index in order.tolist()])


def _columns(chunks: Sequence[_PlanChunk], names: tuple[str, ...]) -> PlanFile:
    def column(field: str, texts: Sequence[str] = ()) -> Whole:
        values = texts or [getattr(chunk, field) for chunk in chunks]
        return _numbers(values, lambda at: f"{field} of {_entry_name('chunk', chunks[at].id)}")

    ids = column("id")
    # chunks that overwrite nothing have -1, the only negative number
    over = [chunk.overwrite_dest_id for chunk in chunks]
    none = np.array([text == "-1" for text in over], dtype=bool)
    overwrites = column("overwrite_dest_id", ["0" if text == "-1" else text for text in over])
    order = np.argsort(ids, kind="stable")
    weights = np.array([chunk.type == "weight_mem" for chunk in chunks], dtype=bool)
    return PlanFile(
        names=names,
        ids=ids[order],
        is_weight=weights[order],
        begin=column("time_begin")[order],
        end=column("time_end")[order],
        low=column("logic_addr_begin")[order],
        high=column("logic_addr_end")[order],
        overwrites=np.where(none, NOWHERE, overwrites)[order],
    )


def _check(plan: PlanFile) -> None:
    """Raise ProfileFormatError for impossible plans."""
    _check_none(plan, plan.high < plan.low, "ends at a lower address than it begins")
    _check_none(plan, plan.end < plan.begin, "ends at an earlier operator than it begins")
    _check_none(plan, plan.high > HIGHEST_ADDRESS, "lies beyond 1 PiB")
    if plan.size.astype(np.float64).sum() > MOST_BYTES_TOGETHER:
        raise _wrong("static_memory_bad", "Its chunks have more than 8 PiB together.")
    # times of weights are not checked, as in MegEngine's tool
    steps, moving = len(plan.names), ~plan.is_weight
    unknown = moving & ((plan.end > steps) | (plan.begin >= steps))
    _check_none(plan, unknown, f"is taken by operators beyond the {steps} of the file",
                "static_memory_operator")  # fmt: skip


def _check_none(
    plan: PlanFile, wrong: Bools, what: str, code: FormatCode = "static_memory_bad"
) -> None:
    wrong_chunks = np.flatnonzero(wrong)
    if len(wrong_chunks):
        raise _wrong(code, f"chunk {plan.ids[wrong_chunks[0]]} {what}.")


def unpack(path: Path, folder: Path, *, max_bytes: int) -> tuple[Path, Path | None]:
    """Extract plan and graph from the zip at `path` into `folder`; the graph may be missing.

    max_bytes: limit of each file, whatever size the zip declares
    Raises ProfileFormatError static_memory_zip, too_large.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if len(names) > _MOST_FILES or PLAN_NAME not in names:
                raise _no_plan(f"{PLAN_NAME} is not in it")
            folder.mkdir()
            plan = _unpack_file(archive, PLAN_NAME, folder, max_bytes)
            has_graph = GRAPH_NAME in names
            return plan, _unpack_file(archive, GRAPH_NAME, folder, max_bytes) if has_graph else None
    except ProfileFormatError:
        raise
    except _DAMAGE as error:
        raise _no_plan(str(error) or type(error).__name__) from None


def _unpack_file(archive: zipfile.ZipFile, name: str, folder: Path, max_bytes: int) -> Path:
    target = folder / name
    left = max_bytes
    with archive.open(name) as source, target.open("wb") as file:
        while piece := source.read(_PIECE_BYTES):
            left -= len(piece)
            if left < 0:
                text = f"{name} in the archive has more than {max_bytes} bytes."
                raise ProfileFormatError("too_large", text)
            file.write(piece)
    return target


def _no_plan(why: str) -> ProfileFormatError:
    return ProfileFormatError("static_memory_zip", f"It holds no memory plan: {why}.")
