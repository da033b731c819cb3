"""Orders that only pages know: of texts, and of the statistics over passes."""

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.data import Spread
from profiles.analysis.ordering import number_order
from profiles.analysis.select import Selection
from profiles.parsers.columns import NumberColumn, ProfileColumns, taken
from profiles.tables.request import STATISTIC_ORDERS


def text_ordered(
    selection: Selection, columns: ProfileColumns, order: str, *, ascending: bool
) -> Selection:
    """Return operators ordered by `name` or `type`; equal ones stay in their order."""
    column = columns.names if order == "name" else columns.types
    texts = [column[row] or "" for row in selection.rows.tolist()]
    places = sorted(range(len(texts)), key=texts.__getitem__, reverse=not ascending)
    return taken(selection, np.array(places, dtype=np.intp))


def statistic_ordered(
    selection: Selection, spread: Spread, order: str, *, ascending: bool
) -> Selection:
    """Return operators ordered by a statistic over passes; those without one come last.

    order: one of `request.STATISTIC_ORDERS`
    """
    values: NDArray[np.float64] = getattr(spread, STATISTIC_ORDERS[order])[selection.rows]
    column = NumberColumn(values.astype(np.float64), ~np.isnan(values))
    return taken(selection, number_order(column, ascending=ascending))
