"""Messages of rules for a trace: a single run of a program, to which no measuring plan applies."""

from collections.abc import Mapping
from dataclasses import replace

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from profiles.presenters.advice_messages import RULES, RuleWords

#: `RULES` with other messages for some of them
TRACE_RULES: Mapping[str, RuleWords] = {
    **RULES,
    "single_sample": RuleWords(
        _("One sample"),
        _(
            "Each execution was timed once, so the order of executions with similar times is "
            "random."
        ),
        _("A trace records one run of a program; the times of another run differ."),
        _("Let the program run several steps, and compare executions of the same operator."),
    ),
    "dominant_type": replace(
        RULES["dominant_type"],
        why=_(
            "Applies when two or more executions of one type together account for at least half of "
            "the device time, and no single execution does."
        ),
    ),
    "tiny_operators": RuleWords(
        _("Many tiny operators"),
        _(
            "%(count)s executions take less than 10 µs each, and together account for %(share)s "
            "of device time: mostly the overhead of kernel launches."
        ),
        _("Applies when at least 100 executions below 10 µs account for 30 %% of device time."),
        _(
            "Compile the step with megengine.jit.trace, so that Python does not dispatch each "
            "operator, or use fewer, larger operators, for example with a larger batch."
        ),
    ),
    "copies": RuleWords(
        _("Copies"),
        ngettext_lazy(
            "%(count)s copy between devices accounts for %(share)s of device time.",
            "%(count)s copies between devices account for %(share)s of device time.",
            "count",
        ),
        _(
            "Applies when copies between devices account for at least 5 %% of device time, not "
            "counting the time in which one device waits for another."
        ),
        _("Keep tensors on one device, or copy fewer and larger ones, in the smallest data type."),
    ),
    "waiting": RuleWords(
        _("Python waits for values"),
        ngettext_lazy(
            "Python waited %(count)s time for a value from the device, which took %(share)s of "
            "the recorded time.",
            "Python waited %(count)s times for values from the device, which took %(share)s of "
            "the recorded time.",
            "count",
        ),
        _(
            "Applies when waiting accounts for at least 10 %% of the recorded time. numpy(), "
            "item() and unknown shapes wait until the device has finished; meanwhile Python "
            "dispatches no operators, and the device is idle afterwards."
        ),
        _(
            "Read values less often, for example the loss every few steps, and only after the "
            "step has been dispatched. “Python waits for the device” lists each place."
        ),
    ),
    "training": RuleWords(
        _("Training"),
        _("This is a training step, so options that optimize inference do not apply."),
        _("Applies when operators of gradients or backward passes were executed."),
        _("The phases show the times of forward, backward and the optimizer."),
    ),
}
