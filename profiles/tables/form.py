"""Context of the form above the tables: only choices that the profile has."""

from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from django.utils.translation import gettext as _

from profiles.analysis.data import ProfileData
from profiles.analysis.select import Query
from profiles.formats.columns import MISSING, ProfileColumns
from profiles.presenters.charts import pass_number
from profiles.tables.columns import FIXED, columns_available, columns_without
from profiles.tables.request import SIDES, STATISTIC_ORDERS, TableRequest

#: prefixes of operator types that are convolutions
_CONVOLUTIONS = "Conv"
#: sort keys by the key of a column that may have no value
_ORDERS_OF = {"flo": "computation", "flops": "flops", "mem": "memory", "bw": "bandwidth"}


def form_context(data: ProfileData, request: TableRequest, page: str) -> dict[str, Any]:
    """Return the context of `profiles/_operators.html`; `page` is the address of the page."""
    query, columns = request.query, data.columns
    types = _types(columns)
    several = len(data.passes) > 1
    without = columns_without(columns)
    return {
        "path": page,
        "request": request,
        "typed": request.typed,
        "problems": request.problems,
        "presets": _presets(request, types, without),
        "orders": _choices(_orders(request.order, without, several=several), request.order),
        "aggregates": _choices(
            [
                ("sum", _("sum")),
                ("mean", _("mean")),
                ("max", _("maximum")),
                ("min", _("minimum")),
            ],
            query.aggregate,
        ),
        "sides": _choices(
            [("device", _("device")), ("host", _("host")), ("both", _("device and host"))],
            next(word for word, sides in SIDES.items() if sides == request.sides),
        ),
        "passes": [(place + 1, pass_number(data, place)) for place in range(len(data.passes))]
        if several
        else (),
        "types": [
            {"name": name, "count": count, "is_chosen": name in query.types}
            for name, count in types.items()
        ],
        "dtypes": _choices([(name, name) for name in _dtypes(columns)], query.input_dtype),
        "has_kern": query.top_end == "kern"
        or any(np.isfinite(times.kern_s).any() for times in (columns.device, columns.host)),
        "has_limits": bool(
            query.input_dtype
            or query.top_end == "kern"
            or request.top
            or any(request.typed.get(name) for name in ("name", "min", "max", "rows"))
        ),
        "columns": [
            {
                "key": column.key,
                "title": column.title,
                "help": column.about.what,
                "is_fixed": column.key in FIXED,
                "is_chosen": not request.columns or column.key in request.columns,
            }
            for column in columns_available(statistics=several, aggregated=False)
            if column.key not in without
        ],
    }


def _orders(current: str, without: frozenset[str], *, several: bool) -> list[tuple[str, str]]:
    """Return the sort keys of rows as (key, title), without those of columns that have no value.

    The current key is always included.
    """
    absent = {_ORDERS_OF[key] for key in without} - {current}
    statistics = {"p10": "p10", "p90": "p90", "min": _("Minimum"), "cv": "CV", "count": "n"}
    orders = [
        ("time", _("Self time, median") if several else _("Self time")),
        *([(order, statistics[order]) for order in STATISTIC_ORDERS] if several else []),
        ("computation", _("Computation")),
        ("flops", "FLOP/s"),
        ("memory", _("Bytes read and written")),
        ("bandwidth", _("Bandwidth")),
        ("opr_id", _("Number of the operator")),
        ("name", _("Name")),
        ("type", _("Type")),
        ("in_shapes", _("Input shapes")),
        ("out_shapes", _("Output shapes")),
    ]
    return [order for order in orders if order[0] not in absent]


def _choices(pairs: list[tuple[str, str]], chosen: str) -> list[dict[str, Any]]:
    return [
        {"value": value, "title": title, "is_chosen": value == chosen} for value, title in pairs
    ]


def _types(columns: ProfileColumns) -> dict[str, int]:
    """Return the types of timed operators and the number of operators of each, most frequent
    first.
    """
    timed = columns.device.present | columns.host.present
    codes = columns.types.codes[timed & (columns.types.codes != MISSING)]
    counts = np.bincount(codes, minlength=len(columns.types.values)).tolist()
    counted = [(name, count) for name, count in zip(columns.types.values, counts, strict=True)]
    return dict(
        sorted((entry for entry in counted if entry[1]), key=lambda entry: (-entry[1], entry[0]))
    )


def _dtypes(columns: ProfileColumns) -> list[str]:
    """Return all dtypes that any operator reads, most frequent first."""
    counter: Counter[str] = Counter()
    present = columns.in_dtypes.codes[columns.in_dtypes.codes != MISSING]
    counts = np.bincount(present, minlength=len(columns.in_dtypes.values)).tolist()
    for text, count in zip(columns.in_dtypes.values, counts, strict=True):
        for dtype in set(msgspec.json.decode(text)):
            if isinstance(dtype, str) and dtype:
                counter[dtype] += count
    return [name for name, _count in counter.most_common()]


def _presets(
    request: TableRequest, types: dict[str, int], without: frozenset[str]
) -> list[dict[str, Any]]:
    """Return common queries; each keeps the side, the pass and the columns."""
    convolutions = tuple(name for name in types if name.startswith(_CONVOLUTIONS))
    presets = [
        ("slowest", _("Slowest operators"), Query(), "time"),
        ("types", _("Types by total time"), Query(aggregate="sum", by_type=True), "time"),
    ]
    if "mem" not in without:
        presets.append(
            ("memory", _("Most bytes read and written"), Query(order="memory"), "memory")
        )
    if "flo" not in without:
        presets.append(("flops", _("Most FLOPs"), Query(order="computation"), "computation"))
    if convolutions:
        presets.append(("conv", _("Only convolutions"), Query(types=convolutions), "time"))
    return [_preset(request, *preset) for preset in presets]


def _preset(
    request: TableRequest, key: str, title: str, query: Query, order: str
) -> dict[str, Any]:
    own_query = replace(query, side=request.query.side)
    narrowed = replace(request, query=own_query, order=order, top=0, page=1, problems={})
    return {
        "key": key,
        "title": title,
        "address": narrowed.address(),
        "is_current": narrowed.address() == replace(request, page=1).address(),
    }
