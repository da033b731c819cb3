"""Orders that only pages know: of texts, and of the statistics over passes."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.data import Spread
from profiles.analysis.ordering import Places, number_order
from profiles.analysis.select import Selection
from profiles.parsers.columns import NumberColumn, ProfileColumns, TextColumn

_STATISTICS = {
    "p10": "p10_s",
    "p90": "p90_s",
    "min": "min_s",
    "cv": "cv",
    "count": "count",
}


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
    values: NDArray[np.float64] = getattr(spread, _STATISTICS[order])[selection.rows]
    column = NumberColumn(values.astype(np.float64), ~np.isnan(values))
    return taken(selection, number_order(column, ascending=ascending))


def taken(selection: Selection, places: Places) -> Selection:
    """Return some rows of a selection in another order, with their own running sums."""
    self_s, ratio = selection.self_s[places], selection.ratio[places]
    with np.errstate(invalid="ignore", over="ignore"):
        return replace(
            selection,
            rows=selection.rows[places],
            types=TextColumn(selection.types.codes[places], selection.types.values),
            counts=selection.counts[places],
            self_s=self_s,
            ratio=ratio,
            cumulative_s=np.cumsum(self_s) + 0.0,
            cumulative_ratio=np.cumsum(ratio) + 0.0,
            computation=_taken(selection.computation, places),
            flops=_taken(selection.flops, places),
            memory=_taken(selection.memory, places),
            bandwidth=_taken(selection.bandwidth, places),
        )


def _taken(column: NumberColumn, places: Places) -> NumberColumn:
    return NumberColumn(column.values[places], column.present[places])
