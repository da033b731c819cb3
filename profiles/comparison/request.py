"""Parse and build the query string of a comparison: profiles, filters, selected row."""

from dataclasses import dataclass, field, replace
from typing import Any

from django.core.paginator import Page
from django.http import QueryDict
from django.utils.translation import gettext as _

from profiles.comparison.question import SORTS, RowQuery
from profiles.comparison.rows import STATUSES
from profiles.comparison.waterfall import BYS, By
from profiles.formats.columns import SIDES, Side
from profiles.query_values import QueryValues, unknown_choice
from webprofile.integers import LARGEST_COUNT, parse_int

_LONGEST_TEXT = 200
#: most profile numbers that are parsed, to bound the work on a hostile address
_MOST_READ = 50


@dataclass(frozen=True)
class ComparisonRequest:
    """The parsed query string of a comparison. Invalid values are ignored and reported in
    `problems`.

    ids: numbers of profiles in order, the first is the baseline; None for an invalid number
    other: profile of the waterfall and the graph, counted from 1
    row: the selected row, None without one
    graph: profile whose graph is drawn, counted from 0; None for that of `other`
    usual_side: side that the page shows without one in its address
    at: a row of that profile's own table; if `row` is None, the comparison's row that contains it
        is selected
    problems: ignored values, in sentences
    """

    ids: tuple[int | None, ...]
    question: RowQuery = field(default_factory=RowQuery)
    other: int = 1
    by: By = "row"
    page: int = 1
    row: int | None = None
    graph: int | None = None
    usual_side: Side = "device"
    at: int | None = None
    problems: tuple[str, ...] = ()

    @property
    def drawn(self) -> int:
        """The profile whose graph is drawn, counted from 0."""
        return self.other if self.graph is None else self.graph

    def address(self) -> str:
        """Return the query string without default values."""
        query = QueryDict(mutable=True)
        query.setlist("p", [str(number) for number in self.ids])
        question = self.question
        query.setlist("status", list(question.statuses))
        least = question.least_percent
        for name, value, usual in (
            ("q", question.text, ""),
            ("min", "" if least is None else f"{least:g}", ""),
            ("rows", "all" if question.every else "", ""),
            ("side", question.side, self.usual_side),
            ("sort", question.sort, "change"),
            ("with", str(self.other), "1"),
            ("by", self.by, "row"),
            ("page", str(self.page), "1"),
            ("row", "" if self.row is None else str(self.row), ""),
            ("graph", "" if self.graph is None else str(self.graph), ""),
        ):
            if value != usual:
                query[name] = value
        return query.urlencode()

    def changed(self, **changes: object) -> str:
        """Return the query string with other values; a changed query starts at the first page."""
        if "question" in changes or "ids" in changes:
            changes = {"page": 1, **changes}
        return replace(self, **changes).address()  # type: ignore[arg-type]

    def fields(self) -> list[tuple[str, str]]:
        """Return what forms that choose other results keep: filters, side, order and breakdown."""
        query = QueryDict(self.changed(ids=(), row=None, graph=None))
        return [(name, value) for name, values in query.lists() for value in values]


def read_comparison_request(parameters: QueryDict) -> ComparisonRequest:
    """Parse a query string."""
    numbers = parameters.getlist("p")[:_MOST_READ]
    ids = tuple(parse_int(text, maximum=LARGEST_COUNT) for text in numbers)
    last = max(1, len(ids) - 1)
    values = QueryValues(parameters)
    question = RowQuery(
        side=values.one_of("side", SIDES, "device"),
        statuses=values.several_of("status", STATUSES),
        text=parameters.get("q", "").replace("\0", "")[:_LONGEST_TEXT],
        least_percent=values.read("min", _percent),
        every=values.one_of("rows", ("all",), "") == "all",
        sort=values.one_of("sort", SORTS, "change"),
    )
    return ComparisonRequest(
        ids=ids,
        question=question,
        other=values.number("with", 1, last) or 1,
        by=values.one_of("by", BYS, "row"),
        page=max(1, parse_int(parameters.get("page", ""), maximum=LARGEST_COUNT) or 1),
        row=values.number("row"),
        graph=values.number("graph", 0, last),
        at=values.number("at"),
        problems=tuple(values.problems),
    )


def page_problem(page: "Page[Any]", text: str) -> str:
    """Return the message about an invalid page number in an address; empty if it is valid."""
    number = parse_int(text, maximum=LARGEST_COUNT)
    if not text or number == page.number:
        return ""
    if not number:
        return unknown_choice("page", text)
    return _("Page %(number)s does not exist. This is the last page.") % {"number": number}


def _percent(text: str) -> float | None:
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return None
    return value if 0 <= value <= 1000 else None
