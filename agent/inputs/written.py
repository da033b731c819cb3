"""Inputs that are written out: literals, and load_and_run's JSON files."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from agent.inputs.dtypes import MOST_AXES, Array, check_axes
from agent.inputs.npy import open_regular
from agent.inputs.problems import Code, InputError
from agent.inputs.specs import braces
from agent.protocol.input_rules import JSON_DTYPES

_LONGEST_LITERAL = 1 << 20
#: numbers of text become objects of some twenty times their size, in the agent's own memory
LONGEST_JSON = 8 << 20
_TOKEN = re.compile(r"\s*(-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?|[\[\],])\s*")
_LEADING_ZEROS = re.compile(r"(?<![0-9.eE+])0+(?=[0-9])")


def parse_literal(name: str, text: str) -> Array:
    """`1,2.5,-3e2` or nested brackets, as load_and_run means them. Raises InputError.

    float32 if a dot occurs anywhere, else int32 (`1e2` is 100). Brackets give the shape, with a 1
    before it: `5` is {1}, `1,2,3` is {3}, `[1,2,3]` is {1,3}. load_and_run does not notice rows of
    different lengths; here they are refused.
    """
    what = f'Input "{name}"'
    if len(text) > _LONGEST_LITERAL:
        raise InputError("too_large", f"{what} is too long to be written out; give it as npy.")
    _check_tokens(what, text)
    try:
        # the brackets around all are what puts the 1 before the shape
        nested = json.loads("[" + _LEADING_ZEROS.sub("", text) + "]")
    except (ValueError, RecursionError):
        raise InputError(
            "literal", f"{what}: {_quoted(text)} is not well formed; write 1,2.5 or [[1,2],[3,4]]."
        ) from None
    flat: list[Any] = []
    shape = _flatten(what, nested, flat)
    check_axes(what, shape)
    kind = "float32" if "." in text else "int32"
    return _numbers("literal", what, flat, kind).reshape(shape)


def _check_tokens(what: str, text: str) -> None:
    depth = position = 0
    while position < len(text) or not text:
        token = _TOKEN.match(text, position)
        if not token:
            raise InputError(
                "literal",
                f"{what}: {_quoted(text)} is not numbers; write 1,2.5 or [[1,2],[3,4]]"
                + (", or choose random numbers of this shape." if text[:1] == "{" else "."),
            )
        depth += {"[": 1, "]": -1}.get(token[1], 0)
        if depth >= MOST_AXES:
            raise InputError("axes", f"{what}: more than {MOST_AXES - 1} brackets deep.")
        position = token.end()


def _flatten(what: str, nested: list[Any], flat: list[Any]) -> tuple[int, ...]:
    """Append the numbers of a nested list to `flat`, return its shape."""
    inner: tuple[int, ...] | None = None
    for item in nested:
        shape = _flatten(what, item, flat) if isinstance(item, list) else ()
        if not isinstance(item, list):
            flat.append(item)
        if inner not in (None, shape):
            raise InputError("literal", f"{what}: the brackets hold rows of different lengths.")
        inner = shape
    return (len(nested), *(inner or ()))


def read_json(path: Path) -> dict[str, Array]:
    """Every input in load_and_run's JSON file, in its order. Raises InputError."""
    what = f'"{path.name}"'
    if open_regular(path) > LONGEST_JSON:
        raise InputError(
            "too_large", f"{what} is over {LONGEST_JSON >> 20} MiB; give large inputs as npy."
        )
    try:
        content = json.loads(
            path.read_bytes().decode("utf-8"),
            parse_constant=_refuse_constant,
            object_pairs_hook=_distinct,
        )
    except (ValueError, RecursionError) as error:
        raise InputError("json", f"{what} is not the JSON of inputs: {error}.") from None
    if not isinstance(content, dict) or not content:
        raise InputError(
            "json", f'{what} must be an object: {{"<input>": {{"shape", "type", "raw"}}}}.'
        )
    return {name: _json_array(path, name, entry) for name, entry in content.items()}


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON number")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return content


def _json_array(path: Path, name: str, entry: Any) -> Array:
    what = f'Input "{name}" in "{path.name}"'
    if not isinstance(entry, dict) or not {"shape", "type", "raw"} <= set(entry):
        raise InputError("json", f"{what} must have shape, type and raw.")
    shape, kind, raw = entry["shape"], entry["type"], entry["raw"]
    if not isinstance(kind, str) or kind not in JSON_DTYPES:
        known = ", ".join(sorted(JSON_DTYPES))
        raise InputError("json", f"{what} has a type that load_and_run does not know ({known}).")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise InputError("json", f"{what}: shape must be a list of positive integers.")
    check_axes(what, tuple(shape))
    if not isinstance(raw, list):
        raise InputError("json", f"{what}: raw must be a flat list of numbers.")
    if len(raw) != math.prod(shape):
        raise InputError(
            "json",
            f"{what}: shape {braces(shape)} takes {math.prod(shape)} numbers, raw has {len(raw)}.",
        )
    return _numbers("json", what, raw, JSON_DTYPES[kind]).reshape(shape)


def _numbers(code: Code, what: str, flat: list[Any], kind: str) -> Array:
    """A flat array of type `kind`; refuses what it cannot hold instead of wrapping around."""
    if not all(type(number) in (int, float) for number in flat):
        raise InputError(code, f"{what}: there is something other than numbers.")
    try:
        exact = np.array(flat, dtype=np.float64)
    except OverflowError:
        raise InputError(code, f"{what}: a number is out of the range of {kind}.") from None
    dtype = np.dtype(kind)
    lowest, highest = (
        (np.finfo(np.float32).min, np.finfo(np.float32).max)
        if dtype.kind == "f"
        else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    )
    if not (float(lowest) <= exact.min() and exact.max() <= float(highest)):
        raise InputError(code, f"{what}: a number is out of the range of {kind}.")
    if dtype.kind != "f" and (exact != np.floor(exact)).any():
        raise InputError(code, f"{what}: a number is not whole, but the type is {kind}.")
    return exact.astype(dtype)


def _quoted(text: str) -> str:
    return f'"{text if len(text) <= 60 else text[:57] + "..."}"'
