"""Parse numbers in load_and_run's command line syntax: `1,2.5,-3e2` or nested brackets."""

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent.protocol.input_rules import MOST_AXES
from agent.protocol.inputs import FLOAT32_LIMIT, Array, InputError, Shape

#: brackets add an axis of length 1
_MOST_DEEP = MOST_AXES - 1
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LEADING_ZEROS = re.compile(r"(?<![0-9.eE+])0+(?=[0-9])")
_INT32 = range(-(2**31), 2**31)
_SHOWN = 30
_LONGEST_NUMBER = 60


@dataclass(frozen=True)
class ParsedLiteral:
    """A parsed literal. `text` is the literal without white space."""

    text: str
    dtype: str
    shape: Shape
    numbers: list[float]

    def array(self) -> Array:
        """Return the numbers as an array of this dtype and shape."""
        return np.array(self.numbers, np.float64).astype(self.dtype).reshape(self.shape)


def read_literal(text: str) -> ParsedLiteral:
    """Parse a literal as load_and_run does, but reject what load_and_run would misread.

    The dtype is float32 if a dot occurs anywhere, else int32 (`1e2` is 100). Brackets give the
    shape, preceded by an axis of length 1: `5` is {1}, `1,2,3` is {3}, `[1,2,3]` is {1,3}. Raises
    InputError.
    """
    tokens = _tokens(text)
    if not tokens:
        raise InputError("literal", "There are no numbers.", "empty")
    joined = "".join(tokens)
    try:
        # the outer brackets add the axis of length 1
        nested = json.loads(f"[{_LEADING_ZEROS.sub('', joined)}]")
    except ValueError:
        raise _brackets() from None
    numbers: list[float] = []
    shape = _flatten(nested, numbers)
    dtype = "float32" if "." in joined else "int32"
    _check_numbers(numbers, [token for token in tokens if token not in "[],"], dtype)
    return ParsedLiteral(joined, dtype, shape, numbers)


def _brackets() -> InputError:
    text = "Brackets or commas do not match; write 1,2.5 or [[1,2],[3,4]]."
    return InputError("literal", text, "brackets")


def _tokens(text: str) -> list[str]:
    """Split the text into numbers, commas and brackets. Raises InputError for other characters."""
    tokens, depth, position = list[str](), 0, 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        match = _NUMBER.match(text, position)
        token = text[position] if text[position] in "[]," else match[0] if match else ""
        # rejects `1.`, `1 2` and `1e`, where a number follows another token without a separator
        if not token or (match and tokens and tokens[-1] not in "[],"):
            raise _no_number(text, position)
        if len(token) > _LONGEST_NUMBER:
            raise _out_of_range(token[:_SHOWN], "float32")
        depth += {"[": 1, "]": -1}.get(token, 0)
        if depth > _MOST_DEEP:
            message = f"The brackets are nested more than {_MOST_DEEP} levels deep."
            raise InputError("axes", message, "deep", limit=_MOST_DEEP)
        tokens.append(token)
        position += len(token)
    return tokens


def _no_number(text: str, position: int) -> InputError:
    excerpt = text[position:][:_SHOWN]
    advice = ", or choose random numbers of this shape." if text[:1] == "{" else "."
    return InputError(
        "literal",
        f'"{excerpt}" at character {position + 1} is not a number; '
        f"write 1,2.5 or [[1,2],[3,4]]{advice}",
        "bad",
        place=position + 1,
        found=excerpt,
    )


def _flatten(nested: list[Any], flat: list[float]) -> Shape:
    """Append the numbers to `flat`, and return the shape.

    Raises InputError if rows have different lengths, which load_and_run does not detect.
    """
    if not nested:
        raise _brackets()
    inner: Shape | None = None
    for number, item in enumerate(nested, 1):
        shape = _flatten(item, flat) if isinstance(item, list) else ()
        if not isinstance(item, list):
            flat.append(item)
        if inner is not None and shape != inner:
            first, other = _shape_text(inner), _shape_text(shape)
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


def _shape_text(shape: Shape) -> str:
    return "×".join(map(str, shape)) if shape else "1"


def _check_numbers(flat: list[float], texts: list[str], dtype: str) -> None:
    """Check range and dtype. `texts` are the numbers as written: the value of 1e999 is infinite."""
    for value, text in zip(flat, texts, strict=True):
        excerpt = text[:_SHOWN]
        if dtype == "float32":
            if abs(value) >= FLOAT32_LIMIT:
                raise _out_of_range(excerpt, dtype)
        elif not _INT32[0] <= value <= _INT32[-1]:
            raise _out_of_range(excerpt, dtype)
        elif value != value // 1:
            message = f"{excerpt} is not an integer, but without a dot all numbers are int32."
            raise InputError("literal", message, "fraction", value=excerpt)


def _out_of_range(value: str, dtype: str) -> InputError:
    message = f"{value} is out of the range of {dtype}."
    return InputError("literal", message, "range", value=value, dtype=dtype)
