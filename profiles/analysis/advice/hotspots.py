"""Rules for where most of the time goes: one operator, one type of operator, or a single spike."""

import numpy as np

from profiles.analysis.advice.context import MEASURABLE_S, Mask, RuleContext
from profiles.analysis.advice.finding import Finding
from profiles.analysis.advice.interruptions import held_up
from profiles.analysis.advice.operator_types import CONSTANTS, RESULT_CALLBACK
from profiles.formats.columns import MISSING

#: halving such an operator saves an eighth of the iteration
OPERATOR_SHARE = 0.25
TYPE_SHARE = 0.5
#: more than all other operators together
SPIKE_SHARE = 0.5
_COPIES = frozenset({"Copy", "Host2DeviceCopy", RESULT_CALLBACK})
#: a tenth of what a slow core achieves per second, in FLOPs and in bytes moved
_SLOWEST = 1e8


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
