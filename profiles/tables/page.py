"""One operator table of a result page: rows, columns, headings and body."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from numpy.typing import NDArray

from profiles.analysis.data import ProfileData, Spread
from profiles.analysis.numbers import share
from profiles.analysis.select import Query, Selection, number_order, select
from profiles.analysis.stability import unstable
from profiles.analysis.table import TableRow, rows
from profiles.formats.columns import NumberColumn, ProfileColumns, Side, take_rows
from profiles.tables.columns import FIXED, Column, columns_available, columns_without
from profiles.tables.html import TableContext, rows_html
from profiles.tables.request import (
    PAGE_ROWS,
    STATISTIC_ORDERS,
    TEXT_ORDERS,
    TableRequest,
)


@dataclass(frozen=True)
class TableLinks:
    """URLs that rows and headings of a table link to.

    page: the page with the table
    operators: URL prefix, to which the row of an operator is appended
    """

    page: str
    operators: str


class SideTable:
    """The table of one side: a window of its rows, and the data around them.

    Raises AnalysisError as `select` does.
    """

    def __init__(
        self, data: ProfileData, request: TableRequest, side: Side, links: TableLinks
    ) -> None:
        self.data, self.request, self.side, self.links = data, request, side, links
        number = request.pass_number
        self.columns = data.columns_of_pass(number - 1) if number else data.columns
        self.selection = _select_ordered(data, self.columns, request, side)
        self.total = min(len(self.selection), request.top or len(self.selection))
        self.is_selectable = not request.query.aggregate

    @property
    def has_statistics(self) -> bool:
        """Whether the table has columns of the spread: for `end` times over several passes."""
        request = self.request
        several = len(self.data.passes) > 1 and not request.pass_number
        return several and self.is_selectable and request.query.top_end == "end"

    def displayed_columns(self) -> list[Column]:
        """Return the displayed columns in order."""
        request = self.request
        available = columns_available(
            statistics=self.has_statistics, aggregated=not self.is_selectable
        )
        chosen = set(request.columns) | set(FIXED)
        without = columns_without(self.data.columns)
        return [
            column
            for column in available
            if column.key not in without and (not request.columns or column.key in chosen)
        ]

    def heads(self) -> list[dict[str, Any]]:
        """Return the heading of each column; `address` sorts by it, or reverses the order."""
        return [self._head(column) for column in self.displayed_columns()]

    def _head(self, column: Column) -> dict[str, Any]:
        request, order = self.request, column.order
        is_current = bool(order) and request.order == order
        ascending = not request.query.ascending if is_current else order == "opr_id"
        can_order = bool(order) and (self.is_selectable or order not in _NOT_OF_GROUPS)
        address = request.ordered(order, ascending=ascending).address() if can_order else None
        direction = "ascending" if request.query.ascending else "descending"
        title, note = column.title, column.note
        if column.key == "op" and not self.is_selectable:
            title, note = _("Type"), _("operators in the group")
        return {
            "key": column.key,
            "title": title,
            "note": note,
            "about": column.about,
            "address": address,
            "sort": direction if is_current and can_order else "",
        }

    @property
    def start(self) -> int:
        """Index of the first row of the requested page."""
        last = max(0, (self.total - 1) // PAGE_ROWS)
        return min(self.request.page - 1, last) * PAGE_ROWS

    def rows(self, start: int) -> tuple[TableRow, ...]:
        """The rows of the window at `start`, at most `PAGE_ROWS`; `operator` is always a row of
        the merged columns.
        """
        stop = min(start + PAGE_ROWS, self.total)
        table_rows = rows(self.columns, self.selection, start, stop)
        if self.request.pass_number > 1 and self.is_selectable:
            order = self.data.order[self.request.pass_number - 1]
            return tuple(replace(row, operator=int(order[row.operator])) for row in table_rows)
        return table_rows

    def body(self) -> SafeString:
        """Return the `<tr>` elements of the requested page."""
        around = TableContext(
            operator_url=self.links.operators,
            state=self.request.address(),
            type_url=self._type_url if self.request.query.by_type else None,
            spread=self.data.spread(self.side) if self.has_statistics else None,
            unstable=unstable(self.data, self.side) if self.has_statistics else None,
        )
        keys = [column.key for column in self.displayed_columns()]
        return rows_html(self.rows(self.start), keys, first=self.start, around=around)

    def _type_url(self, type_: str) -> str:
        query = replace(self.request.query, aggregate="", by_type=False, types=(type_,))
        return self.links.page + replace(self.request, query=query, page=1).address()

    def place_of(self, operator: int) -> int | None:
        """Return the index of an operator in the table, None if it is not in it."""
        places = np.flatnonzero(self.operators() == operator)
        return int(places[0]) if places.size else None

    def operators(self) -> NDArray[np.intp]:
        """Return the operator at each index as a row of the merged columns; (0,) for groups."""
        if not self.is_selectable:
            return np.zeros(0, dtype=np.intp)
        own = self.selection.rows[: self.total]
        if self.request.pass_number > 1:
            own = self.data.order[self.request.pass_number - 1][own].astype(np.intp)
        return own

    def summary_text(self) -> str:
        """Return the number of rows and their share of the side's time, as text."""
        if not self.total:
            return ngettext("%(number)d row", "%(number)d rows", 0) % {"number": 0}
        part = float(self.selection.cumulative_ratio[self.total - 1])
        word = ngettext("%(number)d row", "%(number)d rows", self.total) % {"number": self.total}
        if self.request.query.aggregate not in ("", "sum") or not np.isfinite(part):
            return word
        return _("%(rows)s, %(share)s of the total") % {"rows": word, "share": share(part)}

    def context(self) -> dict[str, Any]:
        """Return the context of `profiles/_table.html`."""
        start, request = self.start, self.request
        more = start + PAGE_ROWS < self.total
        return {
            "side": self.side,
            "title": _("On the device") if self.side == "device" else _("On the host"),
            "heads": self.heads(),
            "total": self.total,
            "whole": int(np.count_nonzero(self.columns.times(self.side).present)),
            "summary_text": self.summary_text(),
            "start": start,
            "first": start + 1,
            "last": min(start + PAGE_ROWS, self.total),
            "body": self.body,
            "previous": _page(request, start // PAGE_ROWS) if start else None,
            "next": _page(request, start // PAGE_ROWS + 2) if more else None,
            "limits": [] if self.total else list(_limits(self)),
        }


_NOT_OF_GROUPS = frozenset({"opr_id", "in_shapes", "out_shapes"})


def _page(request: TableRequest, number: int) -> str:
    return replace(request, page=number).address()


def _select_ordered(
    data: ProfileData, columns: ProfileColumns, request: TableRequest, side: Side
) -> Selection:
    selection = select(columns, replace(request.query, side=side))
    ascending = request.query.ascending
    if selection.is_grouped:
        return selection
    if request.order in TEXT_ORDERS:
        return order_by_text(selection, columns, request.order, ascending=ascending)
    if request.order in STATISTIC_ORDERS and not request.pass_number:
        return order_by_statistic(selection, data.spread(side), request.order, ascending=ascending)
    return selection


def _limits(table: SideTable) -> Iterable[dict[str, Any]]:
    """Yield each filter of an empty table: its title, the number of rows that match it alone, and
    the address of the table without it.
    """
    query, typed = table.request.query, table.request.typed
    filters = [
        ("types", _("Types"), ", ".join(query.types)),
        ("text", _("Name or type contains"), query.text),
        ("name", _("Name begins with"), query.name),
        ("input_dtype", _("Data type of an input"), query.input_dtype),
        ("min_s", _("Self time at least"), "" if query.min_s is None else typed.get("min", "")),
        ("max_s", _("Self time at most"), "" if query.max_s is None else typed.get("max", "")),
    ]
    no_filter = Query(side=table.side, top_end=query.top_end)
    for field, title, value in filters:
        if value:
            alone = replace(no_filter, **{field: getattr(query, field)})
            without = replace(query, **{field: getattr(no_filter, field)})
            yield {
                "title": title,
                "value": value,
                "alone": len(select(table.columns, alone)),
                "address": replace(table.request, query=without, page=1).address(),
            }


def order_by_text(
    selection: Selection, columns: ProfileColumns, order: str, *, ascending: bool
) -> Selection:
    """Return operators sorted by `name` or `type`; the sort is stable."""
    column = columns.names if order == "name" else columns.types
    texts = [column[row] or "" for row in selection.rows.tolist()]
    places = sorted(range(len(texts)), key=texts.__getitem__, reverse=not ascending)
    return take_rows(selection, np.array(places, dtype=np.intp))


def order_by_statistic(
    selection: Selection, spread: Spread, order: str, *, ascending: bool
) -> Selection:
    """Return operators sorted by a statistic over passes; those without a value come last.

    order: one of `request.STATISTIC_ORDERS`
    """
    values: NDArray[np.float64] = getattr(spread, STATISTIC_ORDERS[order])[selection.rows]
    column = NumberColumn(values.astype(np.float64), ~np.isnan(values))
    return take_rows(selection, number_order(column, ascending=ascending))
