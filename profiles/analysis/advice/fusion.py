"""Rules for operators that load_and_run can fold in inference, or compute once."""

import numpy as np

from profiles.analysis.advice.context import NOTICEABLE_S, OperatorEdges, RuleContext
from profiles.analysis.advice.finding import Finding
from profiles.analysis.advice.hotspots import spiked
from profiles.formats.columns import MISSING

SHARE = 0.01
CONVOLUTION = "ConvolutionForward"
#: activations that ConvBiasForward can apply (its `nonlineMode`)
_ACTIVATIONS = frozenset({"RELU", "SIGMOID", "H_SWISH"})
_ADD_AND_ACTIVATE = frozenset({"FUSE_ADD_RELU", "FUSE_ADD_SIGMOID", "FUSE_ADD_H_SWISH"})
_FOLD = "optimize_for_inference"
_FUSE = "enable_fuse_conv_bias_nonlinearity"


def unfused_batch_norm(context: RuleContext) -> Finding | None:
    """A BatchNorm in inference that is the only reader of a convolution can be folded into its
    weights.

    Measured on the resnet18 of the examples: 13.4 ms with 20 of them, 9.8 ms folded.
    """
    if context.is_training or context.facts.has_option(_FOLD):
        return None
    edges = context.edges
    matches = []
    for row in context.of_types({"BatchNormForward"}).nonzero()[0].tolist():
        operator = int(context.operator[row])
        if operator == MISSING or edges.params_of(operator).get("fwd_mode") != "INFERENCE":
            continue
        source = edges.producer(edges.inputs(operator)[0]) if edges.inputs(operator) else MISSING
        if edges.type_of(source) == CONVOLUTION and edges.only_reader(source) == operator:
            matches.append(row)
    return _saving(context, "unfused_batch_norm", matches, _FOLD)


def unfused_bias(context: RuleContext) -> Finding | None:
    """A constant bias after a convolution, and the activation after it, can be fused with it.

    The fused ConvBias has its own kernels, for which fast_run finds faster algorithms than for a
    plain convolution. optimize_for_inference alone does not fuse it.
    """
    if context.is_training or context.facts.has_option(_FUSE):
        return None
    matches = []
    for row in context.of_types({CONVOLUTION}).nonzero()[0].tolist():
        chain = _chain(context.edges, int(context.operator[row]))
        rows = [int(context.graph.operators.row[operator]) for operator in chain]
        matches += [index for index in rows if index != MISSING]
    return _saving(context, "unfused_bias", matches, _FUSE)


def _chain(edges: OperatorEdges, convolution: int) -> list[int]:
    """Return the operators after a convolution that could be fused with it."""
    if convolution == MISSING:
        return []
    add = edges.only_reader(convolution)
    mode = _mode(edges, add)
    if mode not in {"ADD", *_ADD_AND_ACTIVATE} or not _adds_constant(edges, add):
        return []
    activation = edges.only_reader(add) if mode == "ADD" else MISSING
    return [add, activation] if _mode(edges, activation) in _ACTIVATIONS else [add]


def _mode(edges: OperatorEdges, operator: int) -> str:
    """Return the mode of an Elemwise operator; empty for another operator or none."""
    if edges.type_of(operator) != "Elemwise":
        return ""
    return str(edges.params_of(operator).get("mode", ""))


def _adds_constant(edges: OperatorEdges, add: int) -> bool:
    """Whether one of two inputs is a constant with one value per channel."""
    inputs = edges.inputs(add)
    sources = [edges.producer(variable) for variable in inputs]
    constant = [
        variable
        for variable, source in zip(inputs, sources, strict=True)
        if source != MISSING and edges.constant[source]
    ]
    if len(inputs) != 2 or len(constant) != 1:
        return False
    shape = (edges.graph.variables.shapes[constant[0]] or "").strip("[]").split(",")
    return len(shape) == 4 and shape[0] == shape[2] == shape[3] == "1"


def _saving(context: RuleContext, rule: str, rows: list[int], option: str) -> Finding | None:
    chosen = np.array(rows, dtype=np.int64)
    return context.saving(rule, chosen, share=SHARE, least_s=NOTICEABLE_S, options=(option,))


def constant_work(context: RuleContext) -> Finding | None:
    """Operators that depend only on parameters and constants could be computed once.

    Shapes of inputs count as variable, even where they are static. Measured on a product of two
    weights: 7.0 ms unfolded, 0.2 ms folded. Does not apply to training, where parameters change.
    """
    if context.is_training or context.facts.has_option(_FOLD):
        return None
    operator = context.operator
    constant = (operator != MISSING) & ~context.glue & (context.device_s > 0)
    constant[constant] = context.edges.constant[operator[constant]]
    if (row := spiked(context)) is not None:
        constant[row] = False
    return context.saving(
        "constant_work", constant, share=SHARE, least_s=NOTICEABLE_S, options=(_FOLD,)
    )
