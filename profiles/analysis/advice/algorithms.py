"""Rules for convolutions that a faster algorithm or layout could compute."""

import json
from dataclasses import replace

import numpy as np

from profiles.analysis.advice.context import Mask, RuleContext
from profiles.analysis.advice.finding import Finding
from profiles.formats.columns import MISSING

SHARE = 0.3
_CHOOSING = ("fast_run", "full_run", "fast_run_algo_policy")
_LAYOUTS = (
    "enable_nchw44",
    "enable_nchw44_dot",
    "enable_nchw88",
    "enable_nhwcd4",
    "layout_transform",
    "fitting",
)
#: channels per block of nchw44
_BLOCK = 4


def untried_algorithms(context: RuleContext) -> Finding | None:
    """Fused convolutions take 30 % of the time and their algorithms were chosen without trying
    them.

    Measured with fast_run: 10.3 ms became 5.1 ms on a fused resnet18, 0.078 became 0.061 on a
    quantised model. Plain convolutions gained nothing and are not counted. The estimated saving is
    half of their time.
    """
    if context.facts.options is None or context.facts.has_option(*_CHOOSING, "fitting"):
        return None
    fused = context.of_types({"ConvBiasForward"}) & (context.device_s > 0)
    return _convolutions(context, fused, "untried_algorithms", "fast_run")


def blocked_layout(context: RuleContext) -> Finding | None:
    """On ARM processors, nchw44 has faster kernels for float32 convolutions in NCHW.

    Its blocks hold four channels. The rule does not apply to x86, where nchw44 is slower and nchw88
    hangs on AMD.
    """
    is_arm = context.facts.machine.lower().startswith(("arm", "aarch"))
    if not is_arm or context.facts.options is None or context.facts.has_option(*_LAYOUTS):
        return None
    plain = context.of_types({"ConvolutionForward", "ConvBiasForward"}) & (context.device_s > 0)
    chosen = np.zeros(len(plain), dtype=np.bool_)
    chosen[[row for row in np.flatnonzero(plain).tolist() if _can_be_blocked(context, row)]] = True
    finding = _convolutions(context, chosen, "blocked_layout", "enable_nchw44")
    # no measurement on ARM is available
    return finding and replace(finding, severity="note", saves_s=None, estimate="")


def _can_be_blocked(context: RuleContext, row: int) -> bool:
    """Whether a convolution is dense, in NCHW and float32, with channels in multiples of four."""
    columns = context.data.columns
    operator = int(context.operator[row])
    params = context.edges.params_of(operator) if operator != MISSING else {}
    if params.get("format") != "NCHW" or params.get("sparse") != "DENSE":
        return False
    try:
        shapes = json.loads(columns.in_shapes[row] or "[]")
        dtypes = json.loads(columns.in_dtypes[row] or "[]")
        outputs, inputs = shapes[1][:2]
    except (ValueError, TypeError, IndexError):
        return False
    whole = all(
        isinstance(channels, int) and channels % _BLOCK == 0 for channels in (outputs, inputs)
    )
    return whole and "Float32" in dtypes


def _convolutions(context: RuleContext, rows: Mask, rule: str, option: str) -> Finding | None:
    if not context.is_measurable or context.is_training:
        return None
    finding = context.saving(rule, rows, share=SHARE, options=(option,))
    return finding and replace(finding, saves_s=context.sum_s(rows) / 2, estimate="halved")
