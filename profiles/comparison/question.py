"""Select and sort the rows of a comparison."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from profiles.comparison.comparison import Comparison
from profiles.comparison.rows import STATUSES, ComparisonRow, Status
from profiles.formats.columns import Side

Floats = NDArray[np.float64]
Sort = Literal["change", "slower", "faster", "baseline", "order", "name"]
SORTS: tuple[Sort, ...] = get_args(Sort)
#: share of the baseline's total; an otherwise unchanged row with a smaller change is hidden
QUIET_SHARE = 0.005


@dataclass(frozen=True)
class RowQuery:
    """Filters and order of rows; all filters must match.

    statuses: rows with any of these in any profile; empty for all
    text: case-insensitive part of the name or type of any operator of a row
    least_percent: smallest change in any profile, as percentage of the baseline's total. None for
        the default rule: unchanged rows and constants that changed by less than QUIET_SHARE are
        hidden, all others are shown
    every: show unchanged rows too
    """

    side: Side = "device"
    statuses: tuple[Status, ...] = ()
    text: str = ""
    least_percent: float | None = None
    every: bool = False
    sort: Sort = "change"


@dataclass(frozen=True, eq=False)
class RowSelection:
    """The selected rows of a comparison.

    rows: (k,) numbers of rows in the requested order
    quiet: number of rows hidden only because of their small change
    quiet_delta_s: (p - 1,) their differences, s
    counts: {status: number of rows that have it in any profile}, before filtering
    """

    rows: NDArray[np.intp]
    quiet: int
    quiet_delta_s: Floats
    counts: dict[Status, int]


def select_rows(comparison: Comparison, question: RowQuery) -> RowSelection:
    """Filter and sort the rows of a comparison."""
    rows = comparison.rows
    numbers = comparison.side(question.side)
    change_s = _changes(numbers.delta_s)
    fits = np.array([_fits(comparison, row, question) for row in rows], dtype=bool)
    visible = fits & ~_quiet(comparison, question, change_s)
    left_out = fits & ~visible
    chosen = np.flatnonzero(visible)
    keys = _sort_keys(comparison, question, chosen)
    counts = Counter(
        status for row in rows for status in {cell.status for cell in row.cells if cell}
    )
    return RowSelection(
        rows=chosen[np.argsort(keys, kind="stable")],
        quiet=int(left_out.sum()),
        quiet_delta_s=np.nan_to_num(numbers.delta_s[:, left_out]).sum(axis=1),
        counts={status: counts[status] for status in STATUSES},
    )


def _changes(delta_s: Floats) -> Floats:
    """Return (r,) the largest change of each row, s; inf if one is unknown: such a row is shown."""
    changes_s = np.abs(np.where(np.isnan(delta_s), np.inf, delta_s))
    return np.asarray(changes_s.max(axis=0, initial=0.0))


def _fits(comparison: Comparison, row: ComparisonRow, question: RowQuery) -> bool:
    if question.statuses and not _has(row, set(question.statuses)):
        return False
    text = question.text.casefold()
    return not text or any(
        text in nodes.short_names[x].casefold() or text in nodes.kinds[x].casefold()
        for profile, nodes in enumerate(comparison.nodes)
        for x in row.members(profile)
    )


def _has(row: ComparisonRow, statuses: set[Status]) -> bool:
    return any(cell is not None and cell.status in statuses for cell in row.cells)


def _quiet(comparison: Comparison, question: RowQuery, change_s: Floats) -> NDArray[np.bool_]:
    """Return which rows changed too little to be shown."""
    total_s = np.nan_to_num(comparison.side(question.side).total_s[0])
    if question.least_percent is not None:
        return np.asarray(change_s < question.least_percent / 100 * total_s)
    if question.every or question.statuses:
        return np.zeros(len(change_s), dtype=bool)
    changes = set(STATUSES) - {"same"}
    plain = [row.constant or not _has(row, changes) for row in comparison.rows]
    return np.asarray(np.array(plain, dtype=bool) & (change_s < QUIET_SHARE * total_s))


def _sort_keys(comparison: Comparison, question: RowQuery, rows: NDArray[np.intp]) -> Floats:
    """Return a number for each of these rows, by which they are sorted in ascending order."""
    numbers = comparison.side(question.side)
    delta_s = np.nan_to_num(numbers.delta_s[:, rows])
    keys = rows.astype(np.float64)
    match question.sort:
        case "change":
            keys = -_changes(numbers.delta_s[:, rows])
        case "slower":
            keys = -delta_s.max(axis=0)
        case "faster":
            keys = delta_s.min(axis=0)
        case "baseline":
            keys = -np.nan_to_num(numbers.time_s[0, rows])
        case "name":
            main = [comparison.main[row] for row in rows.tolist()]
            names = [comparison.nodes[profile].short_names[node] for profile, node in main]
            ranks = {name: rank for rank, name in enumerate(sorted(set(names)))}
            keys = np.array([ranks[name] for name in names], dtype=np.float64)
    return keys
