"""The counters of a trace as curves: memory usage and other counter events."""

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from profiles.analysis.downsampling import downsample
from profiles.formats.chrome_trace.reader import COUNTER, Trace

#: maximum number of curves
COUNTERS_LIMIT = 64
#: maximum number of points of a curve
POINTS_LIMIT = 500
_S_PER_US = 1e-6


class Curve(Struct, frozen=True):
    """One counter, at most 500 moments with the highest value up to the next one."""

    name: Annotated[str, Meta(description="As MegEngine wrote it.")]
    at_s: Annotated[tuple[float, ...], Meta(description="Moments, s.")]
    values: Annotated[tuple[float, ...], Meta(description="Values.")]
    lowest: Annotated[float, Meta(description="Of all values in the file.")]
    highest: Annotated[float, Meta(description="Of all values in the file.")]


def curves_of(trace: Trace) -> Iterator[Curve]:
    """Yield the counters of a trace, in the order of their first appearance."""
    counts = trace.phase == COUNTER
    for code in np.unique(trace.name[counts]).tolist()[:COUNTERS_LIMIT]:
        rows = np.flatnonzero(counts & (trace.name == code))
        at, values = trace.ts_us[rows], trace.values(rows)
        # the finite values, sorted by time
        order = np.argsort(at, kind="stable")
        order = order[np.isfinite(values[order])]
        if not len(order):
            continue
        at, values = at[order], values[order]
        starts = downsample(at, POINTS_LIMIT)
        yield Curve(
            name=trace.texts.names[code],
            at_s=tuple((at[starts] * _S_PER_US).tolist()),
            values=tuple(np.maximum.reduceat(values, starts).tolist()),
            lowest=float(values.min()),
            highest=float(values.max()),
        )
