"""Query parameters of the API of results; names are those in the URLs of the pages."""

from typing import Any, get_args

from rest_framework import serializers

from profiles.analysis.netron.colours import METRICS
from profiles.analysis.select import Order
from profiles.comparison.comparison import FEWEST, MOST
from profiles.comparison.question import SORTS
from profiles.comparison.rows import STATUSES
from profiles.comparison.waterfall import BYS
from profiles.tables.request import AGGREGATES, ORDERS
from webprofile import fields
from webprofile.integers import LARGEST_COUNT

ROWS_LIMIT = 500
MOST_TYPES = 200
LONGEST_TEXT = 500
#: tasks in one URL, whose length is limited
MOST_TASKS = 200
#: maximum of a row, step or pass number
ROW_LIMIT = 2**31 - 1
#: what the parameter `pass` means
_PASS = "The place of a profiled pass, from 1, among those that were merged"
_TIME = r"^([0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12})(e-?[0-9]{1,2})?(s|ms|us|ns)?$"


def _text(help_text: str, *, limit: int = LONGEST_TEXT) -> serializers.CharField:
    return serializers.CharField(
        default="",
        allow_blank=True,
        trim_whitespace=False,
        max_length=limit,
        help_text=help_text,
    )


def _choice(choices: tuple[str, ...], usual: str, help_text: str) -> fields.Choice:
    return fields.Choice(choices, default=usual, help_text=f"{help_text} Usually `{usual}`.")


def _whole(help_text: str, *, low: int = 0, high: int = ROW_LIMIT) -> fields.Whole:
    return fields.Whole(default=low, min_value=low, max_value=high, help_text=help_text)


def _row(help_text: str, *, high: int = ROW_LIMIT, **more: Any) -> fields.Whole:
    return fields.Whole(default=None, max_value=high, help_text=help_text, **more)


def _with(help_text: str) -> fields.Whole:
    place = "an index in `p`, starting from 1 (the first after the baseline)."
    return _whole(f"{help_text}: {place}", low=1, high=MOST - 1)


def _limit(usual: int) -> fields.Whole:
    return fields.Whole(
        default=usual, min_value=1, max_value=ROWS_LIMIT, help_text="Maximum number of rows."
    )


def _moment(help_text: str) -> fields.Real:
    return fields.Real(
        required=False,
        min_value=0,
        max_value=1e15,
        help_text=f"{help_text}, µs from the timeline's own beginning.",
    )


def _duration(help_text: str) -> serializers.RegexField:
    return serializers.RegexField(_TIME, required=False, max_length=40, help_text=help_text)


class TableQuery(fields.QueryParameters):
    """Which operators, in which order: all options of `profile_analyze`, and the text filter of the
    pages.
    """

    type = fields.List(
        child=serializers.CharField(max_length=LONGEST_TEXT),
        default=list,
        max_length=MOST_TYPES,
        help_text="Operators of this type; may be repeated.",
    )
    name = _text(
        "A regular expression (RE2) that the name begins with; text as it is wants a backslash "
        "before ( ) [ ] { } . * + ? | ^ $."
    )
    text = _text("Text that occurs anywhere in the name or in the type, whatever its case.")
    dtype = _text("Operators with an input of this data type, such as `Float32`.")
    min = _duration("Self time at least: `0.1ms`, `100us`, or `1e-4`, which is seconds.")
    max = _duration("Self time at most, in the same notation.")
    end = _choice(
        ("end", "kern"),
        "end",
        "Whether self times reach to the operator's end or to its first kernel.",
    )
    agg = fields.Choice(
        AGGREGATES, required=False, help_text="Groups instead of operators: what of self times."
    )
    over = _choice(("type", "all"), "type", "With `agg`: a group for each type, or a single one.")
    order = _choice(
        ORDERS,
        "time",
        "Sort column. Groups have no ids, names, shapes and statistics; a single pass has no "
        "statistics (p10, p90, min, cv, count): the default is then the time.",
    )
    up = fields.Choice(
        ["0", "1"], required=False, help_text="1 for ascending order; descending by default."
    )
    side = _choice(("device", "host"), "device", "Whose times.")
    rows = fields.Whole(
        required=False,
        min_value=1,
        max_value=LARGEST_COUNT,
        help_text="Maximum number of rows; all by default.",
    )


class PassesQuery(TableQuery):
    """The same, with the choice of one pass."""

    pass_ = _whole(
        f"{_PASS}, whose times are listed; 0 or nothing: medians over all passes.", high=999
    )


class OperatorsQuery(PassesQuery):
    """A window of the table."""

    offset = _whole("Number of rows to skip.")
    limit = _limit(50)
    around = _row(
        "Instead of `offset`: begin at the window of `limit` rows with this operator (its `row`)."
    )


class TextQuery(PassesQuery):
    """What is printed of one pass: all options of `profile_analyze`, including those of its text
    output.
    """

    only = fields.Choice(
        ["summary", "device", "host"],
        required=False,
        help_text="One part alone (`--print-only`); usually all: summary, device, host.",
    )
    copies = fields.Choice(
        ["1"],
        required=False,
        help_text="Adds two lines about copy operators (`--copy-time`).",
    )

    style_ = _choice(
        ("table", "names", "wiki"),
        "table",
        "names: a line for each operator (`--dump-only-opr`); wiki: for Confluence "
        "(`--confluence`).",
    )
    order = _choice(get_args(Order), "time", "Sort column; groups have no ids and shapes.")
    pass_ = _whole(f"{_PASS}; 0 or nothing: the first.", high=999)
    # without this parameter: the text has both sides
    side = None  # type: ignore[assignment]


class WindowQuery(fields.QueryParameters):
    """A range of the timeline; either both ends or none."""

    from_ = _moment("Where it begins")
    to = _moment("Where it ends")


class TimelineQuery(WindowQuery):
    """A range of the timeline of one pass."""

    pass_ = _whole(f"{_PASS}.", low=1, high=999)


class CutQuery(fields.QueryParameters):
    """A range of a trace; without parameters the whole trace."""

    begin_s = fields.Real(
        default=None,
        help_text="What touches the time from here on, s, by the clock of the trace.",
    )
    end_s = fields.Real(default=None, help_text="End, s.")
    lane = serializers.ListField(
        child=fields.Whole(max_value=10_000),
        default=None,
        max_length=1_000,
        help_text="Numbers of threads and devices, as `overview.lanes` has them. Usually all.",
    )


class MemoryQuery(fields.QueryParameters):
    """The device whose memory is returned."""

    device = _text("Such as `cpu0`; by default the device with most memory.", limit=100)


class MemoryFlowQuery(fields.QueryParameters):
    """A filter of the tensors that are drawn."""

    tag = _text("Text that occurs in the tensor's name, whatever its case.", limit=300)


class GraphViewQuery(fields.QueryParameters):
    """A view of the graph: one scope, or the view that shows an operator."""

    scope = _text("A scope of names or a block, as the document's `view.place` names it.")
    op = _row("Instead of `scope`, the view that shows this operator (its `row`).", source="row")


class NetronQuery(GraphViewQuery):
    """A view of the graph and its colours."""

    colour = _choice(
        (*METRICS, "change"),
        "time",
        "What operators are coloured by. `change`: how arm B of a paired comparison differs.",
    )
    side = fields.Choice(
        ["device", "host"],
        default=None,
        help_text="Side of the times; default: the device, or the host without device times.",
    )


class GraphQuery(fields.QueryParameters):
    """A window of the executed graph."""

    offset = _whole("Nodes to pass over, in order of execution.")
    limit = fields.Whole(
        default=200,
        min_value=1,
        max_value=2000,
        help_text="Maximum number of nodes.",
    )


class TasksQuery(fields.QueryParameters):
    """The tasks of a table, and its format."""

    task = fields.List(
        child=fields.Whole(min_value=1),
        min_length=1,
        max_length=MOST_TASKS,
        help_text="Numbers of tasks, repeated.",
    )
    format = _choice(("csv", "json"), "csv", "Format of the table.")


class ChosenQuery(fields.QueryParameters):
    """The profiles that are compared."""

    p = fields.List(
        child=fields.Whole(min_value=1, max_value=999_999_999),
        min_length=FEWEST,
        max_length=MOST,
        help_text="Ids of profiles, repeated; the first is the baseline.",
    )


class RowsQuery(ChosenQuery):
    """The rows of a comparison."""

    status = fields.List(
        child=fields.Choice(STATUSES),
        default=list,
        max_length=len(STATUSES),
        help_text="Rows with any of these in any profile; may be repeated.",
    )
    q = _text("Part of the name or type of an operator of the row.", limit=200)
    min = fields.Real(
        required=False,
        min_value=0,
        max_value=1000,
        help_text="Minimum change, percent of the baseline's total.",
    )
    rows = fields.Choice(
        ["all"], required=False, help_text="Leave nothing out for having changed too little."
    )
    side = _choice(("device", "host"), "device", "Whose times.")
    sort = _choice(SORTS, "change", "The order of rows.")


class ChangeQuery(ChosenQuery, GraphViewQuery):
    """A view of the graph of one of the profiles, coloured by the difference."""

    side = _choice(("device", "host"), "device", "Whose times.")
    graph = _row(
        "Profile of the graph: an index in `p`, starting from 0. By default that of `with`.",
        high=MOST - 1,
    )
    with_ = _with("Profile that is compared with the baseline")


class ComparedTimelinesQuery(ChosenQuery, WindowQuery):
    """A range of the timelines of two profiles."""

    side = _choice(("device", "host"), "device", "Whose times.")
    with_ = _with("Profile that is drawn with the baseline")


class CompareQuery(RowsQuery):
    """A window of a comparison's rows, and its waterfall."""

    by = _choice(BYS, "row", "What a step of the waterfall is.")
    offset = _whole("Number of rows to skip.")
    limit = _limit(100)
    with_ = _with("Profile at the end of the waterfall")
