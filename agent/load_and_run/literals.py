"""Inputs that are written out: numbers on the command line, or load_and_run's JSON files."""

import json
import os
import re
import stat

import numpy as np
from load_and_run.errors import InputError
from load_and_run.npy import MOST_AXES, braces, count

_TOKEN = re.compile(r"\s*(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|[\[\],])\s*")
_LEADING_ZEROS = re.compile(r"(?<![0-9.])0+(?=[0-9])")

#: the types that load_and_run's JSON inputs know
_JSON_TYPES = {
    "float32": "float32",
    "float": "float32",
    "int32": "int32",
    "int": "int32",
    "int8": "int8",
    "uint8": "uint8",
}
_LONGEST_JSON = 512 * 1024 * 1024


def parse_literal(name, text):
    """`1,2.5,-3e2` or nested brackets, as load_and_run understands them. Raises InputError.

    float32 if a dot occurs anywhere, else int32. Brackets give the shape, with a 1 before it:
    `5` is {1}, `1,2,3` is {3}, `[1,2,3]` is {1,3}.
    """
    where = 'input "{}"'.format(name)
    depth = position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if not token:
            raise InputError(
                "{}: {} is neither a file (.npy, .json, .ppm, .pgm), nor a shape, nor "
                "numbers".format(where, _quoted(text))
            )
        depth += {"[": 1, "]": -1}.get(token.group(1), 0)
        if depth >= MOST_AXES:
            raise InputError("{}: more than {} brackets deep".format(where, MOST_AXES - 1))
        position = token.end()
    try:
        # the brackets around all are what puts the 1 before the shape
        nested = json.loads("[" + _LEADING_ZEROS.sub("", text) + "]")
    except ValueError:
        raise InputError("{}: {} is not well formed".format(where, _quoted(text)))
    flat = []
    shape = _flatten(where, nested, flat)
    return _numbers(where, flat, "float32" if "." in text else "int32").reshape(shape)


def _flatten(where, nested, flat):
    """Append the numbers of a nested list to `flat`, return its shape; ragged lists are refused."""
    inner = None
    for item in nested:
        shape = _flatten(where, item, flat) if isinstance(item, list) else ()
        if not isinstance(item, list):
            flat.append(item)
        if inner not in (None, shape):
            raise InputError("{}: the brackets hold rows of different lengths".format(where))
        inner = shape
    return (len(nested),) + (inner or ())


def read_json(path):
    """(name, array) for every input in load_and_run's JSON file. Raises InputError."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise InputError('"{}" is no file'.format(path))
        if status.st_size > _LONGEST_JSON:
            raise InputError('"{}" is too large for JSON; give the input as npy'.format(path))
        with open(path, "rb") as file:
            content = json.loads(file.read().decode("utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        raise InputError('failed to open "{}": {}'.format(path, error.strerror))
    except (ValueError, RecursionError) as error:
        raise InputError('"{}" is not valid JSON: {}'.format(path, error))
    if not isinstance(content, dict) or not content:
        raise InputError(
            '"{}" must be an object: {{"<input>": {{"shape", "type", "raw"}}}}'.format(path)
        )
    return [(name, _json_array(path, name, entry)) for name, entry in content.items()]


def _refuse_constant(text):
    raise ValueError("{} is no JSON number".format(text))


def _json_array(path, name, entry):
    where = 'input "{}" in "{}"'.format(name, path)
    if not isinstance(entry, dict) or not {"shape", "type", "raw"} <= set(entry):
        raise InputError("{} must have shape, type and raw".format(where))
    shape, kind, raw = entry["shape"], entry["type"], entry["raw"]
    if not isinstance(kind, str) or kind not in _JSON_TYPES:
        raise InputError(
            "{} has a type other than {}".format(where, ", ".join(sorted(_JSON_TYPES)))
        )
    if not isinstance(shape, list) or not all(type(n) is int and n > 0 for n in shape):
        raise InputError("{}: shape must be a list of positive integers".format(where))
    if not isinstance(raw, list):
        raise InputError("{}: raw must be a flat list of numbers".format(where))
    if len(raw) != count(shape):
        raise InputError(
            "{}: shape {} takes {} numbers, raw has {}".format(
                where, braces(shape), count(shape), len(raw)
            )
        )
    return _numbers(where, raw, _JSON_TYPES[kind]).reshape(shape)


def _numbers(where, flat, kind):
    """A flat array of type `kind`; refuses what it cannot hold instead of wrapping around."""
    if not all(type(number) in (int, float) for number in flat):
        raise InputError("{}: there is something other than numbers".format(where))
    try:
        exact = np.array(flat, dtype=np.float64)
    except OverflowError:
        raise InputError("{}: a number is too large for {}".format(where, kind))
    if kind == "float32":
        with np.errstate(over="ignore"):
            return exact.astype(np.float32)
    limits = np.iinfo(kind)
    if exact.size and not (limits.min <= exact.min() and exact.max() <= limits.max):
        raise InputError("{}: a number is out of the range of {}".format(where, kind))
    if (exact != np.floor(exact)).any():
        raise InputError("{}: a number is not whole, but the type is {}".format(where, kind))
    return exact.astype(kind)


def _quoted(text):
    return '"{}"'.format(text if len(text) <= 60 else text[:57] + "...")
