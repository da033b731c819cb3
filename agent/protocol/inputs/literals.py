"""Numbers as load_and_run reads them from its command line: `1,2.5,-3e2` or nested brackets."""

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent.protocol.input_rules import MOST_AXES
from agent.protocol.inputs import Array, InputError, Shape

#: brackets put a 1 before the shape
_MOST_DEEP = MOST_AXES - 1
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LEADING_ZEROS = re.compile(r"(?<![0-9.eE+])0+(?=[0-9])")
_INT32 = range(-(2**31), 2**31)
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_SHOWN = 30
_LONGEST_NUMBER = 60


@dataclass(frozen=True)
class Literal:
    """What a text means. `text` is the text without what is not needed."""

    text: str
    dtype: str
    shape: Shape
    numbers: list[float]

    def array(self) -> Array:
        """The numbers as an array of this type and shape."""
        return np.array(self.numbers, np.float64).astype(self.dtype).reshape(self.shape)


def read_literal(text: str) -> Literal:
    """Understand numbers as load_and_run does, but refuse what it would misread.

    float32 if a dot occurs anywhere, else int32 (`1e2` is 100). Brackets give the shape, with a 1
    before it: `5` is {1}, `1,2,3` is {3}, `[1,2,3]` is {1,3}. Raises InputError.
    """
    tokens = _tokens(text)
    if not tokens:
        raise InputError("literal", "There are no numbers.", "empty")
    joined = "".join(tokens)
    try:
        # the brackets around all are what puts the 1 before the shape
        nested = json.loads(f"[{_LEADING_ZEROS.sub('', joined)}]")
    except ValueError:
        raise _brackets() from None
    numbers: list[float] = []
    shape = _flatten(nested, numbers)
    dtype = "float32" if "." in joined else "int32"
    _check_numbers(numbers, [token for token in tokens if token not in "[],"], dtype)
    return Literal(joined, dtype, shape, numbers)


def _brackets() -> InputError:
    text = "Brackets or commas do not fit together; write 1,2.5 or [[1,2],[3,4]]."
    return InputError("literal", text, "brackets")


def _tokens(text: str) -> list[str]:
    """Numbers, commas and brackets. Raises InputError for anything else."""
    tokens, depth, position = list[str](), 0, 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        match = _NUMBER.match(text, position)
        token = text[position] if text[position] in "[]," else match[0] if match else ""
        # `1.`, `1 2` and `1e` all leave two tokens that must not touch
        if not token or (match and tokens and tokens[-1] not in "[],"):
            raise _no_number(text, position)
        if len(token) > _LONGEST_NUMBER:
            raise _out_of_range(token[:_SHOWN], "float32")
        depth += {"[": 1, "]": -1}.get(token, 0)
        if depth > _MOST_DEEP:
            message = f"The brackets are more than {_MOST_DEEP} deep."
            raise InputError("axes", message, "deep", limit=_MOST_DEEP)
        tokens.append(token)
        position += len(token)
    return tokens


def _no_number(text: str, position: int) -> InputError:
    excerpt = text[position:][:_SHOWN]
    advice = ", or choose random numbers of this shape." if text[:1] == "{" else "."
    return InputError(
        "literal",
        f'"{excerpt}" at character {position + 1} is no number; '
        f"write 1,2.5 or [[1,2],[3,4]]{advice}",
        "bad",
        place=position + 1,
        found=excerpt,
    )


def _flatten(nested: list[Any], flat: list[float]) -> Shape:
    """Append the numbers to `flat`, return the shape; rows of different lengths are refused.

    load_and_run does not notice these.
    """
    if not nested:
        raise _brackets()
    inner: Shape | None = None
    for number, item in enumerate(nested, 1):
        shape = _flatten(item, flat) if isinstance(item, list) else ()
        if not isinstance(item, list):
            flat.append(item)
        if inner is not None and shape != inner:
            first, other = _words(inner), _words(shape)
            raise InputError(
                "literal",
                f"The rows have different lengths: the first is {first}, number {number} is "
                f"{other}.",
                "ragged",
                first=first,
                number=number,
                other=other,
            )
        inner = shape
    return (len(nested), *(inner or ()))


def _words(shape: Shape) -> str:
    return "×".join(map(str, shape)) if shape else "1"


def _check_numbers(flat: list[float], typed: list[str], dtype: str) -> None:
    """typed: the texts of the numbers, which say more than their values: 1e999 is infinite"""
    for value, text in zip(flat, typed, strict=True):
        excerpt = text[:_SHOWN]
        if dtype == "float32":
            if abs(value) > _FLOAT32_MAX:
                raise _out_of_range(excerpt, dtype)
        elif not _INT32[0] <= value <= _INT32[-1]:
            raise _out_of_range(excerpt, dtype)
        elif value != value // 1:
            message = f"{excerpt} is not whole, but without a dot all numbers are int32."
            raise InputError("literal", message, "fraction", value=excerpt)


def _out_of_range(value: str, dtype: str) -> InputError:
    message = f"{value} is out of the range of {dtype}."
    return InputError("literal", message, "range", value=value, dtype=dtype)
