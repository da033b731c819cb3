"""User-facing messages for the rules of `analysis.advice`.

Messages use the `params` of a finding, formatted by `presenters.advice`; `count` remains a number,
for plurals.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy


@dataclass(frozen=True)
class RuleWords:
    """The title of a rule, its message, its reason, and what to do.

    other_step: instead of `step`, where kernels cannot be replayed
    """

    title: Any
    sentence: Any
    why: Any
    step: Any
    other_step: Any = ""


RULES: Mapping[str, RuleWords] = {
    "first_run": RuleWords(
        _("First execution"),
        _("This profile is of the first execution, so all of its times are too high."),
        _(
            "The clock of a profile starts with the first execution. The time from then to the "
            "start of the profiled execution is shorter than that execution itself, so no "
            "similar execution preceded it. A first execution also allocates memory and checks "
            "each variable. In our measurements, host times without a warm-up were about 90 "
            "times as high as with one, and device times 1.2 to 3 times as high. Rules that "
            "depend on times were not evaluated."
        ),
        _("Profile again with at least one warm-up."),
    ),
    "disturbed": RuleWords(
        _("Disturbed run"),
        _(
            "Something other than the run may have changed its times, such as other processes, "
            "throttling or heat. Recommendations that depend on times are left out."
        ),
        _(
            "The agent checks the device before, during and after each pass. The remaining "
            "recommendations are based on the graph; their savings are computed from the times "
            "of this run."
        ),
        _("Measure again when the device is idle, preferably with the plan “thorough”."),
    ),
    "unsteady": RuleWords(
        _("High variation of times"),
        _("The measurement is unstable: the largest scatter is %(spread)s of the mean."),
        _(
            "Applies when the standard deviation of the device times of the passes, or of the "
            "iterations with the profiler off, exceeds 5 %% of the mean on CPUs, or 2.5 %% on "
            "GPUs. Small differences between results may therefore get no verdict."
        ),
        _("Measure again with the plan “thorough”, on an otherwise idle device."),
    ),
    "interrupted": RuleWords(
        _("Interrupted operators"),
        ngettext_lazy(
            "%(count)s operator took at least ten times as long as most similar ones; the "
            "excess accounts for %(share)s of device time. Another process probably used the "
            "CPU.",
            "%(count)s operators took at least ten times as long as most similar ones; the "
            "excess accounts for %(share)s of device time. Another process probably used the "
            "CPU.",
            "count",
        ),
        _(
            "Applies on CPUs with fewer than three profiled passes, if an operator took at least "
            "ten times the median of four or more similar operators, and the excess of all such "
            "operators is at least 10 %% of device time. Similar operators have equal type, "
            "parameters, shapes and data types."
        ),
        _(
            "Measure with the plan “standard” or “thorough”: the median is not affected by "
            "single interruptions."
        ),
    ),
    "spike": RuleWords(
        _("One constant or copy dominates the only sample"),
        _(
            "One constant or copy (%(type)s) accounts for %(share)s of device time in the only "
            "sample. The cause is probably a first memory access or an interruption."
        ),
        _(
            "Applies if there is only one profiled pass, and one operator that holds a constant "
            "or copies data accounts for at least half of device time. Such operators are "
            "usually short. An operator that computes a constant counts only if even a slow "
            "core would need less than a tenth of the measured time for its FLOPs and bytes. "
            "Other rules ignore this operator. The shares of all other operators are too low "
            "because of it."
        ),
        _(
            "Measure again with the plan “standard”: five samples show whether the operator is "
            "always slow."
        ),
    ),
    "dominant_operator": RuleWords(
        _("One operator dominates"),
        _("One %(type)s operator accounts for %(share)s of device time."),
        _("Applies when one operator accounts for at least 25 %% of device time."),
        _("Check this operator first: its shapes, data type and parameters."),
    ),
    "dominant_type": RuleWords(
        _("One type dominates"),
        _("%(count)s operators of type %(type)s account for %(share)s of device time."),
        _(
            "Applies when two or more operators of one type together account for at least half of "
            "the device time, and no single operator does."
        ),
        _("Optimize this operator type first."),
    ),
    "slow_float16": RuleWords(
        _("No kernels for float16"),
        ngettext_lazy(
            "%(count)s operator computes in float16, for which this CPU has no fast kernels, "
            "and accounts for %(share)s of device time.",
            "%(count)s operators compute in float16, for which this CPU has no fast kernels, "
            "and account for %(share)s of device time.",
            "count",
        ),
        _(
            "Applies on CPUs when matrix products and convolutions in float16 of 100 µs and "
            "more reach less than 1 GFLOP/s and account for at least 10 %% of device time."
        ),
        _(
            "Compute in float32 on this device, without enable_ioc16. In our measurement a "
            "resnet18 took 14 instead of 1,640 ms."
        ),
    ),
    "far_from_roof": RuleWords(
        _("Below roofline"),
        ngettext_lazy(
            "%(count)s operator reaches %(reached)s of the measured peak performance (limited "
            "by computation: %(computing)s, by memory: %(moving)s).",
            "%(count)s operators reach less than half of the measured peak performance (limited "
            "by computation: %(computing)s, by memory: %(moving)s); the one with the largest "
            "loss reaches %(reached)s.",
            "count",
        ),
        _(
            "The lower bound of an operator’s time is the longer of two times: FLOPs ÷ peak "
            "FLOP/s, and bytes ÷ copy bandwidth; peak and bandwidth were measured on this device. "
            "Applies if the operators that take more than twice their lower bound could together "
            "save at least 10 %%. Small operators, and those whose FLOPs or bytes are not "
            "reliable, are ignored."
        ),
        _("Try other algorithms or another layout. If memory is the limit, fuse operators."),
    ),
    "untried_algorithms": RuleWords(
        _("Algorithms not benchmarked"),
        ngettext_lazy(
            "%(count)s fused convolution accounts for %(share)s of device time; its algorithm "
            "was chosen by heuristics, not by benchmarking.",
            "%(count)s fused convolutions account for %(share)s of device time; their "
            "algorithms were chosen by heuristics, not by benchmarking.",
            "count",
        ),
        _(
            "Applies when ConvBiasForward accounts for at least 30 %% of device time and "
            "neither fast_run nor full_run was on. On an x86 server, fast_run reduced the time "
            "of a fused resnet18 from 10.3 to 5.1 ms; plain convolutions did not improve."
        ),
        _("Run again with fast_run. Its choices can be saved and reused."),
    ),
    "blocked_layout": RuleWords(
        _("Blocked layout"),
        ngettext_lazy(
            "%(count)s convolution in NCHW accounts for %(share)s of device time on an ARM CPU.",
            "%(count)s convolutions in NCHW account for %(share)s of device time on an ARM CPU.",
            "count",
        ),
        _(
            "Applies on ARM when dense float32 convolutions in NCHW whose channels are multiples "
            "of four account for at least 30 %% of device time and no layout option was on. "
            "nchw44 has dedicated kernels for ARM. Their gain was not measured."
        ),
        _("Try enable_nchw44, together with optimize_for_inference if the model has BatchNorm."),
    ),
    "unfused_batch_norm": RuleWords(
        _("BatchNorm not folded"),
        ngettext_lazy(
            "%(count)s BatchNorm after a convolution accounts for %(share)s of device time. In "
            "inference it can be folded into the weights.",
            "%(count)s BatchNorms after convolutions account for %(share)s of device time. In "
            "inference they can be folded into the weights.",
            "count",
        ),
        _(
            "Applies to BatchNorms in inference mode if each is the only operator that reads the "
            "output of a convolution, and together they account for at least 1 %% of device time. "
            "Folding the 20 BatchNorms of a resnet18 reduced its latency from 13.4 to 9.8 ms on an "
            "x86 server."
        ),
        _("Run with optimize_for_inference, or dump the model with its BatchNorm folded."),
    ),
    "unfused_bias": RuleWords(
        _("Bias and activation not fused"),
        ngettext_lazy(
            "%(count)s elementwise operator after a convolution adds a bias or applies an "
            "activation that can be fused into the convolution.",
            "%(count)s elementwise operators after convolutions add biases or apply activations "
            "that can be fused into the convolutions.",
            "count",
        ),
        _(
            "Applies to a constant bias that is added to a convolution, and to a ReLU, sigmoid "
            "or H-Swish after it, if no other operator reads the values in between and these "
            "operators together account for at least 1 %% of device time."
        ),
        _("Run with enable_fuse_conv_bias_nonlinearity. It may also make fast_run more effective."),
    ),
    "constant_work": RuleWords(
        _("Constants recomputed every iteration"),
        ngettext_lazy(
            "%(count)s operator computes the same result in each iteration, from parameters and "
            "constants only.",
            "%(count)s operators compute the same results in each iteration, from parameters and "
            "constants only.",
            "count",
        ),
        _(
            "Applies to operators whose inputs all come from parameters and constants, if they "
            "account for at least 1 %% of device time. Folding a product of two weights reduced "
            "the latency of a small model from 7.0 to 0.2 ms."
        ),
        _("Run with optimize_for_inference, or compute these values before you dump the model."),
    ),
    "tiny_operators": RuleWords(
        _("Many tiny operators"),
        _(
            "%(count)s operators take less than 10 µs each, and together account for %(share)s of "
            "device time: mostly kernel launches."
        ),
        _(
            "Applies when at least 100 operators below 10 µs account for 30 %% of device time. "
            "Replaying recorded kernels reduced the latency of a model of 3,700 such operators "
            "from 4.1 to 0.6 ms on an x86 server."
        ),
        _(
            "Run with record_comp_seq, which replays the kernels without the operators. It "
            "needs constant shapes and a plan without profiled passes. Alternatively, use "
            "fewer, larger operators."
        ),
        _("Use fewer, larger operators."),
    ),
    "host_bound": RuleWords(
        _("Host-bound"),
        _(
            "The device is idle for %(idle)s of the time, while the host dispatches operators for "
            "%(host)s of the time."
        ),
        _(
            "Applies when the only computing node is idle for at least 10 %% of the time from "
            "its first to its last operator, and the host dispatches operators during at least "
            "90 %% of that time."
        ),
        _(
            "Run with record_comp_seq (no profiled passes, constant shapes), or with larger "
            "batches, so that each operator has more work."
        ),
        _("Use larger batches, so that each operator has more work."),
    ),
    "slow_to_issue": RuleWords(
        _("High dispatch time"),
        ngettext_lazy(
            "%(count)s operator waits for the host: dispatching its kernels takes %(host)s of "
            "the operator’s time.",
            "%(count)s operators wait for the host: dispatching their kernels takes %(host)s of "
            "the operators’ time.",
            "count",
        ),
        _(
            "Applies to operators of 100 µs and more for which the host needs at least 60 %% of "
            "their device time, such as recurrent layers with several kernels per step. "
            "Replaying recorded kernels reduced the latency of an LSTM from 1.9 to 0.5 ms on an "
            "x86 server."
        ),
        _(
            "Run with record_comp_seq, which replays the kernels. It needs constant shapes and "
            "a plan without profiled passes."
        ),
    ),
    "copies": RuleWords(
        _("Copies"),
        ngettext_lazy(
            "%(count)s copy (%(bytes)s) accounts for %(share)s of device time.",
            "%(count)s copies (%(bytes)s) account for %(share)s of device time.",
            "count",
        ),
        _(
            "Applies when copies (between computing nodes, of inputs, and of results) account "
            "for at least 5 %% of device time, not counting the time in which a copy waits for "
            "its data."
        ),
        _(
            "Keep tensors on one device, and return only the values you need, in the smallest "
            "data type that suffices."
        ),
    ),
    "layout_changes": RuleWords(
        _("Layout changes"),
        ngettext_lazy(
            "%(count)s operator that only reorders elements in memory accounts for %(share)s of "
            "device time.",
            "%(count)s operators that only reorder elements in memory account for %(share)s of "
            "device time.",
            "count",
        ),
        _(
            "Applies when RelayoutFormat, Dimshuffle (transpose), and Reshape of non-contiguous "
            "inputs account for at least 5 %% of device time."
        ),
        _(
            "Remove transposes that cancel each other, or let a matrix product read its input "
            "transposed."
        ),
    ),
    "type_changes": RuleWords(
        _("Type changes"),
        ngettext_lazy(
            "%(count)s data type conversion accounts for %(share)s of device time.",
            "%(count)s data type conversions account for %(share)s of device time.",
            "count",
        ),
        _("Applies when TypeCvt accounts for at least 5 %% of device time."),
        _("Convert once, at the inputs, or use one data type throughout."),
    ),
    "python_callbacks": RuleWords(
        _("Values exchanged with Python"),
        ngettext_lazy(
            "%(count)s callback that passes values to and from Python accounts for %(share)s of "
            "device time.",
            "%(count)s callbacks that pass values to and from Python account for %(share)s of "
            "device time.",
            "count",
        ),
        _(
            "Applies when InputCallback and OutputCallback account for at least 10 %% of device "
            "time. A traced function uses them for values that it reads and writes in addition "
            "to its arguments."
        ),
        _("Read and print fewer values in the traced function, or less often."),
    ),
    "outside_operators": RuleWords(
        _("Time not attributed to operators"),
        _("Operators account for only %(covered)s of the profiled iteration."),
        _(
            "Applies when the operators of the only computing node account for less than 70 %% "
            "of the profiled iteration (median over the passes), and the device is idle for at "
            "least 10 %% of the time from its first to its last operator. Each pass is compared "
            "with its own iteration. The rest is dispatch, inputs and outputs, and waiting."
        ),
        _("Check the host track in the timeline and the input/output sizes."),
    ),
    "dynamic_shapes": RuleWords(
        _("Shapes that depend on values"),
        ngettext_lazy(
            "%(count)s operator (%(type)s) has outputs whose size depends on values, so memory "
            "cannot be planned in advance.",
            "%(count)s operators (%(type)s) have outputs whose size depends on values, so "
            "memory cannot be planned in advance.",
            "count",
        ),
        _(
            "Applies to operators that allocate their outputs themselves (the flag "
            "NO_SYS_MEM_ALLOC). Variables after them are allocated in each iteration, and "
            "record_comp_seq does not work."
        ),
        _("If the maximum number of elements is known, use a mask of fixed size instead."),
    ),
    "no_memory_plan": RuleWords(
        _("No memory plan"),
        _(
            "%(count)s of %(of)s variables are allocated in each iteration, because Python feeds "
            "the inputs and their shapes are unknown before the run."
        ),
        _(
            "Applies to imported profiles in which an InputCallback feeds the model and at least "
            "half of the variables are allocated at run time. MegEngine’s load_network_and_run "
            "writes such profiles; with it a resnet18 ran 30 to 40 %% longer than with "
            "load_and_run."
        ),
        _(
            "Dump the model and run it on this site: load_and_run knows the shapes and plans the "
            "memory once."
        ),
    ),
    "training": RuleWords(
        _("Training"),
        _("This is a training step, so options that optimize inference do not apply."),
        _("Applies when operators of gradients or backward passes were executed."),
        "",
    ),
    "too_short": RuleWords(
        _("Too short to measure"),
        _(
            "The whole iteration takes %(total_us)s on the device; the resolution of the clock is "
            "1 µs."
        ),
        _(
            "Applies on CPUs when the iteration takes less than 100 µs. Shares of such a short "
            "time are not meaningful."
        ),
        _("Use larger inputs, or a larger batch."),
    ),
    "single_sample": RuleWords(
        _("One sample"),
        _("Each operator was timed once, so the order of operators with similar times is random."),
        _(
            "A profile contains the last iteration of one process. In at least 8 of 10 such "
            "runs of the same model, the three slowest operators differed from those of all "
            "runs combined."
        ),
        _("Measure with the plan “standard”, or import several runs of your own together."),
    ),
    "slow_profiling": RuleWords(
        _("High profiling overhead"),
        _(
            "With the profiler on, iterations take %(overhead)s longer, so small operators "
            "appear slower than they are."
        ),
        _(
            "Applies when the median iteration with the profiler on is at least 25 %% longer "
            "than with it off. Profiling adds 1 to 2 µs to each operator."
        ),
        _(
            "Take the latency from the latency passes, and use the operator times only to rank "
            "operators."
        ),
    ),
}

#: messages for how the saving was estimated
ESTIMATES: Mapping[str, Any] = {
    "removed": _("the whole time of these operators"),
    "halved": _("half of the time of these operators, as if they were twice as fast"),
    "roof": _(
        "the time of these operators minus the time that they would need at 80 percent of the "
        "measured peak performance"
    ),
    "idle": _("the time in which the device is idle"),
    "issuing": _("the time in which the host dispatches the kernels of these operators"),
    "outside": _("the time of an iteration that is not attributed to operators"),
}

#: messages for the facts that a rule lacks
NEEDS: Mapping[str, Any] = {
    "iteration": _("the time of the profiled iteration is unknown"),
    "overhead": _("the iteration time with the profiler off is unknown"),
    "roofs": _(
        "no peak performance is known for this run: it was not measured on the device (command "
        "“agent runtime check”), or the run used several threads"
    ),
    "options": _("the options of the run are unknown"),
}

SEVERITIES: Mapping[str, Any] = {
    "warning": _("Measurement quality"),
    "gain": _("Potential savings"),
    "note": _("Notes"),
}
