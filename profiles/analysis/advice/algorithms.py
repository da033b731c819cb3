"""Rules for convolutions that a faster algorithm or layout could compute."""

import json
from dataclasses import replace

import numpy as np

from profiles.analysis.advice.finding import Finding
from profiles.analysis.advice.scene import Mask, Scene
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


def untried_algorithms(scene: Scene) -> Finding | None:
    """Fused convolutions take 30 % of the time and their algorithms were chosen without trying
    them.

    Measured with fast_run: 10.3 ms became 5.1 ms on a fused resnet18, 0.078 became 0.061 on a
    quantised model. Plain convolutions gained nothing and are not counted. The estimated saving is
    half of their time.
    """
    if scene.facts.options is None or scene.facts.has_option(*_CHOOSING, "fitting"):
        return None
    fused = scene.of_types({"ConvBiasForward"}) & (scene.device_s > 0)
    return _convolutions(scene, fused, "untried_algorithms", "fast_run")


def blocked_layout(scene: Scene) -> Finding | None:
    """On ARM processors, nchw44 has faster kernels for float32 convolutions in NCHW.

    Its blocks hold four channels. The rule does not apply to x86, where nchw44 is slower and nchw88
    hangs on AMD.
    """
    is_arm = scene.facts.machine.lower().startswith(("arm", "aarch"))
    if not is_arm or scene.facts.options is None or scene.facts.has_option(*_LAYOUTS):
        return None
    plain = scene.of_types({"ConvolutionForward", "ConvBiasForward"}) & (scene.device_s > 0)
    chosen = np.zeros(len(plain), dtype=np.bool_)
    chosen[[row for row in np.flatnonzero(plain).tolist() if _can_be_blocked(scene, row)]] = True
    finding = _convolutions(scene, chosen, "blocked_layout", "enable_nchw44")
    # no measurement on ARM is available
    return finding and replace(finding, severity="note", saves_s=None, estimate="")


def _can_be_blocked(scene: Scene, row: int) -> bool:
    """Whether a convolution is dense, in NCHW and float32, with channels in multiples of four."""
    columns = scene.data.columns
    operator = int(scene.operator[row])
    params = scene.wiring.params_of(operator) if operator != MISSING else {}
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


def _convolutions(scene: Scene, rows: Mask, rule: str, option: str) -> Finding | None:
    if not scene.is_measurable or scene.is_training:
        return None
    finding = scene.saving(rule, rows, share=SHARE, options=(option,))
    return finding and replace(finding, saves_s=scene.sum_s(rows) / 2, estimate="halved")
