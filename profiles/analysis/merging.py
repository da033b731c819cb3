"""Merge the profiled passes of one attempt: one sample of each operator from each pass."""

from collections.abc import Sequence

import numpy as np

from profiles.analysis.data import ProfileData, Spread
from profiles.parsers.columns import ProfileColumns, Side
from profiles.parsers.graph import ExecutedGraph


def merge(passes: Sequence[tuple[str, ProfileColumns]], graph: ExecutedGraph) -> ProfileData:
    """Return the merged profile; `graph` is that of the first pass."""
    name, columns = passes[0]
    return ProfileData(
        columns=columns,
        graph=graph,
        device=_spread(columns, "device"),
        host=_spread(columns, "host"),
        passes=(name,),
    )


def _spread(columns: ProfileColumns, side: Side) -> Spread:
    times = columns.times(side)
    return Spread(
        end_s=times.end_s[None],
        kern_s=times.kern_s[None],
        count=times.present.astype(np.int64),
        median_s=times.end_s,
        p10_s=times.end_s,
        p90_s=times.end_s,
        min_s=times.end_s,
        cv=np.full(len(columns), np.nan),
    )
