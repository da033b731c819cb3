"""The order of rows: stable, what does not exist last, and nan without harm to the others."""

import numpy as np
from numpy.typing import NDArray

from profiles.formats.columns import NumberColumn

Places = NDArray[np.intp]


def number_order(column: NumberColumn, *, ascending: bool) -> Places:
    """Return the (m,) order of a column; absent numbers come last, in both directions."""
    known = np.flatnonzero(column.present)
    values = column.values[known]
    order = known[ascending_order(values if ascending else -values)]
    if len(known) == len(column.values):
        return order
    return np.concatenate([order, np.flatnonzero(~column.present)])


def integer_order(values: NDArray[np.int64], *, ascending: bool) -> Places:
    """Return the (m,) order of whole numbers."""
    # the complement reverses the order as the negative does, and cannot overflow
    return np.argsort(values if ascending else ~values, kind="stable")


def ascending_order(keys: NDArray[np.float64]) -> Places:
    """Return the (m,) stable order of rising keys.

    `profile_analyze` compares with nan as if it were any number, which moves the other rows about.
    Where its order leaves the others in their order, it is kept, wherever nan stands; elsewhere nan
    comes last.
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
