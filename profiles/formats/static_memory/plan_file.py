"""`StaticMemoryInfo.json` as numpy columns, checked: every number in the file is a text.

Written by MegEngine's `StaticMemRecorder` (`src/plugin/impl/static_mem_record.cpp`) as
`{"opr": {step: {id, name}}, "chunk": {id: {...}}}`; what it means is as in MegEngine's own tool,
`megengine.tools.graph_info_analyze`. Unlike that tool, this names what cannot be true.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from profiles.formats.errors import FormatCode, ProfileFormatError
from webprofile.integers import parse_int

Whole = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: a million takes half the memory that the reader has
MOST_CHUNKS = MOST_OPERATORS = 1_000_000
#: an exabyte is no memory, and their sum must stay exact in JavaScript
HIGHEST_ADDRESS, MOST_BYTES_TOGETHER = 1 << 50, 1 << 53
#: of a number
_MOST_DIGITS = 16
NOWHERE = -1


class _Chunk(Struct, gc=False):
    id: str
    type: Literal["static_mem", "weight_mem"]
    time_begin: str
    time_end: str
    logic_addr_begin: str
    logic_addr_end: str
    overwrite_dest_id: str


class _Operator(Struct, gc=False):
    id: str
    name: str


class _File(Struct, gc=False):
    opr: dict[str, _Operator]
    chunk: dict[str, _Chunk]


@dataclass(frozen=True, eq=False)
class PlanFile:
    """The n operators of a plan in order of execution, and its k chunks in order of their ids.

    names: of operators, by step
    ids, begin, end, low, high, overwrites: (k,) int64; a chunk is taken from step `begin` to the
        step before `end`, and lies from address `low` to `high`; `overwrites` is the id of the
        chunk in whose place it is written, NOWHERE for most
    is_weight: (k,) bool: parameters, constants and inputs, taken all the time
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


_DECODER = msgspec.json.Decoder(_File)
_LOOSE = msgspec.json.Decoder(dict[str, Any])
_ENTRY: dict[str, type[Struct]] = {"opr": _Operator, "chunk": _Chunk}
#: a key that each entry has once: more of them than entries, and an id stands twice
_KEYS = {"opr": re.compile(rb'"name"\s*:'), "chunk": re.compile(rb'"time_begin"\s*:')}


def read_plan(data: bytes) -> PlanFile:
    """Return the plan in `data`.

    Raises ProfileFormatError: empty, not_utf8, not_json, too_deep; static_memory_many,
    static_memory_missing, static_memory_bad, static_memory_twice, static_memory_operator.
    """
    file = _decoded(data)
    for section, entries in (("opr", file.opr), ("chunk", file.chunk)):
        _check_entries(section, entries, data)
    names = _names(file.opr)
    plan = _columns(list(file.chunk.values()), names)
    _check(plan)
    return plan


def _decoded(data: bytes) -> _File:
    if not data.strip():
        raise ProfileFormatError("empty", "The file is empty.")
    try:
        return _DECODER.decode(data)
    except msgspec.ValidationError as error:
        raise _explained(data, error) from None
    except UnicodeDecodeError:
        raise ProfileFormatError("not_utf8", "The file is not UTF-8.") from None
    except msgspec.DecodeError as error:
        raise ProfileFormatError("not_json", f"The file is not JSON: {error}.") from None
    except RecursionError:
        raise ProfileFormatError("too_deep", "Its brackets are nested too deep.") from None


def _explained(data: bytes, error: msgspec.ValidationError) -> ProfileFormatError:
    """Name the entry that has another form than it should."""
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
            except msgspec.ValidationError as found:
                missing = isinstance(entry, dict) and "missing required" in str(found)
                code: FormatCode = "static_memory_missing" if missing else "static_memory_bad"
                return _wrong(code, f"{_named(section, key)}: {found}.")
    return _wrong("static_memory_missing", f"{error}.")


def _wrong(code: FormatCode, detail: str) -> ProfileFormatError:
    return ProfileFormatError(code, f"Wrong plan: {detail}")


def _named(section: str, key: object) -> str:
    """An entry as a message names it; what its key is may be anything."""
    kind = {"opr": "operator", "chunk": "chunk"}[section]
    return f"{kind} {str(key)[:40]!r}"


def _check_entries(section: str, entries: Mapping[str, _Operator | _Chunk], data: bytes) -> None:
    most = MOST_OPERATORS if section == "opr" else MOST_CHUNKS
    if len(entries) > most:
        raise _wrong("static_memory_many", f"It has {len(entries)} entries in “{section}”.")
    if sum(1 for _ in _KEYS[section].finditer(data)) > len(entries):
        raise _wrong("static_memory_twice", f"An entry of “{section}” stands twice.")
    for key, entry in entries.items():
        if key != entry.id:
            raise _wrong(
                "static_memory_bad",
                f"{_named(section, key)} calls itself {entry.id[:40]!r}.",
            )


def _numbers(texts: Sequence[str], place: Callable[[int], str]) -> Whole:
    """(k,) int64 of texts that are whole numbers; `place` names one of them for an error."""
    is_plain = all(map(str.isdigit, texts)) and "".join(texts).isascii()
    if not is_plain or max(map(len, texts), default=0) > _MOST_DIGITS:
        for number, text in enumerate(texts):
            if parse_int(text, maximum=10**_MOST_DIGITS - 1) is None:
                shown = f"{place(number)} is {text[:40]!r}, not a whole number."
                raise _wrong("static_memory_bad", shown)
    return np.array(texts, dtype=np.bytes_).astype(np.int64) if texts else np.zeros(0, np.int64)


def _names(operators: Mapping[str, _Operator]) -> tuple[str, ...]:
    """Names by step: ids count from 0 without a gap."""
    keys = list(operators)
    steps = _numbers(keys, lambda at: f"The id of {_named('opr', keys[at])}")
    order = np.argsort(steps, kind="stable")
    wrong = np.flatnonzero(steps[order] != np.arange(len(steps)))
    if len(wrong):
        detail = f"There are {len(keys)} operators, and none has the id {wrong[0]}."
        raise _wrong("static_memory_operator", detail)
    names = [each.name for each in operators.values()]
    return tuple([names[place] for place in order.tolist()])


def _columns(chunks: Sequence[_Chunk], names: tuple[str, ...]) -> PlanFile:
    def column(field: str, texts: Sequence[str] = ()) -> Whole:
        found = texts or [getattr(chunk, field) for chunk in chunks]
        return _numbers(found, lambda at: f"{field} of {_named('chunk', chunks[at].id)}")

    ids = column("id")
    # what overwrites nothing has the id -1, the only number below 0
    over = [each.overwrite_dest_id for each in chunks]
    none = np.array([text == "-1" for text in over], dtype=bool)
    found = column("overwrite_dest_id", ["0" if text == "-1" else text for text in over])
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
        overwrites=np.where(none, NOWHERE, found)[order],
    )


def _check(plan: PlanFile) -> None:
    """Raise for what no plan can be."""
    _check_none(plan, plan.high < plan.low, "ends at a lower address than it begins")
    _check_none(plan, plan.end < plan.begin, "ends at an earlier operator than it begins")
    _check_none(plan, plan.high > HIGHEST_ADDRESS, "lies beyond 1 PiB")
    if plan.size.astype(np.float64).sum() > MOST_BYTES_TOGETHER:
        raise _wrong("static_memory_bad", "Its chunks have more than 8 PiB together.")
    # the tool asks for no times of weights either
    steps, moving = len(plan.names), ~plan.is_weight
    unknown = moving & ((plan.end > steps) | (plan.begin >= steps))
    _check_none(plan, unknown, f"is taken by operators beyond the {steps} of the file",
                "static_memory_operator")  # fmt: skip


def _check_none(
    plan: PlanFile, wrong: Bools, what: str, code: FormatCode = "static_memory_bad"
) -> None:
    found = np.flatnonzero(wrong)
    if len(found):
        raise _wrong(code, f"chunk {plan.ids[found[0]]} {what}.")
