"""Parse the query string of a result page to a `TableRequest` with a `Query`, and back.

An address omits default values, so equal tables have equal addresses.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast, get_args
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.translation import gettext as _

from profiles.analysis.name_pattern import PatternError, linear_time
from profiles.analysis.select import Aggregate, Order, Query
from profiles.formats.columns import Side
from profiles.presenters.formatting import visible
from profiles.query_values import QueryValues, unknown_choice
from profiles.tables.columns import FIXED, KEYS, columns_available
from webprofile.integers import LARGEST_COUNT, parse_int
from webprofile.sentences import sentences

#: sort keys that only pages have: texts, and statistics over passes with the names of `Spread`
TEXT_ORDERS = ("name", "type")
STATISTIC_ORDERS = {"p10": "p10_s", "p90": "p90_s", "min": "min_s", "cv": "cv", "count": "count"}
ORDERS = (*get_args(Order), *TEXT_ORDERS, *STATISTIC_ORDERS)
AGGREGATES: tuple[Aggregate, ...] = ("sum", "mean", "max", "min")
SIDES: dict[str, tuple[Side, ...]] = {
    "device": ("device",),
    "host": ("host",),
    "both": ("device", "host"),
}
#: parameters of a request for the table that the server renders
PARAMETERS = {
    *("type", "text", "name", "dtype", "min", "max", "end", "agg", "over", "order", "up", "side"),
    *("rows", "pass", "cols", "col", "page", "filters"),
}
#: rows per page
PAGE_ROWS = 50
#: most values of one parameter that are used
_MOST_VALUES, _LONGEST_TEXT = 200, 500
_DURATION = re.compile(
    r"\s*+([0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?|\.[0-9]+)\s*+(s|ms|us|µs|μs|ns)?\s*+",
    re.IGNORECASE,
)
_UNITS_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class TableRequest:
    """A request for the operator tables.

    query: of the first side; its order is `time` if `order` is one that only pages have
    order: one of `ORDERS`
    top: number of rows, 0 for all
    columns: chosen keys of `columns.KEYS` in order; empty for the default columns
    pass_number: 1 to the number of passes; 0 for the medians over all passes
    page: counted from 1, for browsers without JavaScript
    typed: parameters as the user typed them, to fill the form again
    problems: by parameter, a message about an invalid value, which is ignored
    """

    query: Query = field(default_factory=Query)
    sides: tuple[Side, ...] = ("device",)
    order: str = "time"
    top: int = 0
    columns: tuple[str, ...] = ()
    pass_number: int = 0
    page: int = 1
    typed: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    def ordered(self, order: str, *, ascending: bool) -> "TableRequest":
        """Return the same request with another order."""
        query = replace(self.query, order=_query_order(order), ascending=ascending)
        return replace(self, query=query, order=order, page=1)

    @property
    def literal(self) -> tuple[str, str] | None:
        """Return the text of an invalid pattern, and the address that searches for it as plain
        text.

        None if there is no such pattern.
        """
        typed = self.typed.get("name", "")
        if "name" not in self.problems:
            return None
        return typed, replace(self, query=replace(self.query, text=typed), page=1).address()

    @property
    def is_filtered(self) -> bool:
        """Whether rows may be left out other than by the row limit."""
        plain = replace(self.query, side="device", order="time", ascending=False, top_end="end")
        return replace(plain, aggregate="", by_type=False) != Query()

    def address(self) -> str:
        """Return `?name=value&...` without default values; empty if there are only default
        values.
        """
        query = self.query
        pairs: list[tuple[str, Any]] = [("type", type_) for type_ in query.types]
        pairs += [
            ("text", query.text),
            ("name", query.name),
            ("dtype", query.input_dtype),
            ("min", self.typed.get("min", "") if query.min_s is not None else ""),
            ("max", self.typed.get("max", "") if query.max_s is not None else ""),
            ("end", "kern" if query.top_end == "kern" else ""),
            ("agg", query.aggregate),
            ("over", "all" if query.aggregate and not query.by_type else ""),
            ("order", self.order if self.order != "time" else ""),
            ("up", "1" if query.ascending else ""),
            ("side", _side_word(self.sides)),
            ("rows", self.top or ""),
            ("pass", self.pass_number or ""),
            ("cols", ",".join(self.columns)),
            ("page", self.page if self.page > 1 else ""),
        ]
        kept = [(name, value) for name, value in pairs if value != ""]
        return f"?{urlencode(kept)}" if kept else ""


def read_request(
    parameters: QueryDict, *, passes: int = 1, without: frozenset[str] = frozenset()
) -> TableRequest:
    """Parse GET parameters; invalid values are ignored and reported in `problems`.

    passes: number of passes of the profile
    without: keys of columns that its page does not offer (`columns_without`)
    """
    typed = {name: parameters.get(name, "")[:_LONGEST_TEXT] for name in parameters}
    problems: dict[str, str] = {}
    values = QueryValues(parameters)
    aggregate = values.one_of("agg", AGGREGATES, "")
    order = values.one_of("order", ORDERS, "time")
    if (aggregate and order not in get_args(Order)) or (passes < 2 and order in STATISTIC_ORDERS):
        order = "time"
    query = Query(
        types=_values(parameters, "type"),
        name=_pattern(typed, problems),
        text=typed.get("text", "").strip(),
        input_dtype=typed.get("dtype", ""),
        top_end=values.one_of("end", ("end", "kern"), "end"),
        min_s=_limit(typed, "min", problems),
        max_s=_limit(typed, "max", problems),
        aggregate=aggregate,
        by_type=values.one_of("over", ("type", "all"), "type") == "type" and bool(aggregate),
        order=_query_order(order),
        ascending=values.one_of("up", ("0", "1"), "0") == "1",
    )
    sides = SIDES[values.one_of("side", tuple(SIDES), "device")]
    columns = _columns(values, passes, without)
    number = values.number("pass", 0, passes) or 0
    page = values.number("page", 1) or 1
    if values.problems:
        problems["choice"] = sentences(values.problems)
    return TableRequest(
        query=replace(query, side=sides[0]),
        sides=sides,
        order=order,
        top=_count(typed, "rows", problems),
        columns=columns,
        pass_number=number if passes > 1 else 0,
        page=page,
        typed=typed,
        problems=problems,
    )


def duration_s(text: str) -> float | None:
    """Parse `0.1ms`, `100us`, `1e-4` to seconds; None if it is not a time."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    value = float(match[1]) * _UNITS_S[(match[2] or "s").lower()]
    return value if math.isfinite(value) else None


def _query_order(order: str) -> Order:
    return cast(Order, order if order in get_args(Order) else "time")


def _side_word(sides: tuple[Side, ...]) -> str:
    word = next(word for word, value in SIDES.items() if value == sides)
    return "" if word == "device" else word


def _values(parameters: QueryDict, name: str) -> tuple[str, ...]:
    values = [value[:_LONGEST_TEXT] for value in parameters.getlist(name)[:_MOST_VALUES]]
    return tuple(dict.fromkeys(filter(None, values)))


def _columns(values: QueryValues, passes: int, without: frozenset[str]) -> tuple[str, ...]:
    """Return the chosen columns; a form sends one parameter per column, an address a single
    list.
    """
    lists = _values(values.parameters, "cols") + _values(values.parameters, "col")
    keys = set(",".join(lists).split(","))
    if unknown := sorted(keys - {"", *KEYS}):
        values.problems.append(unknown_choice("cols", ", ".join(unknown)))
    usual = {column.key for column in columns_available(statistics=passes > 1, aggregated=False)}
    keys -= without
    if not keys & set(KEYS) or usual - without <= keys | set(FIXED):
        return ()
    return tuple(key for key in KEYS if key in keys or key in FIXED)


def _limit(typed: dict[str, str], name: str, problems: dict[str, str]) -> float | None:
    text = typed.get(name, "").strip()
    if not text:
        return None
    value = duration_s(text)
    if value is None:
        problems[name] = _("Invalid time. Enter 0.1ms, 100us or 0.0001 (seconds).")
    return value


def _count(typed: dict[str, str], name: str, problems: dict[str, str]) -> int:
    text = typed.get(name, "").strip()
    if not text:
        return 0
    number = parse_int(text, maximum=LARGEST_COUNT) or 0
    if not number:
        problems[name] = _("Invalid number of rows. Enter 10, or leave it empty for all rows.")
    return number


def pattern_problem(reason: str) -> str:
    """Return why a pattern cannot be used, and how to search for its text."""
    problem = _("The pattern is invalid: %(reason)s.") % {"reason": visible(reason)}
    hint = _(
        "To search for one of these characters, put a backslash before it: "
        "( ) [ ] { } . * + ? | ^ $"
    )
    return sentences([problem, hint])


def _pattern(typed: dict[str, str], problems: dict[str, str]) -> str:
    pattern = typed.get("name", "")
    try:
        if pattern:
            linear_time(pattern)
    except PatternError as error:
        problems["name"] = pattern_problem(error.reason)
        return ""
    return pattern
