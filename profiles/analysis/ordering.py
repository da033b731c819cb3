"""Stable sort orders: missing values come last, and nan does not disturb the other rows."""

import numpy as np
from numpy.typing import NDArray

from profiles.formats.columns import NumberColumn

Places = NDArray[np.intp]


def number_order(column: NumberColumn, *, ascending: bool) -> Places:
    """Return the (m,) order of a column; missing numbers come last in both directions."""
    known = np.flatnonzero(column.present)
    values = column.values[known]
    order = known[ascending_order(values if ascending else -values)]
    if len(known) == len(column.values):
        return order
    return np.concatenate([order, np.flatnonzero(~column.present)])


def integer_order(values: NDArray[np.int64], *, ascending: bool) -> Places:
    """Return the (m,) order of integers."""
    # the complement reverses the order as the negative does, and cannot overflow
    return np.argsort(values if ascending else ~values, kind="stable")


def ascending_order(keys: NDArray[np.float64]) -> Places:
    """Return the (m,) stable ascending order of keys.

    `profile_analyze` compares nan like any other number, which moves the other rows about. If its
    order keeps the other rows sorted, it is used, wherever it puts nan; otherwise nan comes last.
    """
    if not np.isnan(keys).any():
        return np.argsort(keys, kind="stable")
    # the same sort with the same comparisons
    texts = keys.tolist()
    tools = np.array(sorted(range(len(texts)), key=texts.__getitem__), dtype=np.intp)
    ordered = keys[tools]
    others = ordered[~np.isnan(ordered)]
    if (others[:-1] <= others[1:]).all():
        return tools
    return np.argsort(keys, kind="stable")
