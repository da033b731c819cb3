"""The columns of the operator tables: title, explanation and sort key."""

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from profiles.formats.columns import ProfileColumns
from profiles.presenters.explanations import EXPLANATIONS, Explanation


@dataclass(frozen=True)
class Column:
    """One column.

    key: its name in addresses
    note: second line of its heading: unit or parts
    order: its sort key (`request.ORDERS`), empty if it cannot be sorted by
    is_code: contains shapes, which groups do not have
    """

    key: str
    title: Any
    note: Any
    about: Explanation
    order: str = ""
    is_code: bool = False


def _column(
    key: str,
    title: Any,
    note: Any,
    what: Any,
    unit: Any,
    formula: Any = "",
    order: str = "",
    *,
    is_code: bool = False,
) -> Column:
    return Column(key, title, note, Explanation(key, title, what, unit, formula), order, is_code)


_SECONDS = _("seconds")
_SHAPE = _("elements along each axis")

OPERATOR = _column(
    "op",
    _("Operator"),
    _("name, type, id"),
    _("The name, type and number of the operator in MegEngine. This column sorts by number."),
    _("text"),
    order="opr_id",
)
TIME = _column(
    "time",
    _("Self time"),
    "s",
    _("Duration of the operator, and its share of the total on the device or host."),
    _SECONDS,
    _("end − start, of the slowest computing node; on the host, of the slowest thread"),
    order="time",
)
MEDIAN = Column("time", _("Self time"), _("median, s"), EXPLANATIONS["median"], "time")
#: only for profiles of several passes
STATISTICS = (
    Column("p10", "p10", "s", EXPLANATIONS["p10"], "p10"),
    Column("p90", "p90", "s", EXPLANATIONS["p90"], "p90"),
    Column("min", _("Minimum"), "s", EXPLANATIONS["minimum"], "min"),
    Column("cv", "CV", "%", EXPLANATIONS["cv"], "cv"),
    Column("n", "n", _("samples"), EXPLANATIONS["samples"], "count"),
)
NUMBERS = (
    _column(
        "cum",
        _("Cumulative"),
        "s",
        _("Total of this row and all rows above it."),
        _SECONDS,
        _("sum of their self times, and its share of the total"),
    ),
    _column(
        "flo",
        _("Computation"),
        "FLOP",
        _("Operations of one execution; a multiply-add counts as two."),
        _("FLOP, 1000 FLOP = 1 KFLOP"),
        order="computation",
    ),
    _column(
        "flops",
        "FLOP/s",
        "",
        _("Speed of the computation."),
        _("FLOP per second"),
        _("computation / self time"),
        order="flops",
    ),
    _column(
        "mem",
        pgettext_lazy("operator", "Memory"),
        "byte",
        _("Bytes of all inputs and outputs of one execution."),
        _("byte, 1024 bytes = 1 KiB"),
        order="memory",
    ),
    _column(
        "bw",
        _("Bandwidth"),
        "byte/s",
        _("Speed of reading inputs and writing outputs."),
        _("bytes per second"),
        _("bytes read and written / self time"),
        order="bandwidth",
    ),
    _column(
        "in",
        _("Input shapes"),
        "",
        _("Shape of each input; followed by the strides if it is not contiguous."),
        _SHAPE,
        order="in_shapes",
        is_code=True,
    ),
    _column(
        "out",
        _("Output shapes"),
        "",
        _("Shape of each output."),
        _SHAPE,
        order="out_shapes",
        is_code=True,
    ),
)
#: keys that an address may name, in the order of the table
KEYS = ("op", "time", *(column.key for column in (*STATISTICS, *NUMBERS)))
#: columns that cannot be hidden
FIXED = ("op", "time")


def columns_without(columns: ProfileColumns) -> frozenset[str]:
    """Return the keys of columns without a value for any operator, which pages omit.

    Exports include them.
    """
    keys = set[str]()
    if not columns.computation.present.any():
        keys |= {"flo", "flops"}
    if not columns.memory.present.any():
        keys |= {"mem", "bw"}
    return frozenset(keys)


def columns_available(*, statistics: bool, aggregated: bool) -> tuple[Column, ...]:
    """Return the columns that a table can have, in order."""
    if aggregated:
        return (OPERATOR, TIME, *(column for column in NUMBERS if not column.is_code))
    if statistics:
        return (OPERATOR, MEDIAN, *STATISTICS, *NUMBERS)
    return (OPERATOR, TIME, *NUMBERS)
