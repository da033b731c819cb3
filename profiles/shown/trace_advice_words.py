"""What rules say of a trace, where a measuring plan means nothing: a program ran once."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from profiles.shown.advice_words import RULES, RuleWords

#: in place of those of `RULES`
TRACE_RULES: Mapping[str, RuleWords] = {
    **RULES,
    "single_sample": RuleWords(
        _("One sample"),
        _("Each execution was timed once, so the order of similar ones is chance."),
        _("A trace holds what one run of a program did; another run takes other times."),
        _("Let the program run several steps, and compare executions of the same operator."),
    ),
}
