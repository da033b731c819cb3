"""Explanations of the figures on pages: description, unit and formula.

`templates/profiles/_explained.html` shows them next to the figure.
"""

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True)
class Explanation:
    """`formula` is empty for a figure that is measured and not computed."""

    key: str
    term: Any
    what: Any
    unit: Any
    formula: Any = ""


#: explanations of figures that are displayed with their unit, unlike those in columns of the
#: operator table
_TIME = _("time, with its unit")
_SECONDS = _("seconds")
_RATIO = _("percent")

_ALL = (
    Explanation(
        "latency_median",
        _("Median iteration time"),
        _(
            "Half of the iterations with the profiler off were faster. Unlike the mean, it is "
            "hardly affected by a few slow iterations."
        ),
        _TIME,
        _("50th percentile of all timed iterations of the latency passes"),
    ),
    Explanation(
        "latency_p90",
        _("p90 of iteration times"),
        _("Nine of ten iterations with the profiler off were at least this fast."),
        _TIME,
        _("90th percentile, interpolated between the two nearest iterations"),
    ),
    Explanation(
        "latency_p99",
        _("p99 of iteration times"),
        _(
            "99 of 100 iterations with the profiler off were at least this fast. With fewer "
            "than 100 iterations it is close to the slowest one."
        ),
        _TIME,
        _("99th percentile, interpolated between the two nearest iterations"),
    ),
    Explanation(
        "latency_histogram",
        _("Histogram of iterations"),
        _(
            "Distribution of iteration times with the profiler off. Several peaks mean that the "
            "device changed its state during the pass, such as its clock frequency."
        ),
        _("iterations in each time interval"),
        _(
            "width of an interval = 2 × interquartile range / cube root of the number of "
            "iterations (Freedman and Diaconis), 5 to 60 intervals"
        ),
    ),
    Explanation(
        "latency_cv",
        _("Scatter of iterations"),
        _("Variation of single iterations around their mean, with the profiler off."),
        _RATIO,
        _("standard deviation (n − 1) of the iterations / their mean"),
    ),
    Explanation(
        "steady_state",
        _("Steady state"),
        _(
            "The iteration from which the model runs at a steady speed. The first iterations may "
            "be slow because of caches, memory and clocks. The latency always covers all "
            "iterations. A pass whose speed still changes in its second half counts as “never "
            "steady”."
        ),
        _("iterations"),
        _(
            "the earliest point of the first half (the start, or a change point of the times found "
            "by binary segmentation) from which at most a tenth of the iterations are in segments "
            "whose median differs from that of the second half by more than 1 percent or one "
            "standard deviation, whichever is larger"
        ),
    ),
    Explanation(
        "modes",
        _("Modes"),
        _(
            "Values around which the iteration times cluster, with their shares of the steady "
            "iterations. Several modes mean that the device or the process changes between "
            "states."
        ),
        _TIME,
        _(
            "peaks of the distribution (kernel density) that are at least 3 percent apart, "
            "contain at least a tenth of the iterations each, and are separated by a valley of "
            "at most half the height of the lower peak"
        ),
    ),
    Explanation(
        "median_interval",
        _("Confidence interval of the median"),
        _(
            "The range of the true median latency of the model on this device, at a confidence "
            "level of 95 percent. Each process has a bias that all its iterations share, so the "
            "interval is computed from processes, not iterations."
        ),
        _TIME,
        _(
            "on logarithms of the medians of latency passes: Student’s t for up to five passes, "
            "signed ranks for six or more"
        ),
    ),
    Explanation(
        "profiled_median",
        _("Latency (profiler on)"),
        _("Half of the iterations with the profiler on were faster."),
        _TIME,
        _("50th percentile of the iterations of all profiled passes"),
    ),
    Explanation(
        "overhead",
        _("Profiling overhead"),
        _(
            "How much slower an iteration is with the profiler on. Small operators are affected "
            "most, by 1 to 2 µs each. It is never negative: where iterations were faster with "
            "the profiler on, the overhead is within noise."
        ),
        _RATIO,
        _("median of profiled iterations / median of the latency passes − 1"),
    ),
    Explanation(
        "coverage",
        _("Coverage"),
        _(
            "For each pass, the share of an iteration that its operators account for. A profile "
            "contains only the last iteration of its process, so the times of the operators are "
            "divided by the time of that iteration. Above 100 percent if operators overlap on "
            "several computing nodes."
        ),
        _RATIO,
        _("median over passes of: sum of the operators on the device / last iteration of the pass"),
    ),
    Explanation(
        "outside",
        _("Time not attributed to operators"),
        _(
            "The rest of the profiled iterations: dispatch, waiting, and copying inputs and "
            "results. Not shown for a disturbed run, if operators overlap, or if the device "
            "runs operators nearly all the time."
        ),
        _TIME,
        _("median over passes of: last iteration of the pass − sum of its operators on the device"),
    ),
    Explanation(
        "device_total",
        _("Device total"),
        _(
            "Work on the device, not elapsed time: overlapping operators are counted in full. "
            "The range covers the totals of single passes."
        ),
        _TIME,
        _("sum over operators: the median self time of each over the passes"),
    ),
    Explanation(
        "host_total",
        _("Host total"),
        _(
            "Time that the host threads spent dispatching operators, added up; these times can "
            "overlap, too. The range covers the totals of single passes."
        ),
        _TIME,
        _("sum over operators: the median self time of each over the passes"),
    ),
    Explanation(
        "total_cv",
        _("CV of the total"),
        _("Variation of the totals of the profiled passes."),
        _RATIO,
        _("standard deviation (n − 1) of the totals of passes / their mean"),
    ),
    Explanation(
        "pass_totals",
        _("Device time of each profiled pass"),
        _(
            "Sum of operator self times on the device, for each pass. A dash marks a pass that "
            "was not merged into the profile."
        ),
        _TIME,
        _("sum over operators of the self time in the pass"),
    ),
    Explanation(
        "start_up",
        _("Process start-up"),
        _(
            "The time outside of warm-ups and iterations in the first pass that was not "
            "pre-started: starting the interpreter or program, loading and compiling the model, "
            "and exiting."
        ),
        _TIME,
        _("run time of the process − warm-ups − iterations"),
    ),
    Explanation(
        "load",
        _("Loading the model"),
        _("The time for reading the model file, as load_and_run reports it."),
        _TIME,
    ),
    Explanation(
        "memory",
        _("Peak memory"),
        _(
            "The largest resident memory of the processes of a pass, measured on the host, "
            "including start-up and MegEngine itself. Passes that write dumps do not count. Shared "
            "pages count once per process. The Memory tab shows another figure: what MegEngine "
            "plans for tensors."
        ),
        _("bytes; the unit is shown next to the value"),
        _(
            "the larger of two values: the largest sum over all processes in any sample, and "
            "the highest peak of a single process, read when it ends"
        ),
    ),
    Explanation(
        "gpu_memory",
        _("Peak GPU memory"),
        _(
            "The largest memory of the processes of a pass on all GPUs together, read from the "
            "driver twice a second; the CUDA context is included."
        ),
        _("bytes; the unit is shown next to the value"),
    ),
    Explanation(
        "waited",
        _("Waited for an idle device"),
        _(
            "The time that the agent waited before the run, because load of other processes, "
            "heat or lack of memory would have disturbed it."
        ),
        _TIME,
    ),
    Explanation(
        "device_speed",
        _("Speed of the device"),
        _(
            "The device does a short fixed piece of work (a matrix product, a copy, small "
            "operators) before and after each run that measures the latency, and compares the "
            "times with those of its latest runs. 97.2 percent of its usual speed means that "
            "the work takes 2.9 percent longer than usual. If a reading before the run is "
            "outside the range of 99 percent of its readings, the run waits once; if a reading "
            "after the run is outside this range, the run is repeated once."
        ),
        _RATIO,
        _("for each kind of work, usual time ÷ current time; then the geometric mean of these"),
    ),
    Explanation(
        "waited_for_core",
        _("Waited for a core"),
        _(
            "The time during which threads of the run were ready but waited for a processor core, "
            "summed over all threads. Only the iterations that determine the result count: the "
            "faster half of a latency pass (the slower half does not change the median), or the "
            "last iteration of a profiled pass. A pass above 5 percent counts as disturbed."
        ),
        _("percent of the time"),
        _(
            "waiting time ÷ duration of these iterations (with a compiled load_and_run: of the "
            "whole process)"
        ),
    ),
    Explanation(
        "unstable",
        _("Unstable operators"),
        _(
            "Operators whose times vary too much between passes to be ranked. On CPUs, "
            "MegEngine’s clock has a resolution of 1 µs, so very short operators are often "
            "unstable."
        ),
        _("operators"),
        _("CV above 5 percent on a CPU, above 2.5 percent on a GPU"),
    ),
    Explanation(
        "passes",
        _("Profiled passes"),
        _(
            "Each pass is a separate process and gives one sample per operator, from its last "
            "iteration. Passes that executed the same operators are merged."
        ),
        _("passes"),
    ),
    Explanation(
        "median",
        _("Median"),
        _("The median of the times of an operator in the passes, and its share of the total."),
        _SECONDS,
        _("50th percentile over the passes"),
    ),
    Explanation(
        "p10",
        "p10",
        _("A tenth of the passes were faster."),
        _SECONDS,
        _("10th percentile over the passes, interpolated between the two nearest"),
    ),
    Explanation(
        "p90",
        "p90",
        _("A tenth of the passes were slower."),
        _SECONDS,
        _("90th percentile over the passes, interpolated between the two nearest"),
    ),
    Explanation(
        "minimum",
        _("Minimum"),
        _("The fastest pass, which is closest to an undisturbed run."),
        _SECONDS,
        _("minimum over the passes"),
    ),
    Explanation(
        "cv",
        "CV",
        _("Coefficient of variation: the variation of single passes around their mean."),
        _RATIO,
        _("standard deviation (n − 1) over the passes / their mean"),
    ),
    Explanation(
        "samples",
        "n",
        _("The number of passes in which the operator was timed."),
        _("passes"),
    ),
)

EXPLANATIONS: dict[str, Explanation] = {explanation.key: explanation for explanation in _ALL}
