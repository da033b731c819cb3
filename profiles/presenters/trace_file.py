"""The file of a trace, for the viewer that draws the whole trace."""

from typing import Any

import msgspec
from django.utils.translation import gettext

from profiles.exports.originals import Original, originals_of
from profiles.formats.chrome_trace.summary import TraceSummary
from profiles.ingest.loading import run_data
from profiles.models import Profile

#: largest trace for the viewer: a browser holds several copies while it reads it
TRACE_LIMIT_BYTES = 200 * 1024**2


def is_trace(profile: Profile) -> bool:
    """Whether a profile was made of a trace of MegEngine's Profiler. Raises as `run_data`."""
    return "trace" in run_data(profile).beside


def trace_of(profile: Profile) -> TraceSummary:
    """Return the summary of the trace of a profile that was made from one."""
    return msgspec.json.decode(run_data(profile).beside["trace"], type=TraceSummary)


def trace_original(profile: Profile) -> Original | None:
    """Return the uploaded file of the trace; None if it was deleted.

    A file that was imported before kinds were recorded cannot be recognised.
    """
    originals = originals_of(profile)
    alone = originals[0] if len(originals) == 1 else None
    return next((original for original in originals if original.kind == "trace"), alone)


def trace_file_view(profile: Profile) -> dict[str, Any]:
    """Return {"size_bytes", "is_cut"} of the file as uploaded, or {"reason"} why it cannot be
    shown.

    is_cut: the file ends in the middle of its list
    Raises as `run_data`.
    """
    original = trace_original(profile)
    if original is None:
        return {"reason": gettext("The file of the trace has been removed from the server.")}
    if original.size_bytes > TRACE_LIMIT_BYTES:
        text = gettext(
            "The trace is larger than %(limit)s MiB, the most that a browser can draw. The file "
            "can be opened with Perfetto’s own tools."
        )
        return {"reason": text % {"limit": TRACE_LIMIT_BYTES // 1024**2}}
    return {
        "size_bytes": original.size_bytes,
        "is_cut": trace_of(profile).is_cut,
    }
