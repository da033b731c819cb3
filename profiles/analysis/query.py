"""A question to the table of operators: which rows, in which order."""

from dataclasses import dataclass
from typing import Literal

from profiles.formats.columns import Side

#: how rows can be ordered; `opr_id` is the tool's word for the id
Order = Literal[
    "time", "computation", "flops", "memory", "bandwidth", "opr_id", "in_shapes", "out_shapes"
]
Aggregate = Literal["", "sum", "mean", "max", "min"]


@dataclass(frozen=True)
class Query:
    """What `profile_analyze` can be asked, option for option, and a plain text to look for.

    types: operator types, any of them; empty for all
    name: regular expression, anchored at the start of the name; empty for all
    text: plain text that occurs anywhere in the name or in the type, whatever its case; empty for
        all. `profile_analyze` has no such filter: pages have
    input_dtype: dtype of any input, as in `ProfileColumns.in_dtypes`; empty for all
    top_end: whether self times reach to the operator's end or to its first kernel
    min_s, max_s: inclusive limits of the self time, s
    aggregate: over all rows, or with `by_type` over those of each type
    ascending: otherwise the largest first
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
