"""What of a profile is exported: operators in an order, and groups where these were asked for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from profiles.analysis.select import Selection
from profiles.exporting.fields import Rows

#: of one group; `time_s` is the aggregate of self times on the side that was asked for
GROUP_FIELDS = (
    "type",
    "operators",
    "time_s",
    "share",
    "cumulative_s",
    "computation_flo",
    "flops_per_s",
    "memory_bytes",
    "bandwidth_bytes_per_s",
)


@dataclass(frozen=True, eq=False)
class Asked:
    """rows: (m,) rows of `ProfileColumns`; groups: None where single operators were asked for."""

    rows: Rows
    groups: Selection | None = None


def group_rows(groups: Selection) -> Iterator[dict[str, Any]]:
    """One mapping of `GROUP_FIELDS` for each group; None where the profile does not tell."""
    columns: dict[str, list[Any]] = {
        "type": [each or "" for each in groups.types.texts()],
        "operators": groups.counts.tolist(),
        "time_s": groups.self_s.tolist(),
        "share": groups.ratio.tolist(),
        "cumulative_s": groups.cumulative_s.tolist(),
        "computation_flo": groups.computation.optional(),
        "flops_per_s": groups.flops.optional(),
        "memory_bytes": groups.memory.optional(),
        "bandwidth_bytes_per_s": groups.bandwidth.optional(),
    }
    for place in range(len(groups)):
        yield {key: columns[key][place] for key in GROUP_FIELDS}
