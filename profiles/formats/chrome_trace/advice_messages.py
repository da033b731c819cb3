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
        _("Each execution was timed once, so the order of similar ones is chance."),
        _("A trace records one run of a program; the times of another run differ."),
        _("Let the program run several steps, and compare executions of the same operator."),
    ),
    "dominant_type": replace(
        RULES["dominant_type"],
        why=_(
            "Applies when at least two executions of one type account for half of device time "
            "together, and none of them does so alone."
        ),
    ),
    "tiny_operators": RuleWords(
        _("Many tiny operators"),
        _(
            "%(count)s executions last less than 10 µs each, and account for %(share)s of device "
            "time together: mostly kernel launches."
        ),
        _("Applies when at least 100 executions below 10 µs account for 30 %% of device time."),
        _(
            "Compile the step with megengine.jit.trace, so that Python does not issue operator by "
            "operator, or compute more in each one, such as a larger batch."
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
        _("Keep tensors on one device, or copy fewer and larger ones, in the smallest dtype."),
    ),
    "waiting": RuleWords(
        _("Python waits for values"),
        ngettext_lazy(
            "Python waited for a value of the device %(count)s time, for %(share)s of what was "
            "recorded.",
            "Python waited for values of the device %(count)s times, for %(share)s of what was "
            "recorded.",
            "count",
        ),
        _(
            "Applies when waiting accounts for at least 10 %% of the recorded time. numpy(), "
            "item() and unknown shapes wait until the device has caught up; meanwhile Python "
            "issues no operators, and the device is idle afterwards."
        ),
        _(
            "Read values less often, such as the loss every some steps, and after the step has "
            "been issued. “Python waits for the device” names each place."
        ),
    ),
    "training": RuleWords(
        _("Training"),
        _("This is a step of training, so options that optimize inference do not apply."),
        _("Applies when operators of gradients or backward passes have run."),
        _("The phases show the times of forward, backward and the optimizer."),
    ),
}
