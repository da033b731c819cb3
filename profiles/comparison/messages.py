"""User-facing messages for comparisons: status of rows, verdicts, formatted differences."""

import math
from typing import Any

from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from profiles.analysis.durations import ABSENT, TimeUnit, duration
from profiles.comparison.confidence import Judgement, Verdict
from profiles.comparison.question import Sort
from profiles.comparison.rows import Reason, Status
from profiles.comparison.waterfall import By
from profiles.models import Profile
from profiles.presenters.attempt_messages import DISTURBED_RUN

MINUS = "\N{MINUS SIGN}"

#: status -> (title, description)
STATUS_WORDS: dict[Status, tuple[Any, Any]] = {
    "same": (
        pgettext_lazy("operator", "same operator"),
        _(
            "Same type, parameters, shapes and data types, no significant difference of device "
            "time."
        ),
    ),
    "changed": (
        pgettext_lazy("operator", "changed"),
        _(
            "The same operator with other parameters, shapes or data types, or a significantly "
            "different device time."
        ),
    ),
    "fused": (
        pgettext_lazy("operator", "fused"),
        _(
            "Several operators were replaced by fewer that compute the same part of the graph; "
            "or a BatchNorm was folded into the weights of a convolution."
        ),
    ),
    "split": (
        pgettext_lazy("operator", "split"),
        _(
            "One or a few operators were replaced by more that compute the same part of the "
            "graph; or a BatchNorm is present that was folded before."
        ),
    ),
    "new": (pgettext_lazy("operator", "new"), _("The baseline has no corresponding operator.")),
    "gone": (
        pgettext_lazy("operator", "removed"),
        _("Only the baseline has it."),
    ),
}
REASON_WORDS: dict[Reason, Any] = {
    "type": _("other type"),
    "params": _("parameters"),
    "format": _("memory format"),
    "shapes": _("shapes"),
    "dtypes": _("data type"),
    "time": _("time"),
}
SORT_WORDS: dict[Sort, Any] = {
    "change": _("largest change first"),
    "slower": _("slowdowns first"),
    "faster": _("speedups first"),
    "baseline": _("slowest in the baseline first"),
    "order": _("execution order"),
    "name": _("name"),
}
BY_WORDS: dict[By, Any] = {
    "row": _("operator"),
    "type": _("type"),
    "scope": _("name scope"),
}
HOW_WORDS: dict[str, Any] = {
    "name": _("by name and shapes"),
    "value": _("by the names of its outputs"),
    "neighbours": _("by its neighbours in the graph"),
    "order": _("by execution order"),
    "region": _("by the inputs and outputs of the group"),
}


def letter(number: int) -> str:
    """Return the letter of a profile in a comparison; A is the baseline."""
    return "ABCDEFGH"[number]


def origin_of(profile: Profile) -> str:
    """Return the device and version, or a message that the profile was imported."""
    if profile.attempt is not None:
        task = profile.attempt.task
        return f"{task.worker.name} · MegEngine {task.runtime_version}"
    return gettext("imported from a file")


def signed(value_s: float, unit: TimeUnit | None = None) -> str:
    """Format a difference of times with its sign: `+1.25 ms`, `−12 µs`, `0 s`, `< 1 µs`."""
    if not math.isfinite(value_s):
        return ABSENT
    value_s = round(value_s, 12)  # float differences of whole microseconds are not exactly whole
    sign = "+" if value_s > 0 else MINUS if value_s < 0 else ""
    text = duration(abs(value_s), unit)
    return text if text.startswith("<") else sign + text


def signed_percent(ratio: float) -> str:
    """Format a relative difference: `+12 %`, `−3.4 %`; from tenfold as a factor, `×25`."""
    if not math.isfinite(ratio):
        return ABSENT
    if ratio >= 9.995:
        return f"×{ratio + 1:.0f}"
    amount = plain_percent(ratio)
    sign = "" if amount == "0.0 %" else "+" if ratio > 0 else MINUS
    return f"{sign}{amount}"


def plain_percent(ratio: float) -> str:
    """Format the absolute value of a relative difference: `3.4 %`, `12 %`."""
    percent = abs(ratio) * 100
    return f"{percent:.1f} %" if percent < 9.95 else f"{percent:.0f} %"


def verdict_words(judgement: Judgement, row: int) -> dict[str, str]:
    """Return {"code", "word", "interval", "tone"} of a verdict.

    code: of `confidence.VERDICTS`
    tone: faster, slower or empty, for the colour
    """
    code = judgement.code(row)
    return {
        "code": code,
        "word": verdict_word(code),
        "interval": _interval(float(judgement.low[row]), float(judgement.high[row])),
        "tone": code if code in ("faster", "slower") else "",
    }


def verdict_word(code: Verdict) -> str:
    """Return the message of a verdict; empty if one side has no times."""
    words = {
        "disturbed": str(DISTURBED_RUN["verdict"]),
        "single": gettext("not enough evidence: one sample"),
        "few": gettext("not enough evidence: too few passes"),
        "unknown": gettext("not enough evidence: run-to-run variance unknown"),
        "none": gettext("no clear difference"),
        "faster": gettext("faster"),
        "slower": gettext("slower"),
    }
    return words.get(code, "")


def verdict_advice(code: Verdict) -> str:
    """Return why there is no verdict and what to do about it; empty if there is one."""
    advice = {
        "disturbed": str(DISTURBED_RUN["verdict_advice"]),
        "single": gettext("a result has one sample; repeat it with the plan “standard”"),
        "few": gettext("a result has too few passes; repeat it with the plan “standard”"),
        "unknown": gettext(
            "the run-to-run variance of the device is unknown; leave it idle for two minutes "
            "after its set-up, or run the same task there five times with the plan “standard”"
        ),
        "none": gettext(
            "no clear difference, since equal runs or passes differ by the same amount; a less "
            "busy device or more passes (the plan “thorough”) may show one, but hardly between "
            "two runs with the same files and settings"
        ),
    }
    return advice.get(code, "")


def _interval(low: float, high: float) -> str:
    """Format the bounds of a ratio as percentages of the baseline."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"{signed_percent(low)} … {signed_percent(high)}"
