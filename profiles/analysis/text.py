"""The output of `python -m megengine.tools.profile_analyze`, byte for byte.

Checked against MegEngine 1.13.0 under Python 3.10 with tabulate 0.10. As in the original, names
outside ASCII are padded differently if the package wcwidth is installed. Where the original stops
with a traceback or mixes up rows, this module prints the intended output.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from profiles.analysis.errors import AnalysisError
from profiles.analysis.grid import Grid, Line
from profiles.analysis.name_pattern import linear_time
from profiles.analysis.numbers import bandwidth, computation, flops, memory, percent, short
from profiles.analysis.select import Compile, Query, Selection, select
from profiles.analysis.table import NO_SHAPES, TableRow, info_lines, rows, shape_text
from profiles.analysis.totals import check_device_total
from profiles.formats.columns import MISSING, SIDES, ProfileColumns, Side, TextColumn

COPY = "Copy"
_PIECE = 500
#: most rows kept in memory between measuring and drawing a table
_KEPT_PIECES = 20
_PIECE_CHARS = 1 << 16
#: tabulate keeps all lines, at a kilobyte each; longer tables are drawn with all columns as text
_TABULATE_LINES = 200_000
#: most lines of a text for a network response
MOST_LINES = 1_000_000
_NO_COPIES = "no Copy operators"
BAR_LENGTH = 15
_WIKI_INFO = ("opr name", "opr type", "opr id")
_WIKI_GROUP_INFO = ("opr type", "opr count", "opr id")


@dataclass(frozen=True)
class PrintOptions:
    """Which parts are printed and how; names and defaults are those of `profile_analyze`.

    top: rows of each table; 0 is all, -n all but the last n
    print_only: one part instead of summary, device and, with `show_host`, host
    copy_time: two lines of the summary about the operators that copy between nodes
    only_operators: names, types and ids instead of tables
    wiki: tables for Confluence
    """

    top: int = 3
    show_host: bool = False
    print_only: Literal["", "summary", "device", "host"] = ""
    copy_time: bool = False
    only_operators: bool = False
    wiki: bool = False


def _info(row: TableRow) -> Line:
    if row.operator == MISSING:
        return info_lines((row.type, str(row.count), row.id))
    return info_lines((row.name, row.type, row.id))


#: the columns of a table: title and lines of the cell
_COLUMNS: Mapping[str, Callable[[TableRow], Line]] = {
    "{side} self time": lambda row: (f"#{row.place}", short(row.self_s), percent(row.ratio)),
    "cumulative": lambda row: (short(row.cumulative_s), percent(row.cumulative_ratio)),
    "operator info": _info,
    "computation": lambda row: computation(row.computation_flo),
    "FLOPS": lambda row: flops(row.flops),
    "memory": lambda row: memory(row.memory_bytes),
    "bandwidth": lambda row: bandwidth(row.bandwidth_bytes_per_s),
    "in_shapes": lambda row: row.in_shapes,
    "out_shapes": lambda row: row.out_shapes,
}


def text_pieces(columns: ProfileColumns, query: Query, printed: PrintOptions) -> Iterator[bytes]:
    """Yield `report` as UTF-8 in pieces, with few rows in memory however many there are.

    Raises AnalysisError as `report` does, before the first piece, and `text_large` for a text of
    unreadable length: a hostile file has operators with 20,000 tensors, each of them a line.
    """
    if not (query.aggregate or printed.only_operators):  # neither of them prints shapes
        _check_lines(columns, query, printed)
    return _encode(report_pieces(columns, query, printed))


def _encode(pieces: Iterator[str]) -> Iterator[bytes]:
    """Yield pieces large enough for a network packet, without copying the whole text."""
    waiting: list[str] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _PIECE_CHARS:
            yield "".join(waiting).encode()
            waiting, size = [], 0
    yield "".join(waiting).encode()


def _check_lines(columns: ProfileColumns, query: Query, printed: PrintOptions) -> None:
    """Raise AnalysisError if the text has more than `MOST_LINES` lines."""
    lines = _tensors(columns.in_shapes) + _tensors(columns.out_shapes) + 1
    for side in _sides(printed):
        rows = select(columns, replace(query, side=side)).rows[: printed.top or None]
        if (count := int(lines[rows].sum())) > MOST_LINES:
            text = f"the table of the {side} would have {count:,} lines; at most {MOST_LINES:,}"
            raise AnalysisError("text_large", f"{text} are printed: filter, or export CSV")


def _tensors(shapes: TextColumn) -> NDArray[np.int64]:
    """Return (n,) an upper bound of the number of tensors of each operator."""
    counts = np.array([*(text.count("[") for text in shapes.values), 0], dtype=np.int64)
    return counts[shapes.codes]


def report(
    columns: ProfileColumns, query: Query, printed: PrintOptions, *, matches: Compile = linear_time
) -> str:
    """Return the output of `profile_analyze` for these options, with a trailing newline.

    query: applied to each printed side; its own `side` is ignored
    matches: as in `select`

    Raises AnalysisError as `select` does.
    """
    return "".join(report_pieces(columns, query, printed, matches=matches))


def report_pieces(
    columns: ProfileColumns, query: Query, printed: PrintOptions, *, matches: Compile = linear_time
) -> Iterator[str]:
    """Yield `report` in pieces. Raises AnalysisError as it does, before the first piece."""
    parts: list[Iterable[str]] = []
    if printed.print_only not in get_args(Side):
        check_device_total(columns)
        lines = _summary(columns)
        if printed.copy_time:
            lines += _copy_times(columns, query, matches)
        parts.append(
            [
                _wiki_table(lines, ("name", "value"))
                if printed.wiki
                else tabulate(lines, tablefmt="simple")
            ]
        )
    if printed.print_only != "summary":
        for side in _sides(printed):
            selection = select(columns, replace(query, side=side), matches=matches)
            parts.append(_part(columns, selection, printed))
    return _join(parts)


def _sides(printed: PrintOptions) -> tuple[Side, ...]:
    if printed.print_only == "device" or printed.print_only == "host":
        return (printed.print_only,)
    if printed.print_only == "summary":
        return ()
    return ("device", "host") if printed.show_host else ("device",)


def _join(parts: Iterable[Iterable[str]]) -> Iterator[str]:
    """Join parts with an empty line between them and a trailing newline."""
    for number, part in enumerate(parts):
        if number:
            yield "\n"
        yield from part
        yield "\n"


def _part(columns: ProfileColumns, selection: Selection, printed: PrintOptions) -> Iterable[str]:
    if printed.only_operators:
        return ["\n".join(_operator_lines(columns, selection)[: printed.top or None])]
    if printed.wiki:
        made = rows(columns, selection, 0, printed.top or None)
        return [_wiki_operators(columns, made, is_grouped=selection.is_grouped)]
    return _table_pieces(columns, selection, printed.top)


def _table_pieces(columns: ProfileColumns, selection: Selection, top: int) -> Iterator[str]:
    """Yield the drawn table; its rows are produced twice if they are too many to be kept."""
    titles = [title.format(side=selection.side) for title in _COLUMNS]
    grid = Grid(titles)
    kept: list[list[list[Line]]] = []
    count = 0
    for count, piece in enumerate(_in_pieces(columns, selection, top), 1):
        grid.add(piece)
        if count <= _KEPT_PIECES:
            kept.append(piece)
    made = kept if count == len(kept) else _in_pieces(columns, selection, top)
    all_rows = chain.from_iterable(made)
    if grid.is_plain or grid.lines > _TABULATE_LINES:
        yield from grid.draw(all_rows)
    else:
        yield _by_tabulate(titles, list(all_rows))


def _in_pieces(
    columns: ProfileColumns, selection: Selection, top: int
) -> Iterator[list[list[Line]]]:
    """Yield the rows as lines of texts, few at a time, because a row takes a kilobyte."""
    count = len(range(len(selection))[: top or None])
    for start in range(0, count, _PIECE):
        made = rows(columns, selection, start, min(start + _PIECE, count))
        yield [_lines(row) for row in made]


def _lines(row: TableRow) -> list[Line]:
    return list(zip_longest(*[cell(row) for cell in _COLUMNS.values()], fillvalue=""))


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


def _summary(columns: ProfileColumns) -> list[tuple[str, str | float]]:
    """Return the two totals; as in the original, `N/A` in one changes the format of the other."""
    totals = {side: columns.times(side).total_s() for side in SIDES}
    return [
        (f"total {side} time", "N/A" if total_s is None else total_s)
        for side, total_s in totals.items()
    ]


def _copy_times(columns: ProfileColumns, query: Query, matches: Compile) -> list[tuple[str, str]]:
    """Return two lines about the `Copy` operators that pass the filters, ignoring the limits of
    time.
    """
    if query.types and COPY not in query.types:
        return [("copy time", _NO_COPIES), ("copy wait time", _NO_COPIES)]
    copies = Query(types=(COPY,), name=query.name, text=query.text, input_dtype=query.input_dtype)
    waits = replace(copies, top_end="kern")
    return [
        ("copy time", _copy_text(select(columns, copies, matches=matches))),
        ("copy wait time", _copy_text(select(columns, waits, matches=matches))),
    ]


def _copy_text(copies: Selection) -> str:
    if not len(copies):
        return _NO_COPIES
    # the order of the file determines the last digits
    self_s = copies.self_s[np.argsort(copies.rows)]
    return f"tot={np.sum(self_s):.4f} avg={np.mean(self_s):.4f}"


def _by_tabulate(titles: Sequence[str], made: Sequence[Sequence[Line]]) -> str:
    """Draw a table with tabulate, as the original does.

    Each line of a cell is passed to tabulate as a row of its own, and the rules between the lines
    of one operator are removed afterwards. This determines how tabulate sees a column: if all its
    lines look like numbers, it is aligned at the decimal point.
    """
    lines: list[Line] = []
    inner_rules: set[int] = set()
    for cells in made:
        # the drawn lines: top rule, headers, rule, then alternately line and rule
        inner_rules.update(2 * (len(lines) + at) + 2 for at in range(1, len(cells)))
        lines.extend(cells)
    drawn = tabulate(lines, headers=titles, tablefmt="fancy_grid").split("\n")
    return "\n".join(text for at, text in enumerate(drawn) if at not in inner_rules)


def _wiki_operators(columns: ProfileColumns, made: Sequence[TableRow], *, is_grouped: bool) -> str:
    """Return the table of operators of one side as `--confluence` prints it, with bars of `#`.

    The length of a bar is proportional to the largest finite number in these rows; missing and
    infinite numbers have no bar.
    """
    time_bars = _bars([row.self_s for row in made])
    flops_bars = _bars([row.flops for row in made])
    bandwidth_bars = _bars([row.bandwidth_bytes_per_s for row in made])
    lines = [
        (
            place,
            short(row.self_s),
            percent(row.ratio),
            time_bars[place],
            row.cumulative_s,
            row.cumulative_ratio,
            *((row.type, row.count, row.id) if is_grouped else (row.name, row.type, row.id)),
            _scaled(row.computation_flo, 1000),
            _scaled(row.flops, 1000),
            flops_bars[place],
            _scaled(row.memory_bytes, 1024),
            _scaled(row.bandwidth_bytes_per_s, 1024),
            bandwidth_bars[place],
            *_wiki_shapes(columns, row.operator, is_grouped=is_grouped),
        )
        for place, row in enumerate(made)
    ]
    return _wiki_table(lines, _wiki_titles(is_grouped))


def _wiki_titles(is_grouped: bool) -> tuple[str, ...]:
    return (
        *("#", "time", "ratio", "time bar", "cum-time", "cum-time ratio"),
        *(_WIKI_GROUP_INFO if is_grouped else _WIKI_INFO),
        *("computation (MFLO)", "MFLOPS", "MFLOPS-bar"),
        *("memory (MB)", "bandwidth (MiB/s)", "bandwidth bar", "in_shapes", "out_shapes"),
    )


def _wiki_shapes(columns: ProfileColumns, operator: int, *, is_grouped: bool) -> tuple[str, str]:
    if is_grouped:
        return NO_SHAPES, NO_SHAPES
    return (
        shape_text(columns.in_shapes[operator], columns.in_layouts[operator]),
        shape_text(columns.out_shapes[operator]),
    )


def _scaled(value: float | None, base: int) -> str:
    return "N/A" if value is None else f"{value / base**2:.1f}"


def _bars(values: Sequence[float | None]) -> list[str]:
    largest = max((v for v in values if v is not None and math.isfinite(v)), default=0.0)
    return [
        "#" * int(max(value, 0.0) / largest * BAR_LENGTH)
        if largest and value is not None and math.isfinite(value)
        else ""
        for value in values
    ]


def _wiki_table(lines: Sequence[Sequence[str | float]], titles: Sequence[str]) -> str:
    text: str = tabulate(lines, headers=titles, tablefmt="orgtbl")
    first, rule, *others = text.split("\n")
    return "\n".join((first, rule.replace("+", "|"), *others))
