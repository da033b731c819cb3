"""Faster ways to compute the same convolutions."""

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
#: the blocks of nchw44
_BLOCK = 4


def untried_algorithms(scene: Scene) -> Finding | None:
    """Fused convolutions take 30 % of the time and their algorithms were guessed, not tried.

    Measured with fast_run: 10.3 ms became 5.1 ms on a fused resnet18, 0.078 became 0.061 on a
    quantised model; with plain convolutions it gained nothing, so these do not count. Told as if
    they took half as long.
    """
    if scene.facts.options is None or scene.facts.has_option(*_CHOOSING, "fitting"):
        return None
    fused = scene.of_types({"ConvBiasForward"}) & (scene.device_s > 0)
    return _convolutions(scene, fused, "untried_algorithms", "fast_run")


def blocked_layout(scene: Scene) -> Finding | None:
    """On an ARM processor, convolutions of float32 in NCHW: nchw44 has faster kernels.

    Its blocks hold four channels. On x86 the option is slower, and nchw88 hangs on AMD, so
    neither is named there.
    """
    is_arm = scene.facts.machine.lower().startswith(("arm", "aarch"))
    if not is_arm or scene.facts.options is None or scene.facts.has_option(*_LAYOUTS):
        return None
    plain = scene.of_types({"ConvolutionForward", "ConvBiasForward"}) & (scene.device_s > 0)
    chosen = np.zeros(len(plain), dtype=np.bool_)
    chosen[[row for row in np.flatnonzero(plain).tolist() if _can_be_blocked(scene, row)]] = True
    finding = _convolutions(scene, chosen, "blocked_layout", "enable_nchw44")
    # nothing here was measured on ARM
    return finding and replace(finding, severity="note", saves_s=None, estimate="")


def _can_be_blocked(scene: Scene, row: int) -> bool:
    """Whether it is dense, in NCHW and float32, with channels in fours."""
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
