"""Rules for the reliability of the figures, and for time outside operators."""

from profiles.analysis.advice.finding import Finding
from profiles.analysis.advice.scene import MEASURABLE_S, Scene
from profiles.analysis.coverage import coverage
from profiles.analysis.stability import CPU_LIMIT, GPU_LIMIT, stability

OVERHEAD = 0.25
COVERED = 0.7


def first_run(scene: Scene) -> Finding | None:
    """The profile is of the first execution, which also allocates memory and checks each variable.

    The clock of a profile starts with its first execution, so a later execution starts after at
    least one that took as long. An execution that starts earlier than its own length is the first.
    Measured without a warm-up: host times 90 times, device times 1.2 to 3 times too high.
    """
    device = scene.device
    if not device.count or device.first_s >= device.span_s:
        return None
    return Finding(rule="first_run", severity="warning", options=("warmup_iter",))


def contaminated(scene: Scene) -> Finding | None:
    """Other programs used the device during the run."""
    if not scene.facts.contaminations:
        return None
    return Finding(
        rule="contaminated",
        severity="warning",
        params={"codes": " ".join(scene.facts.contaminations)},
    )


def unsteady(scene: Scene) -> Finding | None:
    """Passes, or iterations without profiling, differ by more than the usual noise of the device.

    Limits: 5 % on processors, 2.5 % on GPUs, as for the badge of operators.
    """
    limit = CPU_LIMIT if scene.on_cpu else GPU_LIMIT
    between = stability(scene.data, "device").total_cv or 0.0
    within = scene.facts.iteration_cv or 0.0
    if not max(between, within) > limit or not scene.is_measurable:
        return None
    return Finding(
        rule="unsteady",
        severity="warning",
        params={"passes_cv": between, "iterations_cv": within, "limit": limit},
    )


def single_sample(scene: Scene) -> Finding | None:
    """There is only one profiled pass, so each operator was timed once.

    Measured over ten processes of four models: in 8 to 10 of them, the three slowest operators were
    others.
    """
    if len(scene.data.passes) > 1 or not scene.total_s:
        return None
    return Finding(rule="single_sample", severity="note")


def too_short(scene: Scene) -> Finding | None:
    """The device total is below 100 us, while a processor's clock has a resolution of 1 us."""
    if not scene.on_cpu or scene.has_odd_times or not 0 < scene.total_s < MEASURABLE_S:
        return None
    return Finding(
        rule="too_short",
        severity="note",
        params={"total_us": scene.total_s * 1e6},
        options=("batch_size",),
    )


def slow_profiling(scene: Scene) -> Finding | None:
    """Profiling slows iterations down by a quarter: it adds 1 to 2 us to each operator."""
    overhead = scene.facts.overhead
    if overhead is None or not overhead >= OVERHEAD:
        return None
    return Finding(rule="slow_profiling", severity="note", params={"overhead": overhead})


def outside_operators(scene: Scene) -> Finding | None:
    """Operators of the only comp node cover less than 70 % of the profiled iterations.

    The remaining time is dispatch, inputs and outputs, and waiting. Each pass is compared with its
    own iteration. If the device is busy nearly all the time, there is no gap to close: the
    iteration started late or ended late, which is noise of the machine.
    """
    covered = coverage(scene.data, scene.facts.iterations_s)
    if covered is None or scene.device.count != 1 or scene.has_odd_times or scene.device.is_busy:
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


def training(scene: Scene) -> Finding | None:
    """Options that optimize inference do not apply to a training step."""
    return Finding(rule="training", severity="note") if scene.is_training else None
