"""Parse load_and_run's JSON files of inputs: {"<input>": {"shape", "type", "raw"}, ...}.

Lists of numbers are kept as text, and converted piece by piece, because Python objects would take
twenty times the memory.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.protocol.input_rules import JSON_DTYPES, LONGEST_NAME, MOST_AXES, can_be_given
from agent.protocol.inputs import (
    FLOAT32_LIMIT,
    Array,
    InputError,
    RuntimeKind,
    Shape,
    braces,
    check_axes,
)
from agent.protocol.inputs.npy import read_start

#: size limit of a file in bytes, since it is read as a whole
LONGEST_JSON = 8 << 20
_MOST_INPUTS = 64
_SHOWN = 100
#: length of the text that is converted at once, in characters
_PIECE = 1 << 18
_SPACE = r"[ \t\n\r]*+"
_NUMBER = r"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+" + _SPACE
#: matches strings (so that their content is not matched otherwise), flat lists of numbers, and NaN
#: and Infinity, which Python's parser accepts although JSON does not have them. An unterminated
#: string matches, too: otherwise each quote in it would be tried as the start of another string.
_TOKENS = re.compile(
    rf'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+|\[{_SPACE}(?:{_NUMBER}(?:,{_SPACE}{_NUMBER})*+)?+\]'
    r"|NaN|-?Infinity",
    re.DOTALL,
)


@dataclass(frozen=True)
class _Numbers:
    """A flat list of numbers, as text."""

    text: str

    def __len__(self) -> int:
        return self.text.count(",") + 1 if self.text.strip("[] \t\n\r") else 0

    def pieces(self) -> Iterator[NDArray[np.float64]]:
        """Yield the numbers in order; those beyond the range of float64 are infinite."""
        start, last = 1, len(self.text) - 1
        while start < last:
            comma = self.text.find(",", start + _PIECE)
            end = last if comma < 0 else comma
            yield np.fromstring(self.text[start:end], np.float64, sep=",")
            start = end + 1


def read_json(path: Path) -> dict[str, Array]:
    """Read a JSON file, see `parse_json`."""
    _, size = read_start(path)
    check_json_size(path.name, size)
    return parse_json(path.name, path.read_bytes())


def check_json_size(name: str, size: int) -> None:
    """Raise InputError if the file is too large to be read as a whole."""
    if size > LONGEST_JSON:
        limit = LONGEST_JSON >> 20
        text = f'"{name}" is larger than {limit} MiB; use npy files for large inputs.'
        raise InputError("too_large", text, "json_large", limit_mib=limit)


def parse_json(name: str, data: bytes, kind: RuntimeKind = "wheel") -> dict[str, Array]:
    """Return the arrays of all inputs in a JSON file, in file order. Raises InputError."""
    try:
        content = _decode(name, data)
    except RecursionError:
        raise InputError("json", f'"{name}" is nested too deeply.', "json_deep") from None
    except InputError:
        raise
    except ValueError as error:
        raise _wrong(name, str(error)) from None
    if not isinstance(content, dict):
        raise _wrong(name, "not an object")
    if not 1 <= len(content) <= _MOST_INPUTS:
        raise InputError(
            "json",
            f'"{name}" describes {len(content)} inputs; the number must be 1 to {_MOST_INPUTS}.',
            "json_count",
            count=len(content),
            limit=_MOST_INPUTS,
        )
    return {key: _entry(name, key, entry, kind) for key, entry in content.items()}


def _wrong(name: str, problem: str) -> InputError:
    return InputError(
        "json",
        f'"{name}" is not valid JSON of inputs ({problem}). It must be an object: '
        '{"<input>": {"shape", "type", "raw"}}.',
        "json",
        problem=problem[:200],
    )


def _decode(name: str, data: bytes) -> Any:
    """Decode the JSON, with a `_Numbers` for each flat list of numbers. Raises ValueError.

    Each such list is replaced by NaN before decoding; Python's decoder calls `parse_constant` for
    these in order.
    """
    lists = list[str]()

    def keep(match: re.Match[str]) -> str:
        token = match[0]
        if token[0] == '"':
            return token
        if token[0] != "[":
            raise ValueError(f"{token} is not a JSON number")
        lists.append(token)
        return "NaN"  # a NaN of the file itself was rejected above

    text = _TOKENS.sub(keep, data.decode("utf-8-sig"))
    numbers = iter(lists)
    return json.loads(
        text,
        parse_constant=lambda _: _Numbers(next(numbers)),
        object_pairs_hook=lambda pairs: _distinct(name, pairs),
    )


def _distinct(name: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict[str, Any]()
    for key, value in pairs:
        if key in content:
            short_key = key[:_SHOWN]
            text = f'In "{name}" the key "{short_key}" occurs twice in one object.'
            raise InputError("json", text, "json_twice", input=short_key)
        content[key] = value
    return content


def _entry(name: str, key: str, entry: Any, kind: RuntimeKind) -> Array:
    short_key = key[:_SHOWN]
    what = f'Input "{short_key}" in "{name}"'
    if not isinstance(entry, dict) or not {"shape", "type", "raw"} <= set(entry):
        raise _wrong(name, f"{what} must have shape, type and raw")
    if len(key) > LONGEST_NAME or not can_be_given(key, kind):
        raise InputError(
            "name",
            f'In "{name}" an input has the name {short_key!a}. Names have 1 to {LONGEST_NAME} '
            'printable characters; a compiled load_and_run accepts no ":" or ";". Rename the '
            "input when you dump the model.",
            "json_name",
            input=ascii(short_key),
            limit=LONGEST_NAME,
        )
    dtype, raw = entry["type"], entry["raw"]
    if not isinstance(dtype, str):
        raise _wrong(name, f"{what}: type must be a string")
    shape = _shape(what, short_key, entry["shape"])
    if dtype not in JSON_DTYPES:
        kinds = ", ".join(JSON_DTYPES)
        raise InputError(
            "json",
            f"{what} has an unknown type. Use one of: {kinds}.",
            "json_type",
            input=short_key,
            type=dtype[:40],
            kinds=kinds,
        )
    check_axes(what, shape, name=f"{name}: {short_key}")
    expected, count = math.prod(shape), len(raw) if isinstance(raw, _Numbers) else None
    if count != expected:
        problem = "is not a flat list of numbers" if count is None else f"has {count}"
        raise InputError(
            "json",
            f"{what}: shape {braces(shape)} needs {expected} numbers, but raw {problem}.",
            "json_numbers",
            input=short_key,
            wanted=expected,
            count=count,
        )
    return _array(what, short_key, raw, JSON_DTYPES[dtype]).reshape(shape)


def _shape(what: str, short_key: str, value: Any) -> Shape:
    if isinstance(value, _Numbers) and len(value) > MOST_AXES:
        return (1,) * len(value)  # rejected later, because of the number of axes
    try:
        shape = json.loads(value.text) if isinstance(value, _Numbers) else None
    except ValueError:  # more digits than Python converts to an integer
        shape = None
    if shape is None or not all(type(length) is int and length >= 0 for length in shape):
        text = f"{what}: shape must be a list of positive integers."
        raise InputError("json", text, "json_shape", input=short_key)
    return tuple(shape)


def _array(what: str, short_key: str, raw: _Numbers, dtype_name: str) -> Array:
    """Convert the numbers to an array; reject values out of the dtype's range."""
    about = {"input": short_key, "dtype": dtype_name}
    dtype = np.dtype(dtype_name)
    if dtype.kind == "f":
        low, high = -FLOAT32_LIMIT, FLOAT32_LIMIT
    else:
        limits = np.iinfo(dtype)
        low, high = limits.min - 1, limits.max + 1
    array: Array = np.empty(len(raw), dtype)
    done = 0
    for exact in raw.pieces():
        if not (low < exact.min() and exact.max() < high):
            text = f"{what}: a value is out of the range of {dtype_name}."
            raise InputError("json", text, "json_range", **about)
        part = array[done : done + len(exact)]
        part[:] = exact
        if dtype.kind != "f" and (part != exact).any():
            text = f"{what}: a value is not an integer, but its type is {dtype_name}."
            raise InputError("json", text, "json_fraction", **about)
        done += len(exact)
    return array
