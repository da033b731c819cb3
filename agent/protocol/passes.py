"""What the passes of a plan have in common, for the device that runs them and for the preview."""

from collections.abc import Mapping

from agent.protocol.option import Value
from agent.protocol.option_table import DISTURBING, OPTIONS
from agent.protocol.plan import Plan


def has_dump_pass(options: Mapping[str, Value]) -> bool:
    """Whether something is written while iterations run: that pass is for nothing else."""
    return bool(DISTURBING & set(options))


def options_of_passes(options: Mapping[str, Value], plan: Plan) -> dict[str, Value]:
    """The options that every pass has.

    Choosing algorithms by trying takes minutes: what the first process found, all others use.
    """
    # a clean pass may become two processes
    several = plan.passes + has_dump_pass(options) > 1 or plan.clean
    shared = dict(options)
    if several and ("fast_run" in shared or "full_run" in shared):
        shared["fast_run_algo_policy"] = True
    return shared


def iterations_of(options: Mapping[str, Value]) -> int:
    """The iterations of a profiled pass."""
    return int(options.get("iter", OPTIONS["iter"].default))


def clean_iterations_of(options: Mapping[str, Value], plan: Plan) -> int:
    """How many iterations a clean pass is tried with."""
    return max(iterations_of(options), plan.clean_min_iterations)
