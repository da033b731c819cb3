"""Compare the values of all variables of two runs, tensor by tensor, in bounded memory.

The error measure is that of `megengine.tools.compare_binary_iodump`: |a - b| / max(|a|, |b|, 1),
with a tolerance of 1e-3. Unlike there, the dumps need not hold the same files, and NaN or infinity
at the same index in both is not a difference. Values of an unknown dtype have no tolerance.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.profile_schema import OrderedGraph
from profiles.formats.tensor_dump import Dump, TensorHeader


class _ProfileOrder(Struct, gc=False):
    graph_exec: OrderedGraph


@dataclass(frozen=True)
class Producer:
    """The operator that produces a variable; `step` counts from 0 in order of execution."""

    step: int
    name: str
    type: str


def makers(data: bytes) -> dict[int, Producer]:
    """Return variable id -> producing operator for a profile. Raises ProfileFormatError."""
    try:
        graph = msgspec.json.decode(data, type=_ProfileOrder).graph_exec
        # the order may list operators that the file does not describe, or one of them twice
        executed = dict.fromkeys(key for key in graph.comp_seq if key in graph.operator)
        steps = {key: step for step, key in enumerate(executed)}
        return {
            int(variable): Producer(steps[key], operator.name, operator.type)
            for key, operator in graph.operator.items()
            if key in steps
            for variable in operator.output
        }
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ProfileFormatError(
            "bad_value", f"The order of operators cannot be read: {error}."
        ) from None


MAX_ERROR = 1e-3
#: elements of each dump in memory at once
BLOCK = 1 << 20


@dataclass(frozen=True)
class TensorDifference:
    """The comparison of two tensors, or a tensor that the other dump lacks.

    status: equal, close (values differ within the tolerance), values, shape, dtype, only_a, only_b
    step: index in the order of execution, None if unknown
    max_abs, max_rel: largest |a - b| and |a - b| / max(|a|, |b|, 1); infinite if only one value is
        infinite; pairs with NaN are left out; None if nothing was compared
    differing: number of values that differ
    numbers: number of values compared
    nan_a, nan_b: number of NaN values
    first: index of the first differing value, in C order
    """

    status: str
    a: TensorHeader | None
    b: TensorHeader | None
    step: int | None = None
    operator: str = ""
    operator_type: str = ""
    max_abs: float | None = None
    max_rel: float | None = None
    differing: int = 0
    numbers: int = 0
    nan_a: int = 0
    nan_b: int = 0
    first: int | None = None

    @property
    def one(self) -> TensorHeader:
        """The tensor of A, or that of B if A has none."""
        header = self.a or self.b
        if header is None:
            raise ValueError("a difference of nothing")
        return header

    @property
    def differs(self) -> bool:
        return self.status not in ("equal", "close")


@dataclass
class _Sums:
    """Accumulated comparison after some blocks of two tensors."""

    max_error: float
    done: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    differing: int = 0
    over: int = 0
    nan_a: int = 0
    nan_b: int = 0
    first: int | None = None

    def add(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        """Add a block. a, b: (n,), of equal length"""
        same = a == b
        if a.dtype.kind == "f":
            nan_a, nan_b = np.isnan(a), np.isnan(b)
            self.nan_a += int(nan_a.sum())
            self.nan_b += int(nan_b.sum())
            same |= nan_a & nan_b
        if not same.all():
            self._add_differing(a, b, ~same)
        self.done += a.size

    def _add_differing(self, a: NDArray[Any], b: NDArray[Any], other: NDArray[np.bool_]) -> None:
        places = np.flatnonzero(other)
        if self.first is None:
            self.first = self.done + int(places[0])
        self.differing += places.size
        left, right = a[places].astype(np.float64), b[places].astype(np.float64)
        finite = np.isfinite(left) & np.isfinite(right)
        # NaN or infinity against a number, or infinities of opposite sign, exceed any tolerance
        self.over += int((~finite).sum())
        if (~finite & ~np.isnan(left) & ~np.isnan(right)).any():
            self.max_abs = self.max_rel = float("inf")
        left, right = left[finite], right[finite]
        if left.size:
            error = np.abs(left - right)
            relative = error / np.maximum(np.maximum(np.abs(left), np.abs(right)), 1.0)
            self.max_abs = max(self.max_abs, float(error.max()))
            self.max_rel = max(self.max_rel, float(relative.max()))
            self.over += int((relative > self.max_error).sum())


def compare(
    a: Dump, b: Dump, *, order: Mapping[int, Producer] | None = None, max_error: float = MAX_ERROR
) -> Iterator[TensorDifference]:
    """Compare all tensors of two dumps, in order of execution as far as it is known.

    order: variable id of A -> the operator that produces it; variables of A without one come next,
        and those that only B has last, each by id

    Raises DumpError.
    """
    order = order or {}
    pairs = align(a.headers(), b.headers())
    for left, right in sorted(pairs, key=lambda pair: _place(pair, order)):
        difference = _compare_pair(a, b, left, right, max_error)
        if maker := order.get(left.id) if left else None:
            yield replace(
                difference, step=maker.step, operator=maker.name, operator_type=maker.type
            )
        else:
            one = difference.one
            yield replace(difference, operator=one.owner, operator_type=one.type)


def align(
    a: Mapping[str, TensorHeader], b: Mapping[str, TensorHeader]
) -> list[tuple[TensorHeader | None, TensorHeader | None]]:
    """Pair the tensors of two dumps: by equal name and id, then by unique name, then by id.

    Ids differ between ways of running a model, and names that MegEngine generates are not unique.
    """
    left, right = dict(a), dict(b)
    pairs: list[tuple[TensorHeader | None, TensorHeader | None]] = []

    def take(one: str, other: str) -> None:
        pairs.append((left.pop(one), right.pop(other)))

    for file in list(left):
        if file in right and _name_key(left[file]) == _name_key(right[file]):
            take(file, file)
    names_a, names_b = (Counter(map(_name_key, side.values())) for side in (left, right))
    by_name = {_name_key(header): file for file, header in right.items()}
    for file in list(left):
        name = _name_key(left[file])
        if names_a[name] == names_b[name] == 1:
            take(file, by_name[name])
    for file in list(left):
        if file in right:
            take(file, file)
    pairs.extend((header, None) for header in left.values())
    pairs.extend((None, header) for header in right.values())
    return pairs


def _name_key(header: TensorHeader) -> tuple[str, int]:
    return header.name, header.slot


def _place(
    pair: tuple[TensorHeader | None, TensorHeader | None], order: Mapping[int, Producer]
) -> tuple[int, int, int]:
    left, right = pair
    if left is None:
        # an id of B may be that of another variable of A
        return 2, 0, right.id if right else 0
    maker = order.get(left.id)
    return (0, maker.step, left.id) if maker else (1, 0, left.id)


def _compare_pair(
    a: Dump, b: Dump, left: TensorHeader | None, right: TensorHeader | None, max_error: float
) -> TensorDifference:
    if left is None or right is None:
        return TensorDifference("only_b" if left is None else "only_a", left, right)
    if left.dtype != right.dtype or left.numpy != right.numpy:
        return TensorDifference("dtype", left, right)
    if left.shape != right.shape or left.numbers != right.numbers:
        return TensorDifference("shape", left, right)
    sums = _Sums(max_error)
    for one, other in zip(a.blocks(left, BLOCK), b.blocks(right, BLOCK), strict=True):
        sums.add(one, other)
    over = sums.differing if left.is_raw else sums.over
    status = "values" if over else "close" if sums.differing else "equal"
    return TensorDifference(
        status,
        left,
        right,
        max_abs=sums.max_abs,
        max_rel=sums.max_rel,
        differing=sums.differing,
        numbers=left.numbers,
        nan_a=sums.nan_a,
        nan_b=sums.nan_b,
        first=sums.first,
    )


def index_of(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of the flat `place` in an array of this shape; (place,) if it is out of
    range.
    """
    sizes = list(itertools.accumulate(reversed(shape), lambda x, y: x * y, initial=1))
    if place >= sizes[-1]:
        return (place,)
    return tuple(
        place // size % axis for size, axis in zip(reversed(sizes[:-1]), shape, strict=True)
    )
