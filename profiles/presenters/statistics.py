"""Format statistics over passes for the page: figures, histogram, files left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agent.protocol.artifacts import TRACE_NAMES, profile_name
from agent.protocol.measurement import WAITED_PERCENT
from profiles.analysis.advice.context import RuleContext
from profiles.analysis.advice.finding import RunFacts
from profiles.analysis.coverage import Coverage, coverage
from profiles.analysis.data import LeftOut, ProfileData
from profiles.analysis.durations import TimeUnit, duration, unit_of
from profiles.analysis.numbers import share
from profiles.analysis.stability import (
    Noise,
    Stability,
    TotalPosition,
    noise_of,
    place_of_total,
    stability,
    totals_of_passes,
)
from profiles.analysis.totals import TimeFaults, plausible, time_faults
from profiles.exports.originals import are_of_trace, originals_of, own_names
from profiles.formats.chrome_trace.presenter import damage_notes
from profiles.formats.chrome_trace.summary import TraceSummary
from profiles.formats.columns import SIDES, Side
from profiles.models import AttemptMeasurement, Profile
from profiles.presenters.attempt_messages import DISTURBED_RUN
from profiles.presenters.explanations import EXPLANATIONS
from profiles.presenters.formatting import isolated, listed

#: size of the drawing of the histogram, which is stretched to the width of the page
WIDTH, HEIGHT = 1000, 100

#: reasons why the time that is not attributed to operators is not shown
Withheld = Literal["disturbed", "overlap", "busy"]


@dataclass(frozen=True)
class SideStatistics:
    """Statistics of one side of a merged profile; times in s, None if nothing was timed.

    total_s: sum of the operators' medians; None also if it is not finite
    faults: operators with invalid times
    lowest_s, highest_s: range of `passes_s`
    passes_s: total of each pass
    place: position of `total_s` relative to them
    """

    side: Side
    total_s: float | None
    passes_s: tuple[float | None, ...]
    lowest_s: float | None
    highest_s: float | None
    place: TotalPosition
    stability: Stability
    faults: TimeFaults
    unstable_percent: str
    cv_percent: str


def statistics_view(
    data: ProfileData | None, profile: Profile | None, measurement: AttemptMeasurement | None
) -> dict[str, Any]:
    """Return the context of `_statistics.html`.

    data, profile: None without profiled passes
    measurement: None without a measurement
    """
    names = own_names(profile)
    left_out = [_left_out(file, names, data, profile) for file in data.left_out] if data else []
    if data is not None and not data.has_operators:
        data = None
    sides = [side_statistics(data, side) for side in SIDES] if data else []
    covered = coverage(data, measurement.iterations_s) if data and measurement else None
    reason = withheld(data, covered, measurement) if data and covered else None
    return {
        "explain": EXPLANATIONS,
        "merged": len(data.passes) if data else 0,
        "is_one_sample": data is not None and is_one_sample(data, profile),
        "left_out": left_out,
        "other_lead": _other_lead(data, names) if data else "",
        "sides": sides,
        "damage": damage_of_trace(data, profile) if data else [],
        "totals": {statistics.side: total_words(statistics) for statistics in sides},
        "coverage": covered,
        "withheld": reason,
        "coverage_words": coverage_words(covered, reason) if covered else {},
        "overhead_percent": overhead_percent(measurement),
        "overhead_is_noise": has_noisy_overhead(measurement),
        "histogram": _histogram(measurement) if measurement else None,
        "row": measurement,
        "noise": _noise(measurement, sides),
    }


def _noise(measurement: AttemptMeasurement | None, sides: Sequence[SideStatistics]) -> Noise | None:
    """Return the noise of a run as the list of tasks shows it, or of the passes of an import."""
    if measurement is not None:
        return noise_of(measurement.device_cv, is_disturbed=bool(measurement.disturbances))
    device_cv = next((each.stability.total_cv for each in sides if each.side == "device"), None)
    return noise_of(device_cv, is_disturbed=False)


def is_one_sample(data: ProfileData, profile: Profile | None) -> bool:
    """Whether each operator was timed once; a trace may hold several executions of one operator."""
    return len(data.passes) == 1 and not _are_of_trace(data, profile)


def _are_of_trace(data: ProfileData, profile: Profile | None) -> bool:
    return "trace" in data.summaries and (profile is None or are_of_trace(profile, data.passes))


def total_words(statistics: SideStatistics) -> dict[str, Any]:
    """Return the total of one side as the head of a page shows it.

    value: the total with its unit
    about: explanation of the total
    note: for several passes, that it is a sum of medians, and the range of the passes; otherwise
        empty
    beyond: why the value lies outside of that range, otherwise empty
    faults: sentences on operators with invalid times
    row: the `statistics`
    """
    unit = unit_of([statistics.total_s, statistics.lowest_s, statistics.highest_s])
    about = {
        "device": _(
            "Sum of operator self times on the device; with several passes, sum of the medians. "
            "Overlapping operators are counted in full."
        ),
        "host": _(
            "Sum of operator self times on the host (dispatch); with several passes, sum of the "
            "medians."
        ),
    }
    note, beyond = _MEDIANS[statistics.place]
    has_range = len(statistics.passes_s) > 1 and statistics.lowest_s is not None
    limits = {
        "low": duration(statistics.lowest_s, unit),
        "high": duration(statistics.highest_s, unit),
    }
    return {
        "value": duration(statistics.total_s, unit),
        "about": about[statistics.side],
        "note": str(note) % limits if has_range else "",
        "beyond": str(beyond) if has_range else "",
        "faults": fault_notes(statistics.faults),
        "row": statistics,
    }


def fault_notes(faults: TimeFaults) -> list[str]:
    """Return sentences on operators with invalid times, and what that means for the total."""
    notes = []
    if number := faults.not_finite:
        notes.append(
            ngettext(
                "%(number)s operator has no valid time (NaN, infinite or too large in the "
                "file), so there is no total.",
                "%(number)s operators have no valid time (NaN, infinite or too large in the "
                "file), so there is no total.",
                number,
            )
            % {"number": number}
        )
    if number := faults.negative:
        notes.append(
            ngettext(
                "%(number)s operator ends before it starts. Its time is negative, and the total "
                "includes it.",
                "%(number)s operators end before they start. Their times are negative, and the "
                "total includes them.",
                number,
            )
            % {"number": number}
        )
    return notes


def damage_of_trace(data: ProfileData, profile: Profile | None) -> list[str]:
    """Return notes on damage of the trace whose operators the totals add up; usually empty."""
    if not _are_of_trace(data, profile):
        return []
    summary = data.summary("trace", TraceSummary)
    return damage_notes(summary) if summary else []


#: texts by the place of the sum of medians: explanation of the sum, and why it lies there
_MEDIANS: dict[TotalPosition, tuple[Any, Any]] = {
    "among": (gettext_lazy("passes %(low)s to %(high)s"), ""),
    "below": (
        gettext_lazy("below every pass (%(low)s to %(high)s)"),
        gettext_lazy(
            "Different operators are slow in different passes, so the sum of their medians can be "
            "below the total of every single pass."
        ),
    ),
    "above": (
        gettext_lazy("above every pass (%(low)s to %(high)s)"),
        gettext_lazy(
            "Different operators are fast in different passes, so the sum of their medians can "
            "exceed the total of every single pass."
        ),
    ),
}


def coverage_words(covered: Coverage, reason: Withheld | None) -> dict[str, Any]:
    """Return coverage, and the time that is not attributed to operators, as text.

    percent, outside: medians over the passes
    passes, outside_passes: their ranges, empty for one pass
    withheld: why `outside` is empty
    overlap: why a share is above 100 per cent, otherwise empty
    """
    times_s = (covered.outside_s, covered.lowest_outside_s, covered.highest_outside_s)
    unit = unit_of(times_s)
    outside, lowest, highest = (duration(time_s, unit) for time_s in times_s)
    shares = {
        "low": share(covered.lowest_share, absent=""),
        "high": share(covered.highest_share, absent=""),
    }
    has_range = len(covered.passes) > 1
    return {
        "percent": share(covered.share, absent=""),
        "passes": _("passes %(low)s to %(high)s") % shares if has_range else "",
        "outside": "" if reason else outside,
        "outside_passes": _("passes %(low)s to %(high)s") % {"low": lowest, "high": highest}
        if has_range and not reason
        else "",
        "withheld": _WITHHELD[reason] if reason else "",
        "overlap": _OVERLAP if covered.highest_share > 1 else "",
    }


_WITHHELD = {
    "disturbed": DISTURBED_RUN["withheld"],
    "overlap": gettext_lazy("Not shown: operators overlap, so their times cannot be subtracted."),
    "busy": gettext_lazy(
        "Not shown: the device runs operators nearly all the time, so the rest of an iteration "
        "is within noise."
    ),
}
_OVERLAP = gettext_lazy(
    "Above 100 percent: operators overlap, so their times add up to more than the iteration."
)


def withheld(
    data: ProfileData, covered: Coverage, measurement: AttemptMeasurement | None
) -> Withheld | None:
    """Return why the time that is not attributed to operators is not shown; None if it is shown."""
    if measurement is not None and measurement.disturbances:
        return "disturbed"
    if covered.lowest_outside_s < 0:
        return "overlap"
    return "busy" if RuleContext(data, RunFacts()).device.is_busy else None


def latency_words(measurement: AttemptMeasurement) -> dict[str, str]:
    """Return sentences on the clean passes; empty where there is nothing to say.

    steady: from which iteration on they run at a steady speed
    brief: the same in a few words, empty if it is from the first one
    modes: several speeds
    interval: the 95 % interval of the median, or why it is unknown
    waits: how long threads waited for a core in iterations that the median leaves out
    """
    state, modes, interval = measurement.steady_state, measurement.modes, measurement.interval
    if measurement.median_ms is None:
        return {"steady": "", "brief": "", "modes": "", "interval": "", "waits": ""}
    unit = unit_of([time_ms / 1000 for time_ms in (measurement.median_ms, measurement.max_ms or 0)])
    words = _steady_words(state, unit) if state else ("", "")
    speeds = [
        f"{duration(mode['median_ms'] / 1000, unit)} ({round(100 * mode['share'])} %)"
        for mode in modes
    ]
    return {
        "steady": words[0],
        "brief": words[1],
        "modes": ngettext("%(number)s mode: %(modes)s", "%(number)s modes: %(modes)s", len(modes))
        % {"number": len(modes), "modes": listed(speeds)}
        if len(modes) > 1
        else "",
        "interval": ngettext(
            "%(low)s to %(high)s, from %(number)s process",
            "%(low)s to %(high)s, from %(number)s processes",
            interval["processes"],
        )
        % {
            "low": duration(interval["low_ms"] / 1000, unit),
            "high": duration(interval["high_ms"] / 1000, unit),
            "number": interval["processes"],
        }
        if interval
        else _(
            "unknown: the latency passes are too few to tell how much the times of processes differ"
        )
        if measurement.derived_version
        else "",
        "waits": _waits_words(measurement),
    }


def _waits_words(measurement: AttemptMeasurement) -> str:
    """Return what the waiting of the slower iterations affects; empty if they hardly waited.

    A pass in which the faster iterations waited, too, is disturbed, which says more.
    """
    shares = [
        row["waited_in_all"]
        for row in measurement.passes
        if row["kind"] == "clean"
        and row.get("used", True)
        and not row.get("disturbed_by")
        and row.get("waited_in_all") is not None
    ]
    most = max(shares, default=0.0)
    if 100 * most <= WAITED_PERCENT:
        return ""
    return _(
        "for up to %(share)s of the time of a pass, mostly in its slower iterations; this "
        "increases the mean, p90, p99 and the maximum, but not the median"
    ) % {"share": share(most)}


def _steady_words(state: dict[str, Any], unit: TimeUnit) -> tuple[str, str]:
    if not state["is_steady"]:
        return _("never steady: the speed changes during the pass"), _("never steady")
    if not (start := state["start"]):
        return _("steady from the first iteration"), ""
    brief = ngettext(
        "steady after %(number)s iteration", "steady after %(number)s iterations", start
    ) % {"number": start}
    text = _("%(steady)s, with a median of %(median)s from then on") % {
        "steady": brief,
        "median": duration(state["median_ms"] / 1000, unit),
    }
    return text, brief


def overhead_percent(measurement: AttemptMeasurement | None) -> str:
    """Return the overhead of profiling as text; empty if it is unknown or negative.

    The overhead cannot be negative, so a negative figure is noise of the measurement.
    """
    if measurement is None or has_noisy_overhead(measurement):
        return ""
    return share(measurement.overhead, absent="")


def has_noisy_overhead(measurement: AttemptMeasurement | None) -> bool:
    """Whether iterations with profiling were measured to be faster than those without."""
    return measurement is not None and measurement.overhead is not None and measurement.overhead < 0


def side_statistics(data: ProfileData, side: Side) -> SideStatistics:
    """Compute the statistics of one side."""
    times = data.columns.times(side)
    passes_s = totals_of_passes(data, side)
    known = [time_s for time_s in passes_s if time_s is not None]
    total_s = plausible(times.total_s())
    steady = stability(data, side)
    return SideStatistics(
        side=side,
        total_s=total_s,
        passes_s=tuple(passes_s),
        lowest_s=min(known, default=None),
        highest_s=max(known, default=None),
        place=place_of_total(total_s, known),
        stability=steady,
        faults=time_faults(times),
        unstable_percent=share(steady.share, absent=""),
        cv_percent=share(steady.total_cv, absent=""),
    )


def _other_lead(data: ProfileData, names: dict[str, str]) -> str:
    """Return the file whose graph is shown, if that is not the first one."""
    lead = data.passes[0]
    return "" if lead in (profile_name(1), *TRACE_NAMES) else names.get(lead, lead)


def _left_out(
    file: LeftOut, names: dict[str, str], data: ProfileData, profile: Profile | None
) -> dict[str, str]:
    lead = data.passes[0] if data.passes else ""
    words = {
        "second_of_kind": _second_of_kind(file, names, data, profile),
        "other_graph": _("Its operators differ from those of “%(name)s”, which are shown instead.")
        % {"name": isolated(names.get(lead, lead))},
        "disturbed": str(DISTURBED_RUN["left_out"]),
        "too_heavy": _("Reading it exceeds the memory or time limit of this site."),
        "trace_without_anything": _("Nothing was recorded while its Profiler was active."),
        "object_missing": _("It is not in storage."),
        "object_too_large": _(
            "Together with it, the profiles would exceed the size limit of this site."
        ),
        "graph_alone": _("It is part of a memory plan, and the plan is missing."),
        "graph_of_another": _("It does not belong to the memory plan."),
        "static_memory_zip": _("It contains no valid memory plan."),
        "device_total_zero": _("Its device times add up to 0, because some are negative."),
    }
    return {
        "name": names.get(file.name, file.name),
        "word": words.get(file.code, _("It cannot be read.")),
        # the message is complete without a detail
        "detail": "" if file.code in ("second_of_kind", "disturbed") else file.detail,
    }


def _second_of_kind(
    file: LeftOut, names: dict[str, str], data: ProfileData, profile: Profile | None
) -> str:
    kinds = (
        {original.stored_name: original.kind for original in originals_of(profile)}
        if profile
        else {}
    )
    left_out = {other.name for other in data.left_out}
    kind = kinds.get(file.name, "")
    candidates = (name for name in kinds if kinds[name] == kind and name not in left_out)
    if not (match := next(candidates, "")):
        return _("Another file of the same kind is displayed.")
    return _(
        "“%(name)s”, a file of the same kind, is displayed instead; a run has only one such file."
    ) % {"name": isolated(names.get(match, match))}


def _histogram(row: AttemptMeasurement) -> dict[str, Any] | None:
    """Return bars and marks in the units of the drawing, and the same as rows of a table."""
    bins = row.histogram
    if not bins or row.median_ms is None:
        return None
    edges, counts = bins["edges_ms"], bins["counts"]
    first, most = edges[0], max(counts)
    scale = WIDTH / (edges[-1] - first)
    bars = [
        {
            "x": round((low - first) * scale, 2),
            "y": round(HEIGHT * (1 - count / most), 2),
            "width": round((high - low) * scale, 2),
            "height": round(HEIGHT * count / most, 2),
            "low_ms": low,
            "high_ms": high,
            "count": count,
        }
        for (low, high), count in zip(pairwise(edges), counts, strict=True)
    ]
    words = latency_words(row)
    marks = [("median", row.median_ms), ("p90", row.p90_ms), ("p99", row.p99_ms)]
    return {
        "bars": bars,
        "marks": [
            {
                "name": name,
                "about": EXPLANATIONS[f"latency_{name}"],
                "value_ms": value,
                "x": round((value - first) * scale, 2),
            }
            for name, value in marks
            if value is not None
        ],
        "most": most,
        "words": [words[name] for name in ("steady", "modes") if words[name]],
        "above": bins["above"],
        "low_ms": first,
        "high_ms": edges[-1],
        "step_ms": edges[1] - first,
        "width": WIDTH,
        "height": HEIGHT,
    }
