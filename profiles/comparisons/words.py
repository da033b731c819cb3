"""The reader's words for a comparison: what a row became, how sure a difference is."""

import math
from typing import Any

from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from profiles.analysis.comparison.classify import Reason, Status
from profiles.analysis.comparison.confidence import VERDICTS, Judgement
from profiles.analysis.comparison.question import Sort
from profiles.analysis.comparison.waterfall import By
from profiles.analysis.durations import ABSENT, TimeUnit, duration
from profiles.models import Profile

MINUS = "\N{MINUS SIGN}"

#: status -> (word, what it means)
STATUS_WORDS: dict[Status, tuple[Any, Any]] = {
    "same": (
        pgettext_lazy("operator", "same operator"),
        _("Same type, parameters, shapes and data types, no clear difference of device time."),
    ),
    "changed": (
        pgettext_lazy("operator", "changed"),
        _(
            "The same operator with other parameters, shapes, data types or a clearly other device "
            "time."
        ),
    ),
    "fused": (
        pgettext_lazy("operator", "fused"),
        _("Several operators became fewer, which do the same part of the graph."),
    ),
    "split": (
        pgettext_lazy("operator", "split"),
        _("One operator or a few became more, which do the same part of the graph."),
    ),
    "new": (pgettext_lazy("operator", "new"), _("The baseline has nothing that corresponds.")),
    "gone": (
        pgettext_lazy("operator", "gone"),
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
    "slower": _("what got slower first"),
    "faster": _("what got faster first"),
    "baseline": _("slowest in the baseline first"),
    "order": _("order of execution"),
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
    "order": _("by the order of execution"),
    "region": _("by what goes into the group and comes out of it"),
}


def letter(number: int) -> str:
    """What a profile is called in a comparison: A is the baseline."""
    return "ABCDEFGH"[number]


def title_of(profile: Profile) -> str:
    """The name of the model, or of the opened file."""
    if profile.attempt is not None:
        return profile.attempt.task.model_name
    return profile.upload.name if profile.upload else ""


def origin_of(profile: Profile) -> str:
    """Device and version, or that it was opened from a file."""
    if profile.attempt is not None:
        task = profile.attempt.task
        return f"{task.worker.name} · MegEngine {task.runtime_version}"
    return gettext("opened from a file")


def signed(value_s: float, unit: TimeUnit | None = None) -> str:
    """A difference of times with its sign: `+1.250 ms`, `−12.00 µs`, `0 s`."""
    if not math.isfinite(value_s):
        return ABSENT
    value_s = round(value_s, 12)  # differences of whole microseconds are no whole ones
    sign = "+" if value_s > 0 else MINUS if value_s < 0 else ""
    return sign + duration(abs(value_s), unit)


def signed_percent(ratio: float) -> str:
    """A relative difference: `+12 %`, `−3.4 %`; more than tenfold as a factor, `×25`."""
    if not math.isfinite(ratio):
        return ABSENT
    if ratio >= 9.995:
        return f"×{ratio + 1:.0f}"
    amount = _plain_percent(ratio)
    sign = "" if amount == "0.0" else "+" if ratio > 0 else MINUS
    return f"{sign}{amount} %"


def _plain_percent(ratio: float) -> str:
    percent = abs(ratio) * 100
    return f"{percent:.1f}" if percent < 9.95 else f"{percent:.0f}"


def verdict_words(
    judgement: Judgement, row: int, *, base_s: float, delta_s: float
) -> dict[str, str]:
    """{"code", "word", "interval", "tone"}: how sure a difference is.

    code: of `confidence.VERDICTS`; tone: faster, slower or nothing, for the colour
    base_s: what the difference is put in relation to, s
    """
    code = VERDICTS[int(judgement.verdict[row])]
    low_s, high_s = float(judgement.low_s[row]), float(judgement.high_s[row])
    tone = ("slower" if delta_s > 0 else "faster") if code in ("clear", "likely") else ""
    return {
        "code": code,
        "word": _verdict_word(code, base_s, delta_s),
        "interval": _interval(low_s, high_s, base_s),
        "tone": tone,
    }


def _verdict_word(code: str, base_s: float, delta_s: float) -> str:
    if code in ("clear", "likely"):
        amount = _amount(base_s, delta_s)
        if code == "clear":
            text = (
                gettext("slower by %(amount)s") if delta_s > 0 else gettext("faster by %(amount)s")
            )
        elif delta_s > 0:
            text = gettext("perhaps slower by %(amount)s")
        else:
            text = gettext("perhaps faster by %(amount)s")
        return text % {"amount": amount}
    words = {
        "none": gettext("no clear difference"),
        "few": gettext("too few samples"),
        "single": gettext("single sample"),
    }
    return words.get(code, "")


def _amount(base_s: float, delta_s: float) -> str:
    """`12 %` of the baseline's time; of less than a microsecond the difference itself."""
    if not base_s >= 1e-6 or not math.isfinite(delta_s):
        return duration(abs(delta_s))
    ratio = delta_s / base_s
    if ratio >= 9.995:
        return gettext("a factor of %(factor)s") % {"factor": f"{ratio + 1:.0f}"}
    return f"{_plain_percent(ratio)} %"


def _interval(low_s: float, high_s: float, base_s: float) -> str:
    if not (math.isfinite(low_s) and math.isfinite(high_s)):
        return ""
    if base_s >= 1e-6:
        return f"{signed_percent(low_s / base_s)} … {signed_percent(high_s / base_s)}"
    return f"{signed(low_s)} … {signed(high_s)}"
