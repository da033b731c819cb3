"""Rules for where most of the time goes: one operator, one type, a spike, or interruptions."""

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.advice.context import (
    CONSTANTS,
    MEASURABLE_S,
    RESULT_CALLBACK,
    Mask,
    RuleContext,
)
from profiles.analysis.advice.finding import Finding
from profiles.formats.columns import MISSING

#: halving such an operator saves an eighth of the iteration
OPERATOR_SHARE = 0.25
TYPE_SHARE = 0.5
#: more than all other operators together
SPIKE_SHARE = 0.5
_COPIES = frozenset({"Copy", "Host2DeviceCopy", RESULT_CALLBACK})
#: a tenth of what a slow core achieves per second, in FLOPs and in bytes moved
_SLOWEST = 1e8
#: equal operators were measured to differ threefold between cold and warm caches
INTERRUPTED_TIMES = 10
#: smallest group of equal operators, including the slow one
FEWEST = 4
#: the median of three samples is not affected by one interruption
ENOUGH_PASSES = 3
INTERRUPTED_SHARE = 0.1


def dominant_operator(context: RuleContext) -> Finding | None:
    """One operator takes a quarter of the device time, and was not merely interrupted.

    The estimated saving is half of its time, because it cannot be removed.
    """
    times = np.where(context.glue, 0.0, context.device_s)
    if not context.is_measurable or not len(times):
        return None
    row = int(times.argmax())
    share = context.share(float(times[row]))
    if share < OPERATOR_SHARE or row in held_up(context)[0] or row == spiked(context):
        return None
    return Finding(
        rule="dominant_operator",
        severity="gain",
        rows=(row,),
        saves_s=float(times[row]) / 2,
        estimate="halved",
        params={"share": share, "type": context.types[row] or ""},
    )


def dominant_type(context: RuleContext) -> Finding | None:
    """At least two operators of one type take half of the device time, and none of them does so
    alone.
    """
    codes = context.types.codes
    work = ~context.glue & (codes >= 0) & (context.device_s > 0)
    if not context.is_measurable or not work.any():
        return None
    sums = np.bincount(codes[work], weights=context.device_s[work])
    code = int(sums.argmax())
    rows = np.flatnonzero(work & (codes == code))
    share = context.share(float(sums[code]))
    alone = context.share(float(context.device_s[rows].max()))
    if share < TYPE_SHARE or len(rows) < 2 or alone >= TYPE_SHARE:
        return None
    return Finding(
        rule="dominant_type",
        severity="gain",
        rows=context.slowest_first(rows),
        saves_s=float(sums[code]) / 2,
        estimate="halved",
        params={"share": share, "type": context.types.values[code], "count": len(rows)},
    )


def spike(context: RuleContext) -> Finding | None:
    """One constant or copy takes half of the device time in the only sample.

    A stored constant computes nothing, and a copy is usually short, so this is more often a first
    use of memory or an interruption than work. A computed constant counts only if it took ten times
    as long as its FLOPs and bytes need on a slow core.
    """
    row = spiked(context)
    if row is None:
        return None
    return Finding(
        rule="spike",
        severity="warning",
        rows=(row,),
        params={
            "share": context.share(float(context.device_s[row])),
            "type": context.types[row] or "",
        },
    )


def spiked(context: RuleContext) -> int | None:
    """Return the row that `spike` reports, which rules about copies and constants exclude."""
    if len(context.data.passes) != 1 or context.facts.of_trace or not context.is_measurable:
        return None
    row = int(context.device_s.argmax())
    share = context.share(float(context.device_s[row]))
    held = context.of_types(CONSTANTS | _COPIES) | _slow_constants(context)
    return row if share >= SPIKE_SHARE and held[row] else None


def _slow_constants(context: RuleContext) -> Mask:
    """Return (n,) bool, computed from constants and far slower than their FLOPs and bytes need."""
    columns, operator = context.data.columns, context.operator
    computed = operator != MISSING
    if context.is_training:
        return np.zeros_like(computed)
    computed[computed] = context.edges.constant[operator[computed]]
    work = np.nan_to_num(columns.computation.values) + np.nan_to_num(columns.memory.values)
    slow = (context.device_s >= MEASURABLE_S) & (context.device_s * _SLOWEST > work)
    return np.asarray(computed & slow)


def interrupted(context: RuleContext) -> Finding | None:
    """Operators took ten times as long as others of equal type, parameters, shapes and dtypes.

    Together, their excess is at least a tenth of the device time. Measured on a processor with
    other load: one of 1,800 equal operators of 6 us took 563 ms.
    """
    rows, excess_s = held_up(context)
    share = context.share(float(excess_s.sum()))
    if share < INTERRUPTED_SHARE:
        return None
    return Finding(
        rule="interrupted",
        severity="warning",
        rows=context.slowest_first(rows),
        params={"count": len(rows), "share": share},
    )


def held_up(context: RuleContext) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (k,) rows that took INTERRUPTED_TIMES as long as the median of their equals, and (k,)
    the excess, s.
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
    slow = (
        (counts[kind] >= FEWEST)
        & (times_s >= INTERRUPTED_TIMES * usual_s)
        & (excess_s >= MEASURABLE_S)
    )
    return timed[slow], excess_s[slow]
