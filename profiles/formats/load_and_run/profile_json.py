"""Decode the JSON of `load_and_run --profile`, restricted to the fields that the site uses.

The accepted syntax is that of Python's `json.load`, which `profile_analyze` uses: duplicate keys
(the last wins), `NaN`, `Infinity` and numbers beyond float64 (infinity). MegEngine itself writes
such values as the strings "inf" and "nan". Unlike `json.load`, escaped lone surrogates are
rejected, and the byte order mark of UTF-8 is accepted.
"""

import json
import re
from mmap import mmap
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Raw

from profiles.formats.detection import refuse_utf16
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.profile_schema import (
    NOTHING,
    Footprint,
    MemPlan,
    ProfileFile,
    Profiler,
    TableGraph,
    TableOperator,
    TensorLayout,
    Times,
    Var,
)

T = TypeVar("T")
TableFile = ProfileFile[TableGraph]

_PROFILE = msgspec.json.Decoder(TableFile)

# A string up to its end or the end of the file, a number that json.load accepts and msgspec does
# not, or any other number. Possessive quantifiers keep the time linear, and the last alternative
# does, too: without it, the search would begin again at each digit of a long number.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_ODD_NUMBER = rb"NaN|-?Infinity|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?[eE]\+?[0-9]{3,}+"
_NUMBER = rb"[-+.0-9eE]++"
# not as a key: `{NaN: 1}` is invalid JSON and must not become `{"nan": 1}`
_NO_KEY = rb"(?![ \t\r\n]*+:)"
_TOKENS = re.compile(
    _STRING + rb"|((?:" + _ODD_NUMBER + rb")" + _NO_KEY + rb")|" + _NUMBER, re.DOTALL
)
_ODD_WORDS = {b"NaN": b'"nan"', b"Infinity": b'"inf"', b"-Infinity": b'"-inf"'}


def decode(data: bytes) -> TableFile:
    """Return the fields of a profile file that passed `check_bytes`.

    Raises only ProfileFormatError if `data` is not a profile.
    """
    try:
        return _decode_either_spelling(data)
    except RecursionError:
        raise ProfileFormatError(
            "too_deep", "The file nests brackets too deeply to be a profile."
        ) from None
    except UnicodeDecodeError as error:
        raise ProfileFormatError("not_utf8", f"A text is not UTF-8: {error.reason}.") from None


def decode_unchecked(data: bytes | mmap) -> TableFile | None:
    """Return the fields as `profile_analyze` reads them with Python's `json`; slow.

    Names of any type become texts, and fields that the tool ignores are not validated. Files of
    MegEngine 1.1 have numbers as ids and a list of variables. Returns None if the tool would end
    with a traceback.
    """
    try:
        dump = json.loads(str(data, "utf-8"))
        return _read_unchecked(dump["graph_exec"], dump["profiler"])
    # any of these can be raised by values of unexpected types
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None


def _read_unchecked(graph: Any, profiler: Any) -> TableFile:
    all_variables = graph["var"]
    operators, variables = {}, {}
    for key, entry in graph["operator"].items():
        inputs, outputs = tuple(entry["input"]), tuple(entry["output"])
        for variable in (*inputs, *outputs):
            variables[variable] = _unchecked_variable(all_variables[variable])
        number = entry["id"]
        if isinstance(number, str) and number != "N/A":
            int(number)
        name, kind, number = _text(entry["name"]), _text(entry["type"]), _text(number)
        operators[key] = TableOperator(name, kind, number, inputs, outputs)

    def known(section: dict[str, Any]) -> dict[str, Any]:
        return {key: entry for key, entry in section.items() if key in operators}

    def times(side: str) -> dict[str, dict[str, Times]]:
        return {
            key: {node: _unchecked_times(dict(entry)) for node, entry in nodes.items()}
            for key, nodes in known(profiler[side]).items()
        }

    costs = known(profiler.get("opr_footprint", {}))
    footprints = {key: _unchecked_footprint(dict(entry)) for key, entry in costs.items()}
    return TableFile(
        profiler=Profiler(times("device"), times("host"), footprints),
        graph_exec=TableGraph(operators, variables),
    )


def _text(value: Any) -> str:
    """Return a value as text. Raises UnicodeEncodeError for a lone surrogate."""
    text = str(value)
    text.encode()
    return text


def _unchecked_variable(variable: Any) -> Var:
    """Read a variable, whose dtype may be missing: the tool fails only if the dtype is needed."""
    try:
        dtype = variable["mem_plan"]["layout"]["dtype"]
    except (LookupError, TypeError):
        return Var()
    return Var(MemPlan(TensorLayout(dtype if isinstance(dtype, str) else None)))


def _unchecked_times(times: dict[str, Any]) -> Times:
    kern = times.get("kern")
    # only --top-end-key kern uses it, so a missing value is no error
    return Times(
        start=_number(times["start"]),
        kern=_number(kern) if isinstance(kern, int | float) else UNSET,
        end=_number(times["end"]),
    )


def _unchecked_footprint(cost: dict[str, Any]) -> Footprint:
    def raw(field: str) -> Raw:
        if field not in cost:
            return NOTHING
        text = json.dumps(cost[field])
        # values that JSON lacks are written as the tool prints them
        return Raw(json.dumps(json.loads(text, parse_constant=lambda n: str(float(n)))).encode())

    return Footprint(
        computation=_number(cost["computation"]) if cost.get("computation") else None,
        memory=_number(cost["memory"]) if "memory" in cost else UNSET,
        in_shapes=raw("in_shapes"),
        out_shapes=raw("out_shapes"),
        in_layouts=raw("in_layouts"),
    )


def _number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError(value)
    return float(value)


def check_bytes(data: bytes | mmap, max_bytes: int) -> None:
    """Reject data without decoding it: empty, too large, or UTF-16."""
    if len(data) > max_bytes:
        raise ProfileFormatError(
            "too_large", f"The file has {len(data)} bytes; the limit is {max_bytes}."
        )
    if not data or (data[:1].isspace() and data[:].isspace()):
        raise ProfileFormatError(
            "empty",
            "The file is empty. MegEngine leaves an empty profile if a name in the model is not "
            "ASCII.",
        )
    refuse_utf16(data[:4])


def check_utf8(data: bytes | mmap) -> None:
    """Reject data that is not UTF-8 anywhere, since msgspec does not check the fields it skips."""
    if np.frombuffer(data, dtype=np.int8).min() < 0:
        try:
            str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise ProfileFormatError(
                "not_utf8", f"The file is not UTF-8: {error.reason} at byte {error.start}."
            ) from None


def _decode_either_spelling(data: bytes) -> TableFile:
    try:
        return _PROFILE.decode(data)
    except msgspec.DecodeError:
        pass
    return _decode_by_entry(quote_special_numbers(data))


def quote_special_numbers(data: bytes) -> bytes:
    """Return JSON in which NaN and infinity are strings, as MegEngine writes them."""
    return _TOKENS.sub(_spell, data)


def null_special_numbers(data: bytes) -> bytes:
    """Return JSON in which NaN and infinity are null, also numbers beyond float64."""
    return _TOKENS.sub(lambda match: match[0] if _spell(match) == match[0] else b"null", data)


def _spell(match: re.Match[bytes]) -> bytes:
    """Replacement for a match of `_TOKENS`: NaN and infinity become strings."""
    number = match[1]
    if number is None:
        return match[0]
    if number in _ODD_WORDS:
        return _ODD_WORDS[number]
    value = float(number)
    return number if abs(value) < float("inf") else b'"%s"' % str(value).encode()


def _decode_by_entry(data: bytes) -> TableFile:
    """Decode entry by entry: slower, but errors name the entry and the last duplicate key wins."""
    try:
        top = msgspec.json.decode(data, type=dict[str, Raw])
    except msgspec.ValidationError as error:
        raise ProfileFormatError(
            "not_a_profile", f"The file is JSON but not a profile: {error}."
        ) from None
    except msgspec.DecodeError as error:
        raise ProfileFormatError(
            "not_json", f"The file is not JSON: {_without_prefix(error)}."
        ) from None
    if not top.keys() & {"profiler", "graph_exec"}:
        raise ProfileFormatError(
            "not_a_profile",
            "The file is JSON but not a profile: it has neither `profiler` nor `graph_exec`.",
        )
    profiler = _member(top, "profiler", "the file", dict[str, Raw])
    graph = _member(top, "graph_exec", "the file", dict[str, Raw])
    footprints = _section(profiler, "profiler", "opr_footprint", Footprint, optional=True)
    return TableFile(
        profiler=Profiler(
            device=_section(profiler, "profiler", "device", dict[str, Times]),
            host=_section(profiler, "profiler", "host", dict[str, Times]),
            opr_footprint=footprints,
        ),
        graph_exec=TableGraph(
            operator=_section(graph, "graph_exec", "operator", TableOperator),
            var=_section(graph, "graph_exec", "var", Var),
        ),
    )


def _section(
    parent: dict[str, Raw], name: str, key: str, entry_type: type[T], *, optional: bool = False
) -> dict[str, T]:
    if optional and key not in parent:
        return {}
    entries = _member(parent, key, f"`{name}`", dict[str, Raw])
    return {k: _member(entries, k, f"`{name}.{key}`", entry_type) for k in entries}


def _member(parent: dict[str, Raw], key: str, place: str, member_type: type[T]) -> T:
    if key not in parent:
        raise ProfileFormatError("missing_key", f"Wrong data: {place} has no {quoted(key)}.")
    try:
        return msgspec.json.decode(parent[key], type=member_type)
    except msgspec.DecodeError as error:
        missing = str(error).startswith("Object missing required field")
        raise ProfileFormatError(
            "missing_key" if missing else "bad_value",
            f"Wrong data: in {place}, {quoted(key)}: {error}.",
        ) from None


def _without_prefix(error: msgspec.DecodeError) -> str:
    text = str(error).removeprefix("JSON is malformed: ")
    return text[:1].lower() + text[1:]


def quoted(value: object) -> str:
    """Format a value for an error message: quoted, at most 80 characters."""
    if isinstance(value, list | dict):  # repr may fail on deep nesting
        return "a list" if isinstance(value, list) else "an object"
    text = repr(value) if not isinstance(value, str) else repr(value[:100])
    return text if len(text) <= 80 else f"{text[:77]}..."
