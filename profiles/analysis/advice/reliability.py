"""Rules for the reliability of the figures, and for time outside operators."""

from profiles.analysis.advice.context import MEASURABLE_S, RuleContext
from profiles.analysis.advice.finding import Finding
from profiles.analysis.coverage import coverage
from profiles.analysis.stability import CPU_LIMIT, GPU_LIMIT, stability

OVERHEAD = 0.25
COVERED = 0.7


def first_run(context: RuleContext) -> Finding | None:
    """The profile is of the first execution, which also allocates memory and checks each variable.

    The clock of a profile starts with its first execution, so a later execution starts after at
    least one that took as long. An execution that starts earlier than its own length is the first.
    Without a warm-up, host times were 90 times and device times 1.2 to 3 times as high as with one.
    """
    device = context.device
    if not device.count or device.first_s >= device.span_s:
        return None
    return Finding(rule="first_run", severity="warning", options=("warmup_iter",))


def disturbed(context: RuleContext) -> Finding | None:
    """The run was disturbed."""
    if not context.facts.disturbances:
        return None
    return Finding(
        rule="disturbed",
        severity="warning",
        params={"codes": " ".join(context.facts.disturbances)},
    )


def unsteady(context: RuleContext) -> Finding | None:
    """Passes, or iterations without profiling, differ by more than the usual noise of the device.

    Limits: 5 % on processors, 2.5 % on GPUs, as for the badge of operators.
    """
    limit = CPU_LIMIT if context.on_cpu else GPU_LIMIT
    between = stability(context.data, "device").total_cv or 0.0
    within = context.facts.iteration_cv or 0.0
    if not max(between, within) > limit or not context.is_measurable:
        return None
    return Finding(
        rule="unsteady",
        severity="warning",
        params={"passes_cv": between, "iterations_cv": within, "limit": limit},
    )


def single_sample(context: RuleContext) -> Finding | None:
    """There is only one profiled pass, so each operator was timed once.

    Measured over ten processes of four models: in 8 to 10 of them, the three slowest operators were
    others.
    """
    if len(context.data.passes) > 1 or not context.total_s:
        return None
    return Finding(rule="single_sample", severity="note")


def too_short(context: RuleContext) -> Finding | None:
    """The device total is below 100 us, while a processor's clock has a resolution of 1 us."""
    if not context.on_cpu or context.has_odd_times or not 0 < context.total_s < MEASURABLE_S:
        return None
    return Finding(
        rule="too_short",
        severity="note",
        params={"total_us": context.total_s * 1e6},
        options=("batch_size",),
    )


def slow_profiling(context: RuleContext) -> Finding | None:
    """Profiling slows iterations down by a quarter: it adds 1 to 2 us to each operator."""
    overhead = context.facts.overhead
    if overhead is None or not overhead >= OVERHEAD:
        return None
    return Finding(rule="slow_profiling", severity="note", params={"overhead": overhead})


def outside_operators(context: RuleContext) -> Finding | None:
    """Operators of the only comp node cover less than 70 % of the profiled iterations.

    The remaining time is dispatch, inputs and outputs, and waiting. Each pass is compared with its
    own iteration. If the device is busy nearly all the time, there is no gap to close: the
    iteration started late or ended late, which is noise of the machine.
    """
    covered = coverage(context.data, context.facts.iterations_s)
    if (
        covered is None
        or context.device.count != 1
        or context.has_odd_times
        or context.device.is_busy
    ):
        return None
    if covered.outside_s < MEASURABLE_S or covered.share >= COVERED:
        return None
    return Finding(
        rule="outside_operators",
        severity="gain",
        saves_s=covered.outside_s,
        estimate="outside",
        params={"covered": covered.share},
    )


def training(context: RuleContext) -> Finding | None:
    """Options that optimize inference do not apply to a training step."""
    return Finding(rule="training", severity="note") if context.is_training else None
