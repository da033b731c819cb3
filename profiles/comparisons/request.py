"""The address of a comparison: which profiles, which rows, what is selected."""

from dataclasses import dataclass, field, replace
from typing import get_args

from django.http import QueryDict

from profiles.analysis.comparison.classify import STATUSES
from profiles.analysis.comparison.question import SORTS, Question
from profiles.analysis.comparison.waterfall import BYS, By
from profiles.parsers.columns import Side

SIDES: tuple[Side, ...] = get_args(Side)
_LONGEST_TEXT = 200
#: more results cannot be asked for; it only bounds the work on a strange address
_MOST_READ = 50


@dataclass(frozen=True)
class Asked:
    """What an address asks for. What makes no sense is as if it were not there.

    ids: numbers of profiles in order, the first is the baseline; None for one that is no number
    other: which profile the waterfall and the graph show, counted from 1
    row: the selected row, None without one
    graph: whose graph is drawn, counted from 0; None for that of `other`
    at: a row of that profile's own table: the comparison's row with it is selected if `row` is None
    """

    ids: tuple[int | None, ...]
    question: Question = field(default_factory=Question)
    other: int = 1
    by: By = "row"
    page: int = 1
    row: int | None = None
    graph: int | None = None
    at: int | None = None

    @property
    def drawn(self) -> int:
        """Whose graph is drawn, counted from 0."""
        return self.other if self.graph is None else self.graph

    def address(self) -> str:
        """The part of the address after the question mark, without what is usual anyway."""
        found = QueryDict(mutable=True)
        found.setlist("p", [str(each) for each in self.ids])
        question = self.question
        found.setlist("status", list(question.statuses))
        least = question.least_percent
        for name, value, usual in (
            ("q", question.text, ""),
            ("min", "" if least is None else f"{least:g}", ""),
            ("rows", "all" if question.every else "", ""),
            ("side", question.side, "device"),
            ("sort", question.sort, "change"),
            ("with", str(self.other), "1"),
            ("by", self.by, "row"),
            ("page", str(self.page), "1"),
            ("row", "" if self.row is None else str(self.row), ""),
            ("graph", "" if self.graph is None else str(self.graph), ""),
        ):
            if value != usual:
                found[name] = value
        return found.urlencode()

    def changed(self, **changes: object) -> str:
        """The address of this with other values; of another question it is the first page."""
        if "question" in changes or "ids" in changes:
            changes = {"page": 1, **changes}
        return replace(self, **changes).address()  # type: ignore[arg-type]


def read_asked(parameters: QueryDict) -> Asked:
    """Read an address."""
    ids = tuple(_number(text) for text in parameters.getlist("p")[:_MOST_READ])
    statuses = tuple(each for each in STATUSES if each in parameters.getlist("status"))
    side, sort, by = (parameters.get(name, "") for name in ("side", "sort", "by"))
    question = Question(
        side=side if side in SIDES else "device",
        statuses=statuses,
        text=parameters.get("q", "").replace("\0", "")[:_LONGEST_TEXT],
        least_percent=_percent(parameters.get("min", "")),
        every=parameters.get("rows") == "all",
        sort=sort if sort in SORTS else "change",
    )
    last = max(1, len(ids) - 1)
    graph = _number(parameters.get("graph", ""))
    return Asked(
        ids=ids,
        question=question,
        other=min(max(1, _number(parameters.get("with", "")) or 1), last),
        by=by if by in BYS else "row",
        page=max(1, _number(parameters.get("page", "")) or 1),
        row=_number(parameters.get("row", "")),
        graph=graph if graph is not None and graph <= last else None,
        at=_number(parameters.get("at", "")),
    )


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= 9
    return int(text) if is_number else None


def _percent(text: str) -> float | None:
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return None
    return value if 0 <= value <= 1000 else None
