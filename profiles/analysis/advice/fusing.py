"""Rules for operators that load_and_run can fold in inference, or compute once."""

import numpy as np

from profiles.analysis.advice.finding import Finding
from profiles.analysis.advice.scene import NOTICEABLE_S, Scene
from profiles.analysis.advice.shares import spiked
from profiles.analysis.advice.wiring import Wiring
from profiles.formats.columns import MISSING

SHARE = 0.01
CONVOLUTION = "ConvolutionForward"
#: activations that ConvBiasForward can apply (its `nonlineMode`)
_ACTIVATIONS = frozenset({"RELU", "SIGMOID", "H_SWISH"})
_ADD_AND_ACTIVATE = frozenset({"FUSE_ADD_RELU", "FUSE_ADD_SIGMOID", "FUSE_ADD_H_SWISH"})
_FOLD = "optimize_for_inference"
_FUSE = "enable_fuse_conv_bias_nonlinearity"


def unfused_batch_norm(scene: Scene) -> Finding | None:
    """A BatchNorm in inference that is the only reader of a convolution can be folded into its
    weights.

    Measured on the resnet18 of the examples: 13.4 ms with 20 of them, 9.8 ms folded.
    """
    if scene.is_training or scene.facts.has_option(_FOLD):
        return None
    wiring = scene.wiring
    matches = []
    for row in scene.of_types({"BatchNormForward"}).nonzero()[0].tolist():
        operator = int(scene.operator[row])
        if operator == MISSING or wiring.params_of(operator).get("fwd_mode") != "INFERENCE":
            continue
        source = wiring.producer(wiring.inputs(operator)[0]) if wiring.inputs(operator) else MISSING
        if wiring.type_of(source) == CONVOLUTION and wiring.only_reader(source) == operator:
            matches.append(row)
    return _saving(scene, "unfused_batch_norm", matches, _FOLD)


def unfused_bias(scene: Scene) -> Finding | None:
    """A constant bias after a convolution, and the activation after it, can be fused with it.

    The fused ConvBias has its own kernels, for which fast_run finds faster algorithms than for a
    plain convolution. optimize_for_inference alone does not fuse it.
    """
    if scene.is_training or scene.facts.has_option(_FUSE):
        return None
    matches = []
    for row in scene.of_types({CONVOLUTION}).nonzero()[0].tolist():
        chain = _chain(scene.wiring, int(scene.operator[row]))
        rows = [int(scene.graph.operators.row[operator]) for operator in chain]
        matches += [index for index in rows if index != MISSING]
    return _saving(scene, "unfused_bias", matches, _FUSE)


def _chain(wiring: Wiring, convolution: int) -> list[int]:
    """Return the operators after a convolution that could be fused with it."""
    if convolution == MISSING:
        return []
    add = wiring.only_reader(convolution)
    mode = _mode(wiring, add)
    if mode not in {"ADD", *_ADD_AND_ACTIVATE} or not _adds_constant(wiring, add):
        return []
    activation = wiring.only_reader(add) if mode == "ADD" else MISSING
    return [add, activation] if _mode(wiring, activation) in _ACTIVATIONS else [add]


def _mode(wiring: Wiring, operator: int) -> str:
    """Return the mode of an Elemwise operator; empty for another operator or none."""
    if wiring.type_of(operator) != "Elemwise":
        return ""
    return str(wiring.params_of(operator).get("mode", ""))


def _adds_constant(wiring: Wiring, add: int) -> bool:
    """Whether one of two inputs is a constant with one value per channel."""
    inputs = wiring.inputs(add)
    sources = [wiring.producer(variable) for variable in inputs]
    constant = [
        variable
        for variable, source in zip(inputs, sources, strict=True)
        if source != MISSING and wiring.constant[source]
    ]
    if len(inputs) != 2 or len(constant) != 1:
        return False
    shape = (wiring.graph.variables.shapes[constant[0]] or "").strip("[]").split(",")
    return len(shape) == 4 and shape[0] == shape[2] == shape[3] == "1"


def _saving(scene: Scene, rule: str, rows: list[int], option: str) -> Finding | None:
    chosen = np.array(rows, dtype=np.int64)
    return scene.saving(rule, chosen, share=SHARE, least_s=NOTICEABLE_S, options=(option,))


def constant_work(scene: Scene) -> Finding | None:
    """Operators that depend only on parameters and constants could be computed once.

    Shapes of inputs count as variable, even where they are static. Measured on a product of two
    weights: 7.0 ms unfolded, 0.2 ms folded. Does not apply to training, where parameters change.
    """
    if scene.is_training or scene.facts.has_option(_FOLD):
        return None
    operator = scene.operator
    constant = (operator != MISSING) & ~scene.glue & (scene.device_s > 0)
    constant[constant] = scene.wiring.constant[operator[constant]]
    if (row := spiked(scene)) is not None:
        constant[row] = False
    return scene.saving(
        "constant_work", constant, share=SHARE, least_s=NOTICEABLE_S, options=(_FOLD,)
    )
