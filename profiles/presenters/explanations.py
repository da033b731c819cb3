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
_RATIO = _("per cent")

_ALL = (
    Explanation(
        "latency_median",
        _("Median of an iteration"),
        _(
            "Half of the iterations without profiling were faster. It is what a user of the model "
            "waits, and does not mind a few slow iterations as the mean does."
        ),
        _TIME,
        _("50th percentile of all timed iterations of the clean pass"),
    ),
    Explanation(
        "latency_p90",
        _("p90 of an iteration"),
        _("Nine of ten iterations without profiling were at least this fast."),
        _TIME,
        _("90th percentile, interpolated between the two nearest iterations"),
    ),
    Explanation(
        "latency_p99",
        _("p99 of an iteration"),
        _(
            "99 of 100 iterations without profiling were at least this fast. With fewer than 100 "
            "iterations it is nearly that of the slowest one."
        ),
        _TIME,
        _("99th percentile, interpolated between the two nearest iterations"),
    ),
    Explanation(
        "latency_histogram",
        _("Histogram of iterations"),
        _(
            "Distribution of iteration times with the profiler off. Several peaks mean that the "
            "device changed its state, such as its clock, in between."
        ),
        _("iterations in each interval of time"),
        _(
            "width of an interval = 2 × interquartile range / cube root of the number of "
            "iterations (Freedman and Diaconis), 5 to 60 intervals"
        ),
    ),
    Explanation(
        "latency_cv",
        _("Spread of iterations"),
        _("Spread of single iterations around their mean, with the profiler off."),
        _RATIO,
        _("standard deviation (n − 1) of the iterations / their mean"),
    ),
    Explanation(
        "profiled_median",
        _("Latency (profiler on)"),
        _("Half of the iterations in which operators were timed were faster."),
        _TIME,
        _("50th percentile of the iterations of all profiled passes"),
    ),
    Explanation(
        "overhead",
        _("Profiling overhead"),
        _(
            "How much slower an iteration is while operators are timed. It falls on small "
            "operators most: one to two µs each. It cannot be negative: where iterations were "
            "faster with profiling, it is lost in noise."
        ),
        _RATIO,
        _("median of profiled iterations / median of the clean pass − 1"),
    ),
    Explanation(
        "coverage",
        _("Coverage"),
        _(
            "How much of an iteration the operators explain, pass by pass: a profile holds the "
            "last iteration of its process, so each pass is compared with that iteration. Above "
            "100 per cent, operators overlap on several computing nodes."
        ),
        _RATIO,
        _("median over passes of: sum of the operators on the device / last iteration of the pass"),
    ),
    Explanation(
        "outside",
        _("Time not attributed to operators"),
        _(
            "The rest of the iterations that were profiled: issuing operators, waiting, copying "
            "inputs and results. Not shown for a disturbed run, where operators overlap, or where "
            "the device runs operators nearly all the time."
        ),
        _TIME,
        _("median over passes of: last iteration of the pass − sum of its operators on the device"),
    ),
    Explanation(
        "device_total",
        _("Device total"),
        _(
            "Work on the device, not elapsed time: operators that overlap count in full. The range "
            "is that of the totals of single passes."
        ),
        _TIME,
        _("sum over operators of the median over passes of the self time"),
    ),
    Explanation(
        "host_total",
        _("Host total"),
        _(
            "Work of the threads that issue the operators, which overlap too. The range is that of "
            "the totals of single passes."
        ),
        _TIME,
        _("sum over operators of the median over passes of the self time"),
    ),
    Explanation(
        "total_cv",
        _("CV of the total"),
        _("How much the totals of the profiled passes differ from each other."),
        _RATIO,
        _("standard deviation (n − 1) of the totals of passes / their mean"),
    ),
    Explanation(
        "pass_totals",
        _("Device total of each profiled pass"),
        _(
            "Sum of operator self times on the device, for each pass. A dash marks a pass that "
            "was not merged."
        ),
        _TIME,
        _("sum over operators of the self time in the pass"),
    ),
    Explanation(
        "start_up",
        _("Process start-up"),
        _(
            "Time of the first pass outside of warm-ups and iterations: starting the interpreter "
            "or program, loading and compiling the model, ending."
        ),
        _TIME,
        _("run time of the process − warm-ups − iterations"),
    ),
    Explanation(
        "load",
        _("Loading the model"),
        _("What load_and_run itself says of reading the model file."),
        _TIME,
    ),
    Explanation(
        "waited",
        _("Waited for an idle device"),
        _(
            "Load of other processes, heat or lack of memory would disturb the run, so the agent "
            "waits before it starts."
        ),
        _TIME,
    ),
    Explanation(
        "waited_for_core",
        _("Waited for a core"),
        _(
            "How long the threads of the run were ready and had to wait for a processor core, "
            "summed over all threads. A pass above 5 per cent counts as disturbed."
        ),
        _("percent of the time"),
        _("waiting time ÷ duration of the timed iterations (of a compiled binary: of the process)"),
    ),
    Explanation(
        "unstable",
        _("Unstable operators"),
        _(
            "Operators whose time differs too much from pass to pass to be ranked by it. The "
            "clock of a processor counts whole µs, so very short operators are often unstable."
        ),
        _("operators"),
        _("CV above 5 per cent on a processor, above 2.5 per cent on a GPU"),
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
        _("The middle one of an operator's times in the passes, and its share of the total."),
        _SECONDS,
        _("50th percentile over the passes"),
    ),
    Explanation(
        "p10",
        "p10",
        _("A tenth of the passes was faster."),
        _SECONDS,
        _("10th percentile over the passes, interpolated between the two nearest"),
    ),
    Explanation(
        "p90",
        "p90",
        _("A tenth of the passes was slower."),
        _SECONDS,
        _("90th percentile over the passes, interpolated between the two nearest"),
    ),
    Explanation(
        "minimum",
        _("Minimum"),
        _("The fastest pass: the nearest to what the device can do undisturbed."),
        _SECONDS,
        _("smallest over the passes"),
    ),
    Explanation(
        "cv",
        "CV",
        _("Coefficient of variation: spread of single passes around their mean."),
        _RATIO,
        _("standard deviation (n − 1) over the passes / their mean"),
    ),
    Explanation(
        "samples",
        "n",
        _("In how many of the passes the operator was timed."),
        _("passes"),
    ),
)

EXPLANATIONS: dict[str, Explanation] = {explanation.key: explanation for explanation in _ALL}
