"""What of a profile is exported: operators in an order, and groups where these were asked for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from profiles.analysis.select import Selection
from profiles.exporting.fields import Field, Rows

#: of one group; `time_s` is the aggregate of self times on the side that was asked for
GROUP_FIELDS: tuple[Field, ...] = (
    Field("type", "text", ""),
    Field("operators", "count", ""),
    *(Field(key, "number", "") for key in ("time_s", "share", "cumulative_s")),
    *(Field(key, "number", "") for key in ("computation_flo", "flops_per_s")),
    *(Field(key, "number", "") for key in ("memory_bytes", "bandwidth_bytes_per_s")),
)


@dataclass(frozen=True, eq=False)
class Asked:
    """rows: (m,) rows of `ProfileColumns`; groups: None where single operators were asked for."""

    rows: Rows
    groups: Selection | None = None


def group_columns(groups: Selection) -> list[list[Any]]:
    """The values of each of `GROUP_FIELDS`; None where the profile does not tell."""
    return [
        [each or "" for each in groups.types.texts()],
        groups.counts.tolist(),
        groups.self_s.tolist(),
        groups.ratio.tolist(),
        groups.cumulative_s.tolist(),
        groups.computation.optional(),
        groups.flops.optional(),
        groups.memory.optional(),
        groups.bandwidth.optional(),
    ]


def group_rows(groups: Selection) -> Iterator[dict[str, Any]]:
    """The same as one mapping for each group."""
    keys = [field.key for field in GROUP_FIELDS]
    for row in zip(*group_columns(groups), strict=True):
        yield dict(zip(keys, row, strict=True))
