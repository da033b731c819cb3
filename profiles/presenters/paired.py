"""Format the result of a paired comparison for its page, the API and exports."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agent.protocol.pairs import BUDGET_S, Pairing
from profiles.analysis.durations import duration
from profiles.analysis.numbers import three_digits
from profiles.comparison.messages import MINUS, STATUS_WORDS, letter, signed_time
from profiles.comparison.paired_operators import ArmChanges, OperatorChange, explanation
from profiles.models import PairedResult
from profiles.presenters.attempt_messages import disturbance_word
from profiles.presenters.formatting import isolated, listed, microseconds
from tasks.models import Task
from tasks.options import changed_options
from webprofile.messages.notes import note_text

#: verdict -> (title, style of its badge)
VERDICTS: dict[str, tuple[Any, str]] = {
    "faster": (gettext_lazy("faster"), "good"),
    "slower": (gettext_lazy("slower"), "bad"),
    "same": (gettext_lazy("equally fast"), "plain"),
    "not_enough": (gettext_lazy("not enough pairs"), "plain"),
}
#: size of the drawing of the pairs, which is stretched to the width of the page
WIDTH, HEIGHT, _MARGIN = 1000, 160, 10
#: percentages of ratios below this have two decimals, others one
_TWO_DECIMALS = 0.09995


@dataclass(frozen=True)
class ArmView:
    """One arm as the page shows it; texts are translated.

    outputs: differences of its outputs to the baseline's: [(name, text, whether they differ)]
    """

    letter: str
    model: str
    version: str
    options: list[str]
    usual: str
    iterations: int
    is_single: bool
    outputs: list[tuple[str, str, bool]]


@dataclass(frozen=True)
class VerdictView:
    """The verdict on one arm.

    sentence: what is known; more: what would decide, empty with a verdict
    """

    letter: str
    title: str
    style: str
    sentence: str
    more: str
    smallest: str
    pairs: int


@dataclass(frozen=True)
class OperatorView:
    """An operator of an arm, compared with the baseline; texts are translated.

    row: of the baseline's table; None for an operator that only the other arm has
    rate: the false discovery rate; empty for an operator that an arm lacks
    """

    row: int | None
    name: str
    type: str
    base: str
    other: str
    difference: str
    effect: str
    interval: str
    rate: str
    differs: bool
    is_slower: bool


@dataclass(frozen=True)
class OperatorsView:
    """The operators of an arm.

    sentence: what the named ones explain, or why none is named
    named: those that make the arm slower or faster, the most important first
    rows: those of `ArmChanges`
    """

    letter: str
    title: str
    sentence: str
    named: list[OperatorView]
    rows: list[OperatorView]
    pairs: int
    tested: int


def paired_view(result: PairedResult, task: Task) -> dict[str, Any]:
    """Return the template context of a paired comparison."""
    pairing = Pairing.model_validate(task.pairing or {})
    arms = [_arm(task, number, row, pairing) for number, row in enumerate(result.arms)]
    pairs = result.pairs[: result.pairs_to_verdict]
    dropped = Counter(row["code"] for pair in pairs for row in pair["disturbances"][:1] if row)
    return {
        "arms": arms,
        "differing": [arm.letter for arm in arms if any(row[2] for row in arm.outputs)],
        "least_cosine": pairing.least_cosine,
        "verdicts": verdict_views(result.verdicts, task, result.measuring_s),
        "pairs": len(pairs),
        "used": sum(not pair["disturbances"] for pair in pairs),
        "later": len(result.pairs) - len(pairs),
        "dropped": sum(dropped.values()),
        "is_too_disturbed": 2 * sum(dropped.values()) > len(pairs)
        and any(row["verdict"] == "not_enough" for row in result.verdicts),
        "causes": listed(f"{disturbance_word(code)} ({n})" for code, n in dropped.most_common()),
        "measuring": duration(result.measuring_s),
        "margin": _percent(pairing.margin),
        "seed": result.seed,
        "operators": [
            _operators(changes, verdict)
            for changes, verdict in zip(result.operators, result.verdicts, strict=False)
        ],
        "plots": [_plot(result, row, pairing) for row in result.verdicts],
    }


def verdict_views(
    rows: Sequence[dict[str, Any]], task: Task, measuring_s: float = 0.0
) -> list[VerdictView]:
    """Return the verdicts of a paired comparison, or those so far (`Attempt.verdicts`).

    measuring_s: how long it was measured, if it has ended
    """
    pairing = Pairing.model_validate(task.pairing or {})
    return [_verdict(row, pairing, measuring_s) for row in rows]


def _arm(task: Task, number: int, row: dict[str, Any], pairing: Pairing) -> ArmView:
    models = task.arm_models
    return ArmView(
        letter=letter(number),
        model=isolated(models[number].name) if number < len(models) else "",
        version=row["runtime"],
        options=changed_options(arm_options(task, number)),
        usual=duration(row["usual_ms"] / 1000),
        iterations=row["iterations"],
        is_single=row["iterations"] == 1,
        outputs=[_output(output, pairing) for output in row["outputs"]],
    )


def arm_options(task: Task, number: int) -> dict[str, Any]:
    """Return the options of an arm; those of the baseline unless it has its own."""
    options: dict[str, Any] = task.options
    own = task.pairing["arms"][number - 1]["options"] if number and task.pairing else None
    return options if own is None else own


def differs(output: dict[str, Any], least_cosine: float) -> bool:
    """Return whether an output differs beyond the limit, or cannot be compared."""
    return output["problem"] is not None or bool(output["cosine"] < least_cosine)


def _output(output: dict[str, Any], pairing: Pairing) -> tuple[str, str, bool]:
    name = isolated(output["name"])
    if output["problem"] is not None:
        return name, note_text(output["problem"]), True
    if not output["max_abs"]:
        return name, _("equal"), False
    parts = [_("cosine similarity %(value)s") % {"value": f"{output['cosine']:.6f}"}]
    if output["sqnr_db"] is not None:
        parts.append(_("SQNR %(value)s dB") % {"value": three_digits(output["sqnr_db"])})
    parts.append(_("largest absolute difference %(value)s") % {"value": f"{output['max_abs']:.3g}"})
    if output["max_rel"] is not None:
        parts.append(_("relative %(value)s") % {"value": f"{output['max_rel']:.3g}"})
    return name, listed(parts), differs(output, pairing.least_cosine)


def _verdict(row: dict[str, Any], pairing: Pairing, measuring_s: float) -> VerdictView:
    title, style = VERDICTS[row["verdict"]]
    low, high = row["low"], row["high"]
    interval = "" if low is None or high is None else _interval(low, high)
    return VerdictView(
        letter=letter(row["arm"]),
        title=str(title),
        style=style,
        sentence=_sentence(row, interval, pairing),
        more=_more(row, measuring_s) if row["verdict"] == "not_enough" else "",
        smallest="" if row["smallest"] is None else _percent(row["smallest"]),
        pairs=row["pairs"],
    )


def _sentence(row: dict[str, Any], interval: str, pairing: Pairing) -> str:
    values = {"arm": letter(row["arm"]), "interval": interval, "margin": _percent(pairing.margin)}
    if row["effect"] is None:
        return _("%(arm)s and A: too few undisturbed pairs for an estimate.") % values
    if row["verdict"] == "same":
        return (
            _("%(arm)s is as fast as A, within ±%(margin)s (95 %% interval %(interval)s).") % values
        )
    values["effect"] = _percent(abs(row["effect"]))
    if row["verdict"] == "not_enough":
        values["effect"] = _signed_percent(row["effect"])
        if not interval:
            return _("%(arm)s: iteration time %(effect)s compared with A so far.") % values
        return (
            _(
                "%(arm)s: iteration time %(effect)s compared with A so far (95 %% interval "
                "%(interval)s)."
            )
            % values
        )
    if row["verdict"] == "faster":
        return _("%(arm)s is %(effect)s faster than A (95 %% interval %(interval)s).") % values
    return _("%(arm)s is %(effect)s slower than A (95 %% interval %(interval)s).") % values


def _operators(changes: ArmChanges, verdict: dict[str, Any]) -> OperatorsView:
    arm = letter(changes["arm"])
    named, share = explanation(changes, verdict["verdict"], verdict["effect"])
    titles = {
        "slower": _("What made %(arm)s slower"),
        "faster": _("What made %(arm)s faster"),
    }
    title = titles.get(verdict["verdict"], _("Operators of %(arm)s that differ from A"))
    return OperatorsView(
        letter=arm,
        title=title % {"arm": arm},
        sentence=_explained(changes, len(named), share),
        named=list(map(_operator, named)),
        rows=list(map(_operator, changes["operators"])),
        pairs=changes["pairs"],
        tested=changes["tested"],
    )


def _explained(changes: ArmChanges, named: int, share: float | None) -> str:
    if not named:
        if any(row["differs"] for row in changes["operators"]):
            return _("The operators that differ do not explain the verdict: see the table.")
        pairs = ngettext(
            "%(pairs)s pair with profiled turns shows no operator whose time differs.",
            "%(pairs)s pairs with profiled turns show no operator whose time differs.",
            changes["pairs"],
        )
        return pairs % {"pairs": changes["pairs"]}
    if share is None:
        return ""
    text = ngettext(
        "This operator explains %(share)s of the difference in iteration time.",
        "These operators explain %(share)s of the difference in iteration time.",
        named,
    )
    return text % {"share": f"{100 * share:.0f} %"}


def _operator(row: OperatorChange) -> OperatorView:
    low, high = row["low"], row["high"]
    return OperatorView(
        row=row["rows"][0] if row["rows"] else None,
        name=isolated(row["name"]),
        type=isolated(row["type"]),
        base=microseconds(row["base_us"]),
        other=microseconds(row["other_us"]),
        difference=signed_time(row["delta_us"] / 1e6),
        effect=str(STATUS_WORDS[row["status"]][0])
        if row["effect"] is None
        else _signed_percent(row["effect"]),
        interval="" if low is None or high is None else _interval(low, high),
        rate="" if row["q"] is None else _rate(row["q"]),
        differs=row["differs"],
        is_slower=row["delta_us"] > 0,
    )


def _rate(rate: float) -> str:
    return "< 0.001" if rate < 0.001 else f"{rate:.3f}"


def _more(row: dict[str, Any], measuring_s: float) -> str:
    if row["effect"] is None:  # too few pairs to tell how many more are needed
        return ""
    if row["more_s"] is None:
        return _("More pairs would probably not lead to a verdict.")
    # a new comparison starts over
    if measuring_s + row["more_s"] > BUDGET_S[1]:
        text = _(
            "A verdict would need more than the longest measuring time (%(minutes)s min): use a "
            "larger margin or a quieter device."
        )
        return text % {"minutes": BUDGET_S[1] // 60}
    seconds = max(10 * math.ceil(row["more_s"] / 10), 10)
    if seconds < 120:
        return _("A verdict probably needs about %(seconds)s s more.") % {"seconds": seconds}
    text = ngettext(
        "A verdict probably needs about %(minutes)s min more.",
        "A verdict probably needs about %(minutes)s min more.",
        math.ceil(seconds / 60),
    )
    return text % {"minutes": math.ceil(seconds / 60)}


def _plot(result: PairedResult, verdict: dict[str, Any], pairing: Pairing) -> dict[str, Any]:
    """Return the drawing of the pairs of an arm until the verdict: a dot for each, in order."""
    place = verdict["arm"] - 1
    pairs = result.pairs[: result.pairs_to_verdict]
    points = [(pair["ratios"][place], bool(pair["disturbances"])) for pair in pairs]
    known = [ratio for ratio, _is_dropped in points if ratio is not None]
    margin = math.log1p(pairing.margin)
    marks = sorted([margin, *(abs(ratio) for ratio in known)])
    # a few pairs that a neighbour disturbed must not flatten all others
    reach = 1.2 * max(marks[max(math.ceil(0.9 * len(marks)) - 1, 0)], margin)
    step = (WIDTH - 2 * _MARGIN) / max(len(points), 1)

    def y_of(ratio: float) -> float:
        part = max(-1.0, min(ratio / reach, 1.0))
        return float(round(HEIGHT / 2 - part * (HEIGHT / 2 - _MARGIN), 1))

    low, high = verdict["low"], verdict["high"]
    band = None if low is None or high is None else (y_of(_log(high)), y_of(_log(low)))
    return {
        "letter": letter(verdict["arm"]),
        "width": WIDTH,
        "height": HEIGHT,
        "zero": HEIGHT / 2,
        "margin_y": y_of(margin),
        "margin_height": round(2 * (HEIGHT / 2 - y_of(margin)), 1),
        "band_y": band[0] if band else 0,
        "band_height": round(max(band[1] - band[0], 1), 1) if band else 0,
        "top": _signed_percent(math.expm1(reach)),
        "bottom": _signed_percent(math.expm1(-reach)),
        "dots": [
            {
                "number": number + 1,
                "x": round(_MARGIN + (number + 0.5) * step, 1),
                "y": y_of(ratio),
                "is_dropped": is_dropped,
                "text": _signed_percent(math.expm1(ratio)),
            }
            for number, (ratio, is_dropped) in enumerate(points)
            if ratio is not None
        ],
    }


def _log(effect: float) -> float:
    return math.log1p(max(effect, -0.999))


def _interval(low: float, high: float) -> str:
    """Format an interval, its bounds rounded away from the estimate."""
    texts = {
        "low": _signed_percent(_outward(low, math.floor)),
        "high": _signed_percent(_outward(high, math.ceil)),
    }
    return _("%(low)s to %(high)s") % texts


def _outward(bound: float, rounded: Callable[[float], int]) -> float:
    scale = 1e4 if abs(bound) < _TWO_DECIMALS else 1e3
    return rounded(round(bound * scale, 6)) / scale


def _signed_percent(ratio: float) -> str:
    """Format a ratio as `+1.25 %`, with two decimals below 10 %."""
    text = _percent(abs(ratio))
    return text if not float(text.split()[0]) else ("+" if ratio > 0 else MINUS) + text


def _percent(ratio: float) -> str:
    decimals = 2 if ratio < _TWO_DECIMALS else 1
    return f"{100 * ratio:.{decimals}f} %"
