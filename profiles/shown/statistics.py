"""The page's view of statistics over passes: figures, the histogram's shape, what was left out."""

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from django.utils.translation import gettext as _

from agent.protocol.artifacts import TRACE_NAMES, profile_name
from profiles.analysis.coverage import Coverage, coverage
from profiles.analysis.data import LeftOut, ProfileData
from profiles.analysis.stability import Stability, stability, totals_of_passes
from profiles.models import AttemptMeasurement, Profile
from profiles.originals import originals_of
from profiles.parsers.columns import Side
from profiles.shown.explanations import EXPLANATIONS
from profiles.shown.file_names import own_names
from profiles.shown.isolating import isolated

#: of the histogram's drawing, which is stretched to the width of the page
WIDTH, HEIGHT = 1000, 100
SIDES: tuple[Side, ...] = ("device", "host")


@dataclass(frozen=True)
class SideStatistics:
    """One side of a merged profile; times in s, None where nothing was timed."""

    side: Side
    total_s: float | None
    lowest_s: float | None
    highest_s: float | None
    stability: Stability
    unstable_percent: str
    cv_percent: str


def statistics_view(
    data: ProfileData | None, profile: Profile | None, measurement: AttemptMeasurement | None
) -> dict[str, Any]:
    """Everything that `_statistics.html` shows; `data` and `profile` are None without profiled
    passes, `measurement` without a measurement.
    """
    names = own_names(profile)
    left_out = [_left_out(each, names, data, profile) for each in data.left_out] if data else []
    if data is not None and not data.has_operators:
        data = None
    found = _coverage(data, profile, measurement)
    return {
        "explain": EXPLANATIONS,
        "merged": len(data.passes) if data else 0,
        "left_out": left_out,
        "other_lead": _other_lead(data, names) if data else "",
        "sides": [_side(data, side) for side in SIDES] if data else [],
        "coverage": found,
        "coverage_percent": _percent(found.share) if found else "",
        "overhead_percent": _percent(measurement.overhead) if measurement else "",
        "histogram": _histogram(measurement) if measurement else None,
        "row": measurement,
    }


def _coverage(
    data: ProfileData | None, profile: Profile | None, measurement: AttemptMeasurement | None
) -> Coverage | None:
    if data is None or profile is None:
        return None
    return coverage(
        data.columns.device.total_s(),
        clean_ms=measurement.median_ms if measurement else None,
        profiled_ms=measurement.profiled_median_ms if measurement else None,
        log_ms=profile.mean_ms,
    )


def _side(data: ProfileData, side: Side) -> SideStatistics:
    totals = [each for each in totals_of_passes(data, side) if each is not None]
    steady = stability(data, side)
    return SideStatistics(
        side=side,
        total_s=data.columns.times(side).total_s(),
        lowest_s=min(totals, default=None),
        highest_s=max(totals, default=None),
        stability=steady,
        unstable_percent=_percent(steady.share),
        cv_percent=_percent(steady.total_cv),
    )


def _other_lead(data: ProfileData, names: dict[str, str]) -> str:
    """The file whose graph is shown, if that is not the first one."""
    lead = data.passes[0]
    return "" if lead in (profile_name(1), *TRACE_NAMES) else names.get(lead, lead)


def _left_out(
    each: LeftOut, names: dict[str, str], data: ProfileData, profile: Profile | None
) -> dict[str, str]:
    lead = data.passes[0] if data.passes else ""
    words = {
        "second_of_kind": _second_of_kind(each, names, data, profile),
        "other_graph": _("It executed other operators than “%(name)s”, whose are shown.")
        % {"name": isolated(names.get(lead, lead))},
        "too_heavy": _("Reading it takes more memory or time than this site allows."),
        # of an earlier version
        "trace_without_operators": _("No operator of it was sent to a device."),
        "trace_without_anything": _("Nothing was called while its Profiler ran."),
        "object_missing": _("It did not arrive in storage."),
        "object_too_large": _("With it, the profiles would be larger than this site reads."),
        "graph_alone": _("It is a part of a memory plan, and the plan is not here."),
        "graph_of_another": _("It does not belong to the memory plan."),
        "static_memory_zip": _("It holds no memory plan that can be read."),
        "device_total_zero": _("Its operators took no time that the device could measure."),
    }
    return {
        "name": names.get(each.name, each.name),
        "word": words.get(each.code, _("It cannot be read.")),
        # the word says it all
        "detail": "" if each.code == "second_of_kind" else each.detail,
    }


def _second_of_kind(
    each: LeftOut, names: dict[str, str], data: ProfileData, profile: Profile | None
) -> str:
    kinds = (
        {PurePath(file.key).name: file.kind for file in originals_of(profile)} if profile else {}
    )
    left_out = {other.name for other in data.left_out}
    kind = kinds.get(each.name, "")
    shown = (name for name in kinds if kinds[name] == kind and name not in left_out)
    if not (found := next(shown, "")):
        return _("Another file of its kind is shown.")
    return _("“%(name)s” is shown, which is of the same kind; a run has one of them.") % {
        "name": isolated(names.get(found, found))
    }


def _histogram(row: AttemptMeasurement) -> dict[str, Any] | None:
    """Bars and marks in the units of the drawing, and the same as rows of a table."""
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
        "above": bins["above"],
        "low_ms": first,
        "high_ms": edges[-1],
        "width": WIDTH,
        "height": HEIGHT,
    }


def _percent(ratio: float | None) -> str:
    if ratio is None or not math.isfinite(ratio):
        return ""
    return f"{ratio * 100:.1f} %"
