"""Which types of numbers can be given to a model, by kind of runtime."""

import math

import numpy as np
from numpy.typing import NDArray

from agent.inputs.problems import InputError
from agent.inputs.specs import Kind, Shape, braces
from agent.protocol.input_rules import ALL_DTYPES, BINARY_DTYPES, MOST_AXES, instead_of

__all__ = ["MOST_AXES", "Array", "check_axes", "check_dtype", "is_known", "size_of"]

Array = NDArray[np.generic]


def check_dtype(what: str, dtype: np.dtype[np.generic], kind: Kind) -> None:
    """Raise InputError if a runtime of this kind cannot take numbers of this type.

    `what` names the culprit, at the beginning of a sentence.
    """
    name = dtype.newbyteorder("=").name
    if dtype.hasobject:
        raise InputError("dtype", f"{what} holds Python objects, which are never unpickled.")
    if dtype.names is not None or dtype.subdtype is not None:
        raise InputError("dtype", f"{what} holds a structured type; inputs are plain numbers.")
    if dtype.kind not in "biufc":
        raise InputError("dtype", f"{what} holds {name}; inputs are numbers.")
    if name not in ALL_DTYPES:
        raise InputError(
            "dtype",
            f"{what} holds {name}, which MegEngine has no type for. Save it as "
            f"{instead_of(dtype.kind)}, for example with astype.",
        )
    if kind == "binary" and name not in BINARY_DTYPES:
        raise InputError(
            "dtype",
            f"{what} holds {name}, which a compiled load_and_run cannot read from a file; it "
            f"reads {', '.join(sorted(BINARY_DTYPES))}. Choose a device with the MegEngine wheel, "
            "or a model with an input of one of these types.",
        )


def is_known(name: str) -> bool:
    """Whether this is MegEngine's and numpy's name of a plain type (not quantized, not empty)."""
    return name in ALL_DTYPES


def check_axes(what: str, shape: Shape) -> None:
    """Raise InputError at shapes that MegEngine has no word for."""
    if not shape:
        raise InputError(
            "axes", f"{what} is a single number without axes; give it the shape {{1}}."
        )
    if len(shape) > MOST_AXES:
        raise InputError(
            "axes", f"{what} has {len(shape)} axes; MegEngine knows at most {MOST_AXES}."
        )
    if 0 in shape:
        raise InputError(
            "axes",
            f"{what} has the shape {braces(shape)} and so holds no numbers; "
            "every axis needs a length of at least 1.",
        )


def size_of(shape: Shape, dtype: np.dtype[np.generic]) -> int:
    """Bytes of an array; in Python's integers, which cannot overflow."""
    return math.prod(shape) * dtype.itemsize
