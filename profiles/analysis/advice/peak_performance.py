"""Rules that compare operators with the measured peak performance of the device."""

import numpy as np

from profiles.analysis.advice.context import MEASURABLE_S, NOTICEABLE_S, RuleContext
from profiles.analysis.advice.finding import Finding
from profiles.analysis.advice.hotspots import held_up
from profiles.analysis.dtypes import first_dtype
from profiles.analysis.roofline import ROOF_OF, Roofs
from profiles.formats.columns import MISSING

#: operators with a shorter lower bound are limited by their launch, not by peak performance
_LEAST_BOUND_S = 5e-6
#: below half of the roofline, there is often a faster algorithm or layout
FAR = 0.5
#: share of peak performance that good kernels reach; the estimate assumes no more
REACHABLE = 0.8
SHARE = 0.1
#: below the slowest processor that has kernels for float16
_NO_KERNEL_FLOPS = 1e9

#: operators that mainly read and write, so only memory bandwidth limits them
_MOVING = frozenset(
    {
        "BatchNormForward",
        "LayerNormForward",
        "Dimshuffle",
        "RelayoutFormat",
        "TypeCvt",
        "Concat",
        "PoolingForward",
        "Reduce",
    }
)
#: operators whose FLOP count is accurate; the footprint counts an exponential as one operation too
_COMPUTING = frozenset(
    {"ConvolutionForward", "ConvBiasForward", "ConvolutionBackwardData", "MatrixMul"}
)
_SIMPLE_MODES = frozenset(
    {"ADD", "SUB", "MUL", "RELU", "MAX", "MIN", "NEGATE", "ABS", "FUSE_ADD_RELU", "FUSE_MUL_ADD3"}
)


def slow_float16(context: RuleContext) -> Finding | None:
    """Matrix products and convolutions run in float16 on a processor without kernels for it.

    Measured on x86: 0.4 GFLOP/s, compared with 110 in float32; a resnet18 took 1,640 instead of 14
    ms.
    """
    columns = context.data.columns
    is_half = columns.in_dtypes.where(lambda text: first_dtype(text) == "Float16")
    with np.errstate(invalid="ignore"):
        slow = columns.computation.values < _NO_KERNEL_FLOPS * context.device_s
    slow &= context.of_types(_COMPUTING) & is_half
    slow &= context.device_s >= MEASURABLE_S
    if not context.on_cpu:
        return None
    return context.saving("slow_float16", slow, share=SHARE)


def far_from_roof(context: RuleContext) -> Finding | None:
    """Operators reach less than half of the measured roofline; together they could save 10 %.

    An operator needs at least FLOPs / peak and bytes / copy speed, whichever is longer. The
    estimated saving is the time above that / 0.8. Only types with accurate FLOPs and bytes are
    considered, and only if they need at least 5 us: below this, the launch dominates.
    """
    roofs = context.facts.roofs
    if roofs is None or not context.is_measurable:
        return None
    saves_s = np.zeros(len(context.device_s))
    computing = 0
    known = context.of_types(_MOVING | _COMPUTING | {"Elemwise"})
    known[held_up(context)[0]] = False
    for row in np.flatnonzero(known & (context.device_s >= NOTICEABLE_S)).tolist():
        bounds = _least_s(context, row, roofs)
        if bounds is None or not _LEAST_BOUND_S <= max(bounds) < FAR * context.device_s[row]:
            continue
        saves_s[row] = context.device_s[row] - max(bounds) / REACHABLE
        computing += bounds[0] >= bounds[1]
    total_s = float(saves_s.sum())
    if context.share(total_s) < SHARE:
        return None
    rows = context.slowest_first(np.flatnonzero(saves_s), by=saves_s)
    reached = max(_least_s(context, rows[0], roofs) or (0.0,)) / float(context.device_s[rows[0]])
    return Finding(
        rule="far_from_roof",
        severity="gain",
        rows=rows,
        saves_s=total_s,
        estimate="roof",
        params={
            "count": len(rows),
            "computing": computing,
            "moving": len(rows) - computing,
            "reached": reached,
        },
    )


def _least_s(context: RuleContext, row: int, roofs: Roofs) -> tuple[float, float] | None:
    """Return the minimum times for computing and for moving data, s; None if unknown."""
    columns = context.data.columns
    kind = context.types[row] or ""
    memory = float(columns.memory.values[row])
    if not memory > 0 or not roofs.copy_bytes_s > 0:
        return None
    moving_s = memory / roofs.copy_bytes_s
    if kind == "Elemwise":
        operator = int(context.operator[row])
        mode = context.edges.params_of(operator).get("mode") if operator != MISSING else None
        return (0.0, moving_s) if mode in _SIMPLE_MODES else None
    if kind in _MOVING:
        return 0.0, moving_s
    peak = roofs.peak_flops.get(ROOF_OF.get(first_dtype(columns.in_dtypes[row]), ""), 0.0)
    computation = float(columns.computation.values[row])
    if not peak > 0 or not computation > 0:
        return None
    return computation / peak, moving_s
