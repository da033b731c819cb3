"""Rules for where most of the time goes: one operator, one type of operator, or a single spike."""

import numpy as np

from profiles.analysis.advice.finding import Finding
from profiles.analysis.advice.interruptions import held_up
from profiles.analysis.advice.operator_types import CONSTANTS, RESULT_CALLBACK
from profiles.analysis.advice.scene import MEASURABLE_S, Mask, Scene
from profiles.formats.columns import MISSING

#: halving such an operator saves an eighth of the iteration
OPERATOR_SHARE = 0.25
TYPE_SHARE = 0.5
#: more than all other operators together
SPIKE_SHARE = 0.5
_COPIES = frozenset({"Copy", "Host2DeviceCopy", RESULT_CALLBACK})
#: a tenth of what a slow core achieves per second, in FLOPs and in bytes moved
_SLOWEST = 1e8


def dominant_operator(scene: Scene) -> Finding | None:
    """One operator takes a quarter of the device time, and was not merely interrupted.

    The estimated saving is half of its time, because it cannot be removed.
    """
    times = np.where(scene.glue, 0.0, scene.device_s)
    if not scene.is_measurable or not len(times):
        return None
    row = int(times.argmax())
    share = scene.share(float(times[row]))
    if share < OPERATOR_SHARE or row in held_up(scene)[0] or row == spiked(scene):
        return None
    return Finding(
        rule="dominant_operator",
        severity="gain",
        rows=(row,),
        saves_s=float(times[row]) / 2,
        estimate="halved",
        params={"share": share, "type": scene.types[row] or ""},
    )


def dominant_type(scene: Scene) -> Finding | None:
    """At least two operators of one type take half of the device time, and none of them does so
    alone.
    """
    codes = scene.types.codes
    work = ~scene.glue & (codes >= 0) & (scene.device_s > 0)
    if not scene.is_measurable or not work.any():
        return None
    sums = np.bincount(codes[work], weights=scene.device_s[work])
    code = int(sums.argmax())
    rows = np.flatnonzero(work & (codes == code))
    share = scene.share(float(sums[code]))
    alone = scene.share(float(scene.device_s[rows].max()))
    if share < TYPE_SHARE or len(rows) < 2 or alone >= TYPE_SHARE:
        return None
    return Finding(
        rule="dominant_type",
        severity="gain",
        rows=scene.slowest_first(rows),
        saves_s=float(sums[code]) / 2,
        estimate="halved",
        params={"share": share, "type": scene.types.values[code], "count": len(rows)},
    )


def spike(scene: Scene) -> Finding | None:
    """One constant or copy takes half of the device time in the only sample.

    A stored constant computes nothing, and a copy is usually short, so this is more often a first
    use of memory or an interruption than work. A computed constant counts only if it took ten times
    as long as its FLOPs and bytes need on a slow core.
    """
    row = spiked(scene)
    if row is None:
        return None
    return Finding(
        rule="spike",
        severity="warning",
        rows=(row,),
        params={
            "share": scene.share(float(scene.device_s[row])),
            "type": scene.types[row] or "",
        },
    )


def spiked(scene: Scene) -> int | None:
    """Return the row that `spike` reports, which rules about copies and constants exclude."""
    if len(scene.data.passes) != 1 or scene.facts.of_trace or not scene.is_measurable:
        return None
    row = int(scene.device_s.argmax())
    share = scene.share(float(scene.device_s[row]))
    held = scene.of_types(CONSTANTS | _COPIES) | _slow_constants(scene)
    return row if share >= SPIKE_SHARE and held[row] else None


def _slow_constants(scene: Scene) -> Mask:
    """Return (n,) bool, computed from constants and far slower than their FLOPs and bytes need."""
    columns, operator = scene.data.columns, scene.operator
    computed = operator != MISSING
    if scene.is_training:
        return np.zeros_like(computed)
    computed[computed] = scene.wiring.constant[operator[computed]]
    work = np.nan_to_num(columns.computation.values) + np.nan_to_num(columns.memory.values)
    slow = (scene.device_s >= MEASURABLE_S) & (scene.device_s * _SLOWEST > work)
    return np.asarray(computed & slow)
