"""The text that `python -m megengine.tools.profile_analyze` prints, byte for byte.

Checked against MegEngine 1.13.0 under Python 3.10 with tabulate 0.10. As there, names that are
not ASCII are padded differently if the package wcwidth is installed. Where the original stops with
a traceback, or mixes up rows, this prints what it meant to.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from profiles.analysis import wiki
from profiles.analysis.grid import Line, fancy_grid
from profiles.analysis.name_pattern import linear_time
from profiles.analysis.query import Query
from profiles.analysis.select import Compile, Selection, select
from profiles.analysis.table import Row, headers, rows
from profiles.analysis.totals import Totals, totals
from profiles.parsers.columns import ProfileColumns, Side, TextColumn

COPY = "Copy"
_PIECE = 500
#: of a text that a page may ask for: a hostile operator has a line for each of 20,000 tensors
_MOST_LINES = 200_000
_NO_COPIES = "no Copy operators"


@dataclass(frozen=True)
class Printed:
    """Which parts are printed, and how; names and defaults are the original's.

    top: rows of each table; 0 is all, -n all but the last n
    print_only: one part instead of summary, device and, with `show_host`, host
    copy_time: two lines of the summary, about the operators that copy between nodes
    only_operators: names, types and ids instead of tables
    wiki: tables for Confluence
    """

    top: int = 3
    show_host: bool = False
    print_only: Literal["", "summary", "device", "host"] = ""
    copy_time: bool = False
    only_operators: bool = False
    wiki: bool = False


def profile_text(columns: ProfileColumns, top: int = 3, show_host: bool = False) -> str:
    """Return what `profile_analyze -t TOP [--show-host]` prints.

    Raises AnalysisError if the device total is 0.
    """
    return report(columns, Query(), Printed(top=top, show_host=show_host))


def bounded_text(columns: ProfileColumns, top: int) -> str:
    """Return `profile_text` of at most `top` operators, fewer where their shapes would not end."""
    return bounded_report(columns, Query(), Printed(top=top, show_host=True))


def bounded_report(columns: ProfileColumns, query: Query, printed: Printed) -> str:
    """Return `report` of at most `printed.top` (1 or more) rows a table, fewer where their shapes
    would not end.
    """
    if query.aggregate or printed.only_operators:  # neither has shapes
        return report(columns, query, printed)
    top = printed.top
    lines = _tensors(columns.in_shapes) + _tensors(columns.out_shapes) + 1
    for side in get_args(Side):
        first = select(columns, replace(query, side=side)).rows[:top]
        beyond = np.flatnonzero(np.cumsum(lines[first]) > _MOST_LINES)
        if beyond.size:
            top = max(1, int(beyond[0]))
    return report(columns, query, replace(printed, top=top))


def _tensors(shapes: TextColumn) -> NDArray[np.int64]:
    """(n,) at least as many as the tensors of each operator."""
    counts = np.array([*(text.count("[") for text in shapes.values), 0], dtype=np.int64)
    return counts[shapes.codes]


def report(
    columns: ProfileColumns, query: Query, printed: Printed, *, matches: Compile = linear_time
) -> str:
    """Return what `profile_analyze` prints for these options, with the last line's end.

    query: asked for each side that is printed; its own side means nothing
    matches: as in `select`

    Raises AnalysisError as `select` does.
    """
    parts = []
    sides: tuple[Side, ...] = ("device", "host") if printed.show_host else ("device",)
    if printed.print_only == "device" or printed.print_only == "host":
        sides = (printed.print_only,)
    else:
        lines = _summary(totals(columns))
        if printed.copy_time:
            lines += _copy_times(columns, query, matches)
        parts.append(wiki.summary(lines) if printed.wiki else tabulate(lines, tablefmt="simple"))
    if printed.print_only != "summary":
        for side in sides:
            selection = select(columns, replace(query, side=side), matches=matches)
            parts.append(_part(columns, selection, printed))
    # each part and an empty line, in one copy: a part may have tens of megabytes
    return "\n".join(chain.from_iterable((part, "") for part in parts))


def _part(columns: ProfileColumns, selection: Selection, printed: Printed) -> str:
    if printed.only_operators:
        return "\n".join(_operator_lines(columns, selection)[: printed.top or None])
    if printed.wiki:
        made = rows(columns, selection, 0, printed.top or None)
        return wiki.operators(columns, made, is_grouped=selection.is_grouped)
    return table_text(headers(selection.side), _in_pieces(columns, selection, printed.top))


def _in_pieces(columns: ProfileColumns, selection: Selection, top: int) -> Iterator[Row]:
    """The rows, few of them at a time: a row takes a kilobyte."""
    count = len(range(len(selection))[: top or None])
    for start in range(0, count, _PIECE):
        yield from rows(columns, selection, start, min(start + _PIECE, count))


def _operator_lines(columns: ProfileColumns, selection: Selection) -> list[str]:
    types = [selection.types[place] or "" for place in range(len(selection))]
    if selection.is_grouped:
        return [
            f"{kind} {count} N/A"
            for kind, count in zip(types, selection.counts.tolist(), strict=True)
        ]
    return [
        f"{columns.names[row]} {kind} {columns.ids[row]}"
        for kind, row in zip(types, selection.rows.tolist(), strict=True)
    ]


def _summary(sums: Totals) -> list[tuple[str, str | float]]:
    """The two totals; as in the original, `N/A` in one prints the other in full."""
    return [
        ("total device time", "N/A" if sums.device_s is None else sums.device_s),
        ("total host time", "N/A" if sums.host_s is None else sums.host_s),
    ]


def _copy_times(columns: ProfileColumns, query: Query, matches: Compile) -> list[tuple[str, str]]:
    """Two lines about the `Copy` operators among the filtered, whatever their times."""
    if query.types and COPY not in query.types:
        return [("copy time", _NO_COPIES), ("copy wait time", _NO_COPIES)]
    copies = Query(types=(COPY,), name=query.name, input_dtype=query.input_dtype)
    waits = replace(copies, top_end="kern")
    return [
        ("copy time", _copy_text(select(columns, copies, matches=matches))),
        ("copy wait time", _copy_text(select(columns, waits, matches=matches))),
    ]


def _copy_text(copies: Selection) -> str:
    if not len(copies):
        return _NO_COPIES
    # the file's order decides the last digits
    self_s = copies.self_s[np.argsort(copies.rows)]
    return f"tot={np.sum(self_s):.4f} avg={np.mean(self_s):.4f}"


def table_text(titles: Sequence[str], made: Iterable[Row]) -> str:
    """Return the table drawn with lines."""
    listed = [list(zip_longest(*row.cells, fillvalue="")) for row in made]
    return fancy_grid(titles, listed) or _by_tabulate(titles, listed)


def _by_tabulate(titles: Sequence[str], made: Sequence[Sequence[Line]]) -> str:
    """Each line of a cell goes to tabulate as a row of its own, and the rules between lines of one
    operator are taken out again. So does the original, and it decides how tabulate sees a column:
    one whose lines all look like numbers is aligned on the point.
    """
    lines: list[Line] = []
    inner_rules: set[int] = set()
    for cells in made:
        # drawn: top rule, headers, rule, then line and rule in turns
        inner_rules.update(2 * (len(lines) + at) + 2 for at in range(1, len(cells)))
        lines.extend(cells)
    drawn = tabulate(lines, headers=titles, tablefmt="fancy_grid").split("\n")
    return "\n".join(text for at, text in enumerate(drawn) if at not in inner_rules)
