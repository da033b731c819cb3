"""Numbers as load_and_run reads them from its command line: `1,2.5,-3e2` or nested brackets."""

import json
import re
from dataclasses import dataclass
from typing import Any

from webprofile.errors import DomainError

#: brackets put a 1 before the shape, and MegEngine knows seven axes
MOST_DEEP = 6
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LEADING_ZEROS = re.compile(r"(?<![0-9.])0+(?=[0-9])")
_INT32 = range(-(2**31), 2**31)
_FLOAT32_MAX = 3.4028234663852886e38
_SHOWN = 30
_LONGEST_NUMBER = 60


@dataclass(frozen=True)
class Literal:
    """What a text means. `text` is the text without what is not needed."""

    text: str
    dtype: str
    shape: tuple[int, ...]


def read_literal(text: str) -> Literal:
    """Understand numbers as load_and_run does, but refuse what it would misread.

    float32 if a dot occurs anywhere, else int32. `5` is (1), `1,2,3` is (3), `[1,2,3]` is (1,3).
    Raises DomainError literal_empty, literal_bad, literal_deep, literal_brackets, literal_ragged,
    literal_range, literal_fraction; `data` says where.
    """
    tokens = _tokens(text)
    if not tokens:
        raise DomainError("literal_empty")
    joined = "".join(tokens)
    try:
        nested = json.loads(f"[{_LEADING_ZEROS.sub('', joined)}]")
    except ValueError as error:
        raise DomainError("literal_brackets") from error
    flat: list[float] = []
    shape = _flatten(nested, flat)
    dtype = "float32" if "." in joined else "int32"
    _check_numbers(flat, dtype)
    return Literal(joined, dtype, shape)


def _tokens(text: str) -> list[str]:
    """Numbers, commas and brackets. Raises DomainError for anything else."""
    tokens, depth, position = list[str](), 0, 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        if text[position] in "[],":
            token = text[position]
        elif found := _NUMBER.match(text, position):
            token = found[0]
        else:
            raise DomainError("literal_bad", place=position + 1, found=text[position:][:_SHOWN])
        if tokens and _both_numbers(tokens[-1], token):
            raise DomainError("literal_bad", place=position + 1, found=text[position:][:_SHOWN])
        if len(token) > _LONGEST_NUMBER:
            raise DomainError("literal_range", value=token[:_SHOWN], dtype="float32")
        depth += {"[": 1, "]": -1}.get(token, 0)
        if depth > MOST_DEEP:
            raise DomainError("literal_deep", limit=MOST_DEEP)
        tokens.append(token)
        position += len(token)
    return tokens


def _both_numbers(left: str, right: str) -> bool:
    """`1.`, `1 2` and `1e` all leave two tokens that must not touch."""
    return left not in "[]," and right not in "[],"


def _flatten(nested: list[Any], flat: list[float]) -> tuple[int, ...]:
    """Append the numbers to `flat`, return the shape; rows of different lengths are refused."""
    if not nested:
        raise DomainError("literal_brackets")
    inner: tuple[int, ...] | None = None
    for number, item in enumerate(nested, 1):
        shape = _flatten(item, flat) if isinstance(item, list) else ()
        if not isinstance(item, list):
            flat.append(item)
        if inner is not None and shape != inner:
            raise DomainError(
                "literal_ragged", first=_words(inner), number=number, other=_words(shape)
            )
        inner = shape
    return (len(nested), *(inner or ()))


def _words(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) if shape else "1"


def _check_numbers(flat: list[float], dtype: str) -> None:
    for value in flat:
        if dtype == "float32":
            if abs(value) > _FLOAT32_MAX:
                raise DomainError("literal_range", value=_short(value), dtype=dtype)
        elif not _INT32[0] <= value <= _INT32[-1]:
            raise DomainError("literal_range", value=_short(value), dtype=dtype)
        elif value != value // 1:
            raise DomainError("literal_fraction", value=_short(value))


def _short(value: float) -> str:
    return str(value)[:_SHOWN]
