"""Parse and check input files and literals (npy, JSON, pictures), in the server and the agent.

A compiled load_and_run accepts many wrong files: it ignores Fortran order and big-endian byte
order, misreads common pictures, overflows a buffer if a JSON list is too long, and crashes on a
scalar. Therefore an input that cannot be converted to an npy file that all versions read alike is
rejected with an explanation. Needs numpy; never unpickles.
"""

import math
import typing
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from agent.protocol.input_rules import ALL_DTYPES, BINARY_DTYPES, MOST_AXES, instead_of
from agent.protocol.notes import TEXTS, Note

RuntimeKind = typing.Literal["binary", "wheel"]
Shape = tuple[int, ...]
Array = NDArray[np.generic]

#: numbers from here on are infinite as float32: halfway between its largest number and 2**128
FLOAT32_LIMIT = 2.0**128 - 2.0**103

InputErrorCode = typing.Literal[
    "unreadable",  # no such file, or not a regular one
    "format",  # neither npy, JSON nor a picture, or not the format of its suffix
    "header",  # an invalid npy or picture header
    "size",  # the file is shorter or longer than its header requires
    "axes",  # none, more than seven, or one of length zero
    "dtype",  # not supported by MegEngine or this kind of runtime
    "json",
    "literal",
    "name",  # load_and_run does not support the name, or it occurs twice
    "unknown_input",  # the model has no such input
    "wrong_dtype",  # the model's input has another dtype
    "shape",  # random data without a known shape or dtype
    "too_large",
]


class InputError(ValueError):
    """An input is rejected.

    `text` is a message in English: the input or its file (without a path), the problem, and what
    to do. `rule` and `data` identify the same problem for the server, which has translated
    messages.
    """

    def __init__(self, code: InputErrorCode, text: str, rule: str = "", **data: Any) -> None:
        self.code: InputErrorCode = code
        self.text = text
        self.rule = rule
        self.data = data
        super().__init__(text)

    @classmethod
    def of(cls, code: InputErrorCode, rule: str, **data: Any) -> Self:
        """Return the error of a rule that has its text in `agent.protocol.notes`."""
        return cls(code, str(Note.of(rule, **data)), rule, **data)

    def note(self) -> Note:
        """Return the note for the server.

        The text of its code is in `agent.protocol.notes` or in `webprofile.messages.errors`.
        """
        return Note.of(self.rule if self.rule in TEXTS else f"input_{self.rule}", **self.data)


def braces(shape: Iterable[int]) -> str:
    """Format a shape as MegEngine does: {2,3,32,32}."""
    return "{" + ",".join(str(length) for length in shape) + "}"


def check_dtype(what: str, dtype: np.dtype[np.generic], kind: RuntimeKind) -> None:
    """Raise InputError if a runtime of this kind does not support the dtype.

    `what` is the input or file, as the subject of the message.
    """
    name = dtype.newbyteorder("=").name
    if dtype.hasobject:
        text = f"{what} contains Python objects, which are never unpickled."
        raise InputError("dtype", text, "pickled")
    if dtype.names is not None or dtype.subdtype is not None:
        text = f"{what} has a structured type; inputs must be plain numbers."
        raise InputError("dtype", text, "structured")
    if dtype.kind not in "biufc":
        text = f"{what} contains {name}; inputs must be numbers."
        raise InputError("dtype", text, "not_numbers", dtype=name)
    if name not in ALL_DTYPES:
        instead = instead_of(dtype.kind)
        raise InputError(
            "dtype",
            f"{what} contains {name}, which MegEngine does not support. Save it as {instead}, for "
            "example with astype.",
            "no_type",
            dtype=name,
            instead=instead,
        )
    if kind == "binary" and name not in BINARY_DTYPES:
        choices = ", ".join(BINARY_DTYPES)
        raise InputError(
            "dtype",
            f"{what} contains {name}, which a compiled load_and_run cannot read from a file; it "
            f"reads {choices}. Choose a device with the MegEngine wheel, or a model with an input "
            "of one of these types.",
            "dtype_not_here",
            dtype=name,
            choices=choices,
        )


def check_axes(what: str, shape: Shape, **data: Any) -> None:
    """Raise InputError for shapes that MegEngine does not support; `data` is added to its data."""
    if not shape:
        text = f"{what} is a single number without axes; give it the shape {{1}}."
        raise InputError("axes", text, "no_axes", **data)
    if len(shape) > MOST_AXES:
        text = f"{what} has {len(shape)} axes; MegEngine supports at most {MOST_AXES}."
        raise InputError("axes", text, "many_axes", axes=len(shape), limit=MOST_AXES, **data)
    if 0 in shape:
        raise InputError(
            "axes",
            f"{what} has the shape {braces(shape)} and contains no numbers; "
            "every axis must be at least 1.",
            "no_numbers",
            shape=braces(shape),
            **data,
        )


def check_size(what: str, promise: str, expected: int, actual: int) -> None:
    """Raise InputError unless the file's size in bytes is the one that its header requires.

    `promise` describes the array (dtype and shape) for the message.
    """
    if actual < expected:
        raise InputError(
            "size",
            f"{what} is truncated: {promise} needs {expected} bytes, the file has {actual}. "
            "Upload it again.",
            "cut_short",
            promise=promise,
            wanted=expected,
            size=actual,
        )
    if actual > expected:
        raise InputError(
            "size",
            f"{what} has {actual - expected} extra bytes after its array ({promise}). Save it "
            "again.",
            "trailing",
            promise=promise,
            extra=actual - expected,
        )


def size_of(shape: Shape, dtype: np.dtype[np.generic]) -> int:
    """Return the size of an array in bytes, by integers that cannot overflow."""
    return math.prod(shape) * dtype.itemsize
