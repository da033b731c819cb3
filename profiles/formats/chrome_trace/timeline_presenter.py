"""What the page of a trace's timeline shows above the viewer: lanes over time, the first cut."""

from typing import Any

import numpy as np
from django.conf import settings

from profiles.formats.chrome_trace.choosing import Range
from profiles.formats.chrome_trace.overview import BUCKETS, LaneUse, Overview
from profiles.ingest.loading import request_rebuild
from profiles.models import Profile
from profiles.presenters.time_axis import time_axis
from profiles.presenters.trace_file import TRACE_LIMIT_BYTES, trace_of
from webprofile.errors import DomainError

#: of the limit, what a page asks for that nobody has chosen: it is there soon
_FIRST_SHARE = 0.25
_HEIGHT = 100
_US_PER_S = 1e6


def timeline_view(profile: Profile) -> dict[str, Any] | None:
    """What the template `profiles/timeline.html` shows; None where the overview is to be made.

    `chosen` is for the page's script. Raises as `run_data`.
    """
    found = trace_of(profile).overview
    if found is None:
        if not profile.problem:
            request_rebuild(profile.pk)
        return None
    limit = settings.TRACE_CUT_LIMIT_BYTES
    is_whole = found.size_bytes <= limit
    return {
        "lanes": [{"lane": lane, "path": _path(lane)} for lane in found.lanes],
        "box": f"0 0 {BUCKETS} {_HEIGHT}",
        "ticks": time_axis(found.begin_s, found.end_s),
        "begin_s": found.begin_s,
        "end_s": found.end_s,
        "takes_file": not is_whole and found.size_bytes <= TRACE_LIMIT_BYTES,
        "chosen": {
            "begin_s": found.begin_s,
            "end_s": found.end_s,
            "first": None if is_whole else first_range(found, limit),
            "lanes": {str(lane.number): lane.begun for lane in found.lanes},
            "counters": found.counters,
            "events": found.events,
            "size_bytes": found.size_bytes,
            "limit_bytes": limit,
        },
    }


def first_range(found: Overview, limit_bytes: int) -> tuple[float, float]:
    """(begin, end), s, of the first part of a trace that is too large to be drawn at once."""
    share = min(1.0, _FIRST_SHARE * limit_bytes / max(found.size_bytes, 1))
    places = np.linspace(0.0, 1.0, len(found.moments_s))
    return found.begin_s, float(np.interp(share, places, found.moments_s))


def _path(lane: LaneUse) -> str:
    """The lane's use as an area: as high as it is busy."""
    path = f"M0 {_HEIGHT}"
    before = None
    for place, percent in enumerate(lane.busy):
        if percent != before:
            path += f"H{place}V{_HEIGHT - percent}"
            before = percent
    return f"{path}H{len(lane.busy)}V{_HEIGHT}Z"


def range_of(begin_s: float | None, end_s: float | None, lanes: list[int] | None) -> Range:
    """The part of a trace; None: no bound, all lanes. Raises DomainError cut_range."""
    wide = Range()
    begin_us = wide.begin_us if begin_s is None else begin_s * _US_PER_S
    end_us = wide.end_us if end_s is None else end_s * _US_PER_S
    if not begin_us <= end_us:
        raise DomainError("cut_range", field="begin_s")
    return Range(begin_us, end_us, frozenset(lanes) if lanes else None)
