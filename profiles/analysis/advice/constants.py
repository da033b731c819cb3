"""Work that gives the same result in each iteration."""

from profiles.analysis.advice.finding import Finding
from profiles.analysis.advice.scene import NOTICEABLE_S, Scene
from profiles.analysis.advice.shares import spiked
from profiles.parsers.columns import MISSING

SHARE = 0.01
_FOLD = "optimize_for_inference"


def constant_work(scene: Scene) -> Finding | None:
    """Operators that read nothing but parameters and constants could be computed once.

    Shapes of inputs count as changing, even where they are static. Measured on a product of two
    weights: 7.0 ms as it was, 0.2 ms folded. In training the parameters change.
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
