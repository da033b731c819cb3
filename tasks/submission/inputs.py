"""Validation of input variables without a file: literal numbers, or random values."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from django.conf import settings

from agent.protocol.input_rules import ALL_DTYPES, BINARY_DTYPES, MOST_AXES, WHEEL_DTYPES
from agent.protocol.inputs import InputError
from agent.protocol.inputs.literals import read_literal
from tasks.models import TaskFile
from tasks.submission.files import check_input_name
from tasks.submission.request import FileRequest, InputRequest
from webprofile.errors import DomainError
from webprofile.integers import parse_int

#: types that both runtimes accept
DTYPES = BINARY_DTYPES
_ITEM_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}
#: limit on names and literals of all variables together, since an order is one frame of 64 KiB
TEXT_LIMIT_BYTES = 20_000
_LONGEST_AXIS = 10**11 - 1


def read_inputs(
    inputs: Sequence[InputRequest],
    files: Iterable[FileRequest] = (),
    named: AbstractSet[str] = frozenset(),
    *,
    kind: str = "wheel",
) -> list[InputRequest]:
    """Return the validated inputs, with literals in a normalized form.

    named: the variables that files feed
    kind: kind of the runtime, `wheel` or `binary`

    Raises DomainError with field `inputs.N`, counted from 0 in the order of `inputs`.
    """
    data = [file for file in files if file.kind == TaskFile.Kind.DATA]
    if len(inputs) + len(data) > settings.DATA_FILES_LIMIT:
        raise DomainError("too_many_inputs", field="data", limit=settings.DATA_FILES_LIMIT)
    for name in named:
        check_input_name(name, "data", kind)
    seen, valid = set(named), list[InputRequest]()
    for number, request in enumerate(inputs):
        field = f"inputs.{number}"
        _check_name(request.name, seen, field, kind)
        valid.append(_read(request, field, kind))
    texts = [*(i.name for i in valid), *(i.literal for i in valid), *(file.input for file in data)]
    if sum(map(_bytes_in_frame, texts)) > TEXT_LIMIT_BYTES:
        raise DomainError("inputs_too_long", field="data", limit=TEXT_LIMIT_BYTES)
    return valid


def _bytes_in_frame(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace"))


def read_shape(text: str) -> tuple[int, ...] | None:
    """Parse `1,3,224,224`, with or without brackets; None if it is empty.

    Raises DomainError shape_bad.
    """
    bare = text.strip().strip("{}[]()").strip()
    if not bare:
        return None
    parts = [part.strip() for part in re.split(r"[,x×*]", bare)]
    axes = [parse_int(part, maximum=_LONGEST_AXIS) for part in parts]
    shape = tuple(axis for axis in axes if axis is not None)
    if len(shape) < len(parts):
        raise DomainError("shape_bad", field="shape", limit=MOST_AXES)
    return shape


def _check_name(name: str, seen: set[str], field: str, kind: str) -> None:
    if not name:
        raise DomainError("input_name_empty", field=field)
    check_input_name(name, field, kind)
    if name in seen:
        raise DomainError("input_name_twice", field=field, input=name)
    seen.add(name)


def _read(request: InputRequest, field: str, kind: str) -> InputRequest:
    if request.literal:
        if request.shape is not None or request.dtype:
            raise DomainError("input_two_ways", field=field, input=request.name)
        try:
            literal = read_literal(request.literal)
        except InputError as error:
            raise DomainError(
                f"literal_{error.rule}", field=field, input=request.name, **error.data
            ) from error
        return InputRequest(request.name, literal.text)
    if request.dtype and request.dtype not in ALL_DTYPES:
        raise DomainError("dtype_unknown", field=field, choices=", ".join(DTYPES))
    if request.dtype in WHEEL_DTYPES and kind != "wheel":
        raise DomainError(
            "dtype_not_here", field=field, dtype=request.dtype, choices=", ".join(DTYPES)
        )
    _check_shape(request, field)
    return request


def _check_shape(request: InputRequest, field: str) -> None:
    shape = request.shape
    if shape is None:
        return
    if not 1 <= len(shape) <= MOST_AXES or not all(1 <= axis < 2**31 for axis in shape):
        raise DomainError("shape_bad", field=field, limit=MOST_AXES)
    size = math.prod(shape) * _item_bytes(request.dtype)
    if size > settings.DATA_SIZE_LIMIT_BYTES:
        raise DomainError(
            "shape_large", field=field, limit_mib=settings.DATA_SIZE_LIMIT_BYTES // 1024**2
        )


def _item_bytes(dtype: str) -> int:
    """Return the size of an element; 4 for the model's own type, which is not known here."""
    digits = "".join(filter(str.isdigit, dtype))
    return 1 if dtype == "bool" else _ITEM_BYTES.get(digits, 4)
