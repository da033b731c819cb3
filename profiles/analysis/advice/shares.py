"""Where most of the time goes: one operator, or the operators of one type."""

import numpy as np

from profiles.analysis.advice.finding import Finding
from profiles.analysis.advice.interruptions import held_up
from profiles.analysis.advice.scene import Scene

#: halving one operator is then worth an eighth of the iteration
OPERATOR_SHARE = 0.25
TYPE_SHARE = 0.5


def dominant_operator(scene: Scene) -> Finding | None:
    """One operator takes a quarter of the device's time, and was not merely held up.

    What it saves is told as if it took half as long: nobody can make it vanish.
    """
    times = np.where(scene.glue, 0.0, scene.device_s)
    if not scene.is_measurable or not len(times):
        return None
    row = int(times.argmax())
    share = scene.share(float(times[row]))
    if share < OPERATOR_SHARE or row in held_up(scene)[0]:
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
    """At least two operators of one type take half of the device's time, none of them alone."""
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
