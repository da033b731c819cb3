"""Render rows of the operator tables as HTML in Python; a template is five times slower per cell.

Every text that may come from a file passes through `html.escape` and is put into an element that
isolates its text direction.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from profiles.analysis.data import Spread
from profiles.analysis.durations import ABSENT
from profiles.analysis.numbers import bandwidth, memory, page_operations, page_rate, percent, short
from profiles.analysis.table import TableRow
from profiles.presenters.formatting import visible

#: most tensors listed in one cell; the panel of an operator lists all
_MOST_TENSORS = 6
#: longest name that a column shows in full
_LONG_NAME = 28


@dataclass(frozen=True)
class TableContext:
    """Data that the cells of all rows share.

    operator_url: prefix of an operator's address, followed by its number and a slash
    state: suffix of these addresses; the address of the table
    type_url: for aggregated rows, the address of a type's operators; None if rows are not types
    spread: the spread of one side over passes, None without several passes
    unstable: (n,) bool, by row of the columns: operators that are marked as unstable
    """

    operator_url: str
    state: str
    type_url: Callable[[str], str] | None = None
    spread: Spread | None = None
    unstable: NDArray[np.bool_] | None = None


def rows_html(
    rows: Sequence[TableRow],
    keys: Sequence[str],
    *,
    first: int,
    around: TableContext,
) -> SafeString:
    """Return the `<tr>` elements of rows, the first of which has the index `first` (from 0)."""
    makers = [_MAKERS[key] for key in keys if key in _MAKERS]
    parts = []
    for place, row in enumerate(rows, first):
        cells = "".join([make(row, around) for make in makers])
        number = "" if row.operator < 0 else f' data-row="{row.operator}"'
        parts.append(f'<tr{number}><td class="operators__rank">{place + 1}</td>{cells}</tr>')
    # all text that does not come from this file was escaped cell by cell
    return mark_safe("".join(parts))


_Maker = Callable[[TableRow, TableContext], str]


def _operator(row: TableRow, around: TableContext) -> str:
    if row.operator < 0:
        return _group(row, around)
    name, state = escape(visible(row.name)), escape(around.state)
    title = f' title="{name}"' if len(row.name) > _LONG_NAME else ""
    return (
        f'<th scope="row" class="operators__op"><a class="operators__name" '
        f'href="{around.operator_url}{row.operator}/{state}"{title}>'
        f"<bdi>{name or ABSENT}</bdi></a><br>"
        f'<bdi class="operator__type">{escape(visible(row.type))}</bdi> '
        f'<bdi class="muted">{escape(visible(row.id))}</bdi></th>'
    )


def _group(row: TableRow, around: TableContext) -> str:
    name = escape(visible(row.name))
    title = f'<bdi class="operators__name">{name}</bdi>'
    if around.type_url is not None:
        address = escape(around.type_url(row.name))
        title = f'<a class="operators__name" href="{address}"><bdi>{name}</bdi></a>'
    return (
        f'<th scope="row" class="operators__op">{title}<br>'
        f'<span class="muted">× {row.count}</span></th>'
    )


def _cell(key: str, text: Callable[[TableRow, TableContext], object]) -> _Maker:
    start = f'<td class="operators__{key}">'

    def make(row: TableRow, around: TableContext) -> str:
        return f"{start}{text(row, around)}</td>"

    return make


def _with_share(time_s: float, ratio: float) -> str:
    """Return a time and its share of the total, which is unknown for a total of 0."""
    share = ABSENT if math.isnan(ratio) else percent(ratio)
    return f'{short(time_s)}<br><span class="muted">{share}</span>'


def _shapes(lines: Sequence[str]) -> str:
    head, *others = lines
    text = " ".join(others[:_MOST_TENSORS])
    if len(others) > _MOST_TENSORS:
        text += f" … +{len(others) - _MOST_TENSORS}"
    return f"{escape(head)}<br>{escape(text)}"


def _statistic(
    row: TableRow, around: TableContext, name: str, form: Callable[[float], object] = short
) -> object:
    """Return a field of `Spread` for an operator; a dash for a group and without samples."""
    if around.spread is None or row.operator < 0:
        return ABSENT
    value = float(getattr(around.spread, name)[row.operator])
    return ABSENT if math.isnan(value) else form(value)


def _cv(row: TableRow, around: TableContext) -> str:
    badge = ""
    if around.unstable is not None and row.operator >= 0 and around.unstable[row.operator]:
        badge = f'<br><span class="badge badge--unstable">{escape(_("unstable"))}</span>'
    return f"{_statistic(row, around, 'cv', percent)}{badge}"


_MAKERS: Mapping[str, _Maker] = {
    "op": _operator,
    "time": _cell("time", lambda row, _around: _with_share(row.self_s, row.ratio)),
    "p10": _cell("p10", lambda row, around: _statistic(row, around, "p10_s")),
    "p90": _cell("p90", lambda row, around: _statistic(row, around, "p90_s")),
    "min": _cell("min", lambda row, around: _statistic(row, around, "min_s")),
    "cv": _cell("cv", _cv),
    "n": _cell("n", lambda row, around: _statistic(row, around, "count", int)),
    "cum": _cell("cum", lambda row, _around: _with_share(row.cumulative_s, row.cumulative_ratio)),
    "flo": _cell("flo", lambda row, _around: page_operations(row.computation_flo)),
    "flops": _cell("flops", lambda row, _around: page_rate(row.flops)),
    "mem": _cell("mem", lambda row, _around: " ".join(memory(row.memory_bytes))),
    "bw": _cell("bw", lambda row, _around: " ".join(bandwidth(row.bandwidth_bytes_per_s))),
    "in": _cell("in", lambda row, _around: _shapes(row.in_shapes)),
    "out": _cell("out", lambda row, _around: _shapes(row.out_shapes)),
}
