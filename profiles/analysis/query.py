"""A query on the table of operators: filters, aggregation and order."""

from dataclasses import dataclass
from typing import Literal

from profiles.formats.columns import Side

#: sort keys of rows; `opr_id` is what `profile_analyze` calls the id
Order = Literal[
    "time", "computation", "flops", "memory", "bandwidth", "opr_id", "in_shapes", "out_shapes"
]
Aggregate = Literal["", "sum", "mean", "max", "min"]


@dataclass(frozen=True)
class Query:
    """The options of `profile_analyze`, one field each, and a plain-text search.

    types: operator types to keep; empty for all
    name: regular expression, anchored at the start of the name; empty for all
    text: case-insensitive plain text that occurs anywhere in the name or the type; empty for all.
        Only the pages have this filter, `profile_analyze` does not.
    input_dtype: dtype of any input, as in `ProfileColumns.in_dtypes`; empty for all
    top_end: whether the self time ends at the operator's end or at its first kernel
    min_s, max_s: inclusive limits of the self time, s
    aggregate: over all rows, or with `by_type` over the rows of each type
    ascending: smallest first; by default, the largest comes first
    """

    side: Side = "device"
    types: tuple[str, ...] = ()
    name: str = ""
    text: str = ""
    input_dtype: str = ""
    top_end: Literal["end", "kern"] = "end"
    min_s: float | None = None
    max_s: float | None = None
    aggregate: Aggregate = ""
    by_type: bool = False
    order: Order = "time"
    ascending: bool = False
