"""Context of a trace's timeline page: lanes over time, and the first excerpt of the viewer."""

from typing import Any

import numpy as np
from django.conf import settings

from profiles.formats.chrome_trace.excerpt_selection import ExcerptRange
from profiles.formats.chrome_trace.overview import BUCKETS, LaneUse, Overview
from profiles.presenters.time_axis import time_axis
from profiles.presenters.viewers import TRACE_LIMIT_BYTES
from webprofile.errors import DomainError

#: size of the initial excerpt as a share of the limit, so that it loads quickly
_FIRST_SHARE = 0.25
_HEIGHT = 100
_US_PER_S = 1e6


def timeline_view(overview: Overview) -> dict[str, Any]:
    """Return the context of `profiles/timeline.html`; `chosen` is for the page's script."""
    limit = settings.TRACE_CUT_LIMIT_BYTES
    is_whole = overview.size_bytes <= limit
    return {
        "lanes": [{"lane": lane, "path": _path(lane)} for lane in overview.lanes],
        "box": f"0 0 {BUCKETS} {_HEIGHT}",
        "ticks": time_axis(overview.begin_s, overview.end_s),
        "begin_s": overview.begin_s,
        "end_s": overview.end_s,
        "takes_file": not is_whole and overview.size_bytes <= TRACE_LIMIT_BYTES,
        "chosen": {
            "begin_s": overview.begin_s,
            "end_s": overview.end_s,
            "first": None if is_whole else first_range(overview, limit),
            "lanes": {str(lane.number): lane.begun for lane in overview.lanes},
            "counters": overview.counters,
            "events": overview.events,
            "size_bytes": overview.size_bytes,
            "limit_bytes": limit,
        },
    }


def first_range(overview: Overview, limit_bytes: int) -> tuple[float, float]:
    """Return (begin, end), s, of the first excerpt of a trace that is too large to draw at once."""
    share = min(1.0, _FIRST_SHARE * limit_bytes / max(overview.size_bytes, 1))
    places = np.linspace(0.0, 1.0, len(overview.moments_s))
    return overview.begin_s, float(np.interp(share, places, overview.moments_s))


def _path(lane: LaneUse) -> str:
    """Return the utilisation of a lane over time as an SVG path."""
    path = f"M0 {_HEIGHT}"
    before = None
    for place, percent in enumerate(lane.busy):
        if percent != before:
            path += f"H{place}V{_HEIGHT - percent}"
            before = percent
    return f"{path}H{len(lane.busy)}V{_HEIGHT}Z"


def range_of(begin_s: float | None, end_s: float | None, lanes: list[int] | None) -> ExcerptRange:
    """Return the requested excerpt; None means no bound or all lanes.

    Raises DomainError cut_range.
    """
    wide = ExcerptRange()
    begin_us = wide.begin_us if begin_s is None else begin_s * _US_PER_S
    end_us = wide.end_us if end_s is None else end_s * _US_PER_S
    if not begin_us <= end_us:
        raise DomainError("cut_range", field="begin_s")
    return ExcerptRange(begin_us, end_us, frozenset(lanes) if lanes else None)
