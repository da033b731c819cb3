"""User-facing messages for comparisons: status of rows, verdicts, formatted differences."""

import math
from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from agent.statistics.unpaired import Judgement, Verdict
from profiles.analysis.durations import ABSENT, TimeUnit, in_unit, unit_of
from profiles.analysis.numbers import amount
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
            "Several operators were replaced by fewer operators that compute the same part of the "
            "graph; or a BatchNorm was folded into the weights of a convolution."
        ),
    ),
    "split": (
        pgettext_lazy("operator", "split"),
        _(
            "One or a few operators were replaced by a larger number of operators that compute the "
            "same part of the graph; or a BatchNorm that was folded before is present."
        ),
    ),
    "new": (pgettext_lazy("operator", "new"), _("The baseline has no corresponding operator.")),
    "gone": (
        pgettext_lazy("operator", "removed"),
        _("Only the baseline has this operator."),
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
    if task := profile.task:
        return f"{task.worker.name} · MegEngine {task.runtime_version}"
    return gettext("imported from a file")


def signed(value_s: float, unit: TimeUnit) -> str:
    """Return a difference of times as a number of a unit with its sign: `+1.25`, `−12`, `0`, `< 1`.

    Empty for an unknown one.
    """
    value_s = round(value_s, 12)  # float differences of whole microseconds are not exactly whole
    text = in_unit(abs(value_s), unit)
    if not value_s or not text or text.startswith("<"):
        return text
    return ("+" if value_s > 0 else MINUS) + text


def signed_amount(size_bytes: float) -> str:
    """Return a difference of sizes with sign and unit: `+12.5 MiB`."""
    sign = "+" if size_bytes > 0 else MINUS if size_bytes < 0 else ""
    return sign + amount(abs(size_bytes))


def signed_time(value_s: float, unit: TimeUnit | None = None) -> str:
    """Return a difference of times with sign and unit: `+1.25 ms`; `–` if it is unknown."""
    unit = unit or unit_of([value_s])
    text = signed(value_s, unit)
    return f"{text} {unit.name}" if text else ABSENT


def change_texts(change: float, low: float, high: float) -> tuple[str, str, str]:
    """Return a relative difference and its bounds as numbers of per cent: `−7.1`, `−12.9`, `+3.0`.

    Bounds are rounded away from the estimate, which therefore is inside them as text, too. Unknown
    numbers are empty.
    """
    if not math.isfinite(change):
        return "", "", ""
    estimate = _percent(change)
    if not (math.isfinite(low) and math.isfinite(high)):
        return _signed_number(estimate), "", ""
    step = _step(estimate)
    lower = min(_percent(low, math.floor), estimate - step)
    upper = max(_percent(high, math.ceil), estimate + step)
    return _signed_number(estimate), _signed_number(lower), _signed_number(upper)


def _percent(ratio: float, rounding: Callable[[float], int] = round) -> float:
    """Return a ratio as per cent with three significant digits and at most one decimal.

    Only -1 itself, and bounds, are -100 %.
    """
    percent = 100 * ratio
    step = _step(percent)
    rounded = rounding(percent / step) * step
    return -99.9 if rounded <= -100 < percent and rounding is round else rounded


def _step(percent: float) -> float:
    """Return the unit of the last digit that is shown."""
    size = abs(percent)
    return 10.0 ** (math.floor(math.log10(size)) - 2) if size >= 99.95 else 0.1


def _signed_number(percent: float) -> str:
    """Return `+12.3`, `−3.4`, `+762` or `0.0`."""
    text = f"{abs(percent):.{1 if abs(percent) < 99.95 else 0}f}"
    return text if text == "0.0" else ("+" if percent > 0 else MINUS) + text


def signed_percent(ratio: float) -> str:
    """Format a relative difference: `+12.0 %`, `−3.4 %`."""
    return f"{_signed_number(_percent(ratio))} %"


def plain_percent(ratio: float) -> str:
    """Format the absolute value of a relative difference: `3.4 %`, `12.0 %`."""
    return f"{_signed_number(_percent(abs(ratio))).lstrip('+')} %"


def verdict_words(judgement: Judgement, row: int, *, has_ratio: bool = True) -> dict[str, Any]:
    """Return a verdict with the figures that it is about.

    has_ratio: whether the displayed times have a ratio; without it there are no figures
    code: of `unpaired.VERDICTS`
    word: the verdict in the user's language
    change: the estimate in per cent, `−7.1`; empty if there is none
    low, high: the bounds of its interval in per cent; empty if there is none
    interval: `−12.9 … +3.0`, or empty
    is_verdict: whether there is a verdict, and not the reason why there is none
    tone: faster, slower or empty, for the colour
    """
    code = judgement.code(row)
    figures = (judgement.change, judgement.low, judgement.high)
    numbers = (float(figure[row]) if has_ratio else math.nan for figure in figures)
    change, low, high = change_texts(*numbers)
    return {
        "code": code,
        "word": verdict_word(code),
        "change": change,
        "low": low,
        "high": high,
        "interval": f"{low} … {high}" if low else "",
        "is_verdict": code in ("none", "faster", "slower"),
        "tone": code if code in ("faster", "slower") else "",
    }


def verdict_word(code: Verdict) -> str:
    """Return the message of a verdict; empty if one side has no times."""
    words = {
        "disturbed": str(DISTURBED_RUN["verdict"]),
        "single": gettext("not enough evidence: one pass"),
        "few": gettext("not enough evidence: too few passes"),
        "unknown": gettext("not enough evidence: variance unknown"),
        "none": gettext("not enough evidence"),
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
            "the run-to-run variance of the device is unknown; leave the device idle for two "
            "minutes after its set-up, or run the same task there five times with the plan "
            "“standard”"
        ),
        "none": gettext(
            "equal runs or passes differ by just as much; a less busy device or more passes (the "
            "plan “thorough”) may show a difference, but two runs with the same files and settings "
            "are unlikely to differ"
        ),
    }
    return advice.get(code, "")
