"""Rules for time spent on moving tensors or changing their layout or dtype."""

import numpy as np

from profiles.analysis.advice.context import (
    CALLBACKS,
    MEASURABLE_S,
    RESULT_CALLBACK,
    Floats,
    Mask,
    RuleContext,
)
from profiles.analysis.advice.finding import Finding
from profiles.analysis.advice.hotspots import spiked

#: a twentieth of the time
SHARE = 0.05
#: of Python callbacks
CALLBACK_SHARE = 0.1
_LEAST_S = 50e-6


def copies(context: RuleContext) -> Finding | None:
    """Copies between comp nodes and of inputs and results take 5 % of the device time.

    Only the time from the first kernel counts: before it, a copy waits for its input. On a
    processor most copies are free, since comp nodes share memory.
    """
    work_s = _without_wait(context)
    moving = context.of_types({"Copy", "Host2DeviceCopy", RESULT_CALLBACK}) & (work_s > 0)
    if (row := spiked(context)) is not None:
        moving[row] = False
    size_bytes = float(np.nansum(context.data.columns.memory.values[moving]))
    return context.saving(
        "copies", moving, share=SHARE, least_s=_LEAST_S, by=work_s, bytes=size_bytes
    )


def layout_changes(context: RuleContext) -> Finding | None:
    """Changing the order of elements in memory takes 5 % of the device time.

    These are RelayoutFormat, Dimshuffle (transpose), and a Reshape with a non-contiguous input,
    which performs the copy that a Dimshuffle before it only declared.
    """
    reshape = context.of_types({"Reshape"}) & (context.data.columns.in_layouts.codes >= 0)
    changing = context.of_types({"RelayoutFormat", "Dimshuffle"}) | reshape
    return _share_of(context, changing, "layout_changes")


def type_changes(context: RuleContext) -> Finding | None:
    """Conversions between dtypes (TypeCvt) take 5 % of the device time."""
    return _share_of(context, context.of_types({"TypeCvt"}), "type_changes")


def python_callbacks(context: RuleContext) -> Finding | None:
    """A tenth of the time is spent on passing values to and from Python.

    `trace` does this for values that a function reads and writes beside its arguments, such as the
    parameters in a training step. load_and_run needs no callbacks.
    """
    calling = context.of_types(CALLBACKS) & (context.device_s > 0)
    return context.saving("python_callbacks", calling, share=CALLBACK_SHARE, least_s=MEASURABLE_S)


def _share_of(context: RuleContext, operators: Mask, rule: str) -> Finding | None:
    operators = operators & (context.device_s > 0)
    return context.saving(rule, operators, share=SHARE, least_s=_LEAST_S)


def _without_wait(context: RuleContext) -> Floats:
    """Return (n,) float64, s, self times from the first kernel, or full ones without a kernel."""
    kern_s = context.data.columns.device.kern_s
    with np.errstate(invalid="ignore"):
        known = np.isfinite(kern_s) & (kern_s >= 0) & (kern_s <= context.device_s)
    return context.device_s - np.where(known, kern_s, 0.0)
