"""Rule for operators that other programs on the processor interrupted."""

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.advice.context import MEASURABLE_S, RuleContext
from profiles.analysis.advice.finding import Finding
from profiles.formats.columns import MISSING

#: equal operators were measured to differ threefold between cold and warm caches
TIMES = 10
#: smallest group of equal operators, including the slow one
FEWEST = 4
#: the median of three samples is not affected by one interruption
ENOUGH_PASSES = 3
SHARE = 0.1


def interrupted(context: RuleContext) -> Finding | None:
    """Operators took ten times as long as others of equal type, parameters, shapes and dtypes.

    Together, their excess is at least a tenth of the device time. Measured on a processor with
    other load: one of 1,800 equal operators of 6 us took 563 ms.
    """
    rows, excess_s = held_up(context)
    share = context.share(float(excess_s.sum()))
    if share < SHARE:
        return None
    return Finding(
        rule="interrupted",
        severity="warning",
        rows=context.slowest_first(rows),
        params={"count": len(rows), "share": share},
    )


def held_up(context: RuleContext) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (k,) rows that took TIMES as long as the median of their equals, and (k,) the excess,
    s.
    """
    columns, operators = context.data.columns, context.graph.operators
    timed = np.flatnonzero(~context.glue & (context.device_s > 0) & (context.operator != MISSING))
    if not len(timed) or not context.on_cpu or len(context.data.passes) >= ENOUGH_PASSES:
        return timed[:0], context.device_s[:0]
    what = (
        columns.types.codes[timed],
        operators.params.codes[context.operator[timed]],
        columns.in_shapes.codes[timed],
        columns.in_dtypes.codes[timed],
    )
    kind = np.unique(np.stack(what), axis=1, return_inverse=True)[1].reshape(-1)
    times_s = context.device_s[timed]
    counts = np.bincount(kind)
    middle = np.lexsort((times_s, kind))[np.cumsum(counts) - counts + (counts - 1) // 2]
    usual_s = times_s[middle][kind]
    excess_s = times_s - usual_s
    slow = (counts[kind] >= FEWEST) & (times_s >= TIMES * usual_s) & (excess_s >= MEASURABLE_S)
    return timed[slow], excess_s[slow]
