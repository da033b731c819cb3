"""Readers of input files and literals, shared by server and agent: npy, JSON, pictures, literals.

A compiled load_and_run takes a wrong file for a right one: it ignores Fortran and big-endian order,
misreads common pictures, overruns memory at a JSON list that is too long and dies at a single
number. So what cannot become an npy file that all versions read alike is refused with a sentence.
Needs numpy; never unpickles.
"""

import math
import typing
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.protocol.input_rules import ALL_DTYPES, BINARY_DTYPES, MOST_AXES, instead_of

Kind = typing.Literal["binary", "wheel"]
Shape = tuple[int, ...]
Array = NDArray[np.generic]

Code = typing.Literal[
    "unreadable",  # no such file, or not a regular one
    "format",  # neither npy, JSON nor a picture, or not what its name says
    "header",  # an npy or picture header that nobody can believe
    "size",  # the file is shorter or longer than its header says
    "axes",  # none, more than seven, or one of length zero
    "dtype",  # a type that MegEngine or this kind of runtime cannot take
    "json",
    "literal",
    "name",  # a name that cannot be given to load_and_run, or one given twice
    "unknown_input",  # the model has no such input
    "wrong_dtype",  # the model wants another type
    "shape",  # random data of a shape or type that is not known
    "too_large",
]


class InputError(ValueError):
    """An input that must not reach load_and_run.

    `text` names the input or its file, what is wrong with it and what to do; it is for the user, so
    it holds no path. `rule` and `data` say the same for the site, which has texts of its own by
    rule; empty where only a device can find it out.
    """

    def __init__(self, code: Code, text: str, rule: str = "", **data: Any) -> None:
        self.code: Code = code
        self.text = text
        self.rule = rule
        self.data = data
        super().__init__(text)


def braces(shape: Iterable[int]) -> str:
    """A shape as MegEngine writes it: {2,3,32,32}."""
    return "{" + ",".join(str(length) for length in shape) + "}"


def check_dtype(what: str, dtype: np.dtype[np.generic], kind: Kind) -> None:
    """Raise InputError if a runtime of this kind cannot take numbers of this type.

    `what` names the culprit, at the beginning of a sentence.
    """
    name = dtype.newbyteorder("=").name
    if dtype.hasobject:
        text = f"{what} holds Python objects, which are never unpickled."
        raise InputError("dtype", text, "pickled")
    if dtype.names is not None or dtype.subdtype is not None:
        text = f"{what} holds a structured type; inputs are plain numbers."
        raise InputError("dtype", text, "structured")
    if dtype.kind not in "biufc":
        text = f"{what} holds {name}; inputs are numbers."
        raise InputError("dtype", text, "not_numbers", dtype=name)
    if name not in ALL_DTYPES:
        instead = instead_of(dtype.kind)
        raise InputError(
            "dtype",
            f"{what} holds {name}, which MegEngine has no type for. Save it as {instead}, for "
            "example with astype.",
            "no_type",
            dtype=name,
            instead=instead,
        )
    if kind == "binary" and name not in BINARY_DTYPES:
        choices = ", ".join(BINARY_DTYPES)
        raise InputError(
            "dtype",
            f"{what} holds {name}, which a compiled load_and_run cannot read from a file; it "
            f"reads {choices}. Choose a device with the MegEngine wheel, or a model with an input "
            "of one of these types.",
            "dtype_not_here",
            dtype=name,
            choices=choices,
        )


def check_axes(what: str, shape: Shape, **data: Any) -> None:
    """Raise InputError, with `data` among its data, at shapes that MegEngine has no word for."""
    if not shape:
        text = f"{what} is a single number without axes; give it the shape {{1}}."
        raise InputError("axes", text, "no_axes", **data)
    if len(shape) > MOST_AXES:
        text = f"{what} has {len(shape)} axes; MegEngine knows at most {MOST_AXES}."
        raise InputError("axes", text, "many_axes", axes=len(shape), limit=MOST_AXES, **data)
    if 0 in shape:
        raise InputError(
            "axes",
            f"{what} has the shape {braces(shape)} and so holds no numbers; "
            "every axis needs a length of at least 1.",
            "no_numbers",
            shape=braces(shape),
            **data,
        )


def check_size(what: str, promise: str, expected: int, actual: int) -> None:
    """Raise InputError unless a file of `given` bytes holds what its header promises."""
    if actual < expected:
        raise InputError(
            "size",
            f"{what} is cut short: {promise} takes {expected} bytes, the file has {actual}. "
            "Upload it again.",
            "cut_short",
            promise=promise,
            wanted=expected,
            size=actual,
        )
    if actual > expected:
        raise InputError(
            "size",
            f"{what} has {actual - expected} bytes after its array ({promise}). Save it again.",
            "trailing",
            promise=promise,
            extra=actual - expected,
        )


def size_of(shape: Shape, dtype: np.dtype[np.generic]) -> int:
    """Bytes of an array; in Python's integers, which cannot overflow."""
    return math.prod(shape) * dtype.itemsize
