"""Template context for the trace of a dynamic graph: phases of a step, scopes, waits, counters."""

import re
from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from profiles.analysis.data import ProfileData
from profiles.analysis.durations import TRACE_CLOCK_S, duration
from profiles.analysis.numbers import ratio
from profiles.formats.chrome_trace.overview import Curve
from profiles.formats.chrome_trace.summary import SkippedRow, TraceSummary, WaitRow
from profiles.presenters.formatting import listed, visible
from profiles.presenters.time_axis import time_axis

#: maximum rows on the page; the API returns all that are kept
SCOPES_SHOWN, WAITS_SHOWN = 200, 50
#: skipped events, and counters with gaps, that a note names
SKIPPED_SHOWN = 3
#: size of the drawing of a curve, in SVG units
_WIDTH, _HEIGHT = 400, 60
#: phases that only a training step has
_TRAINING_PHASES = ("backward", "step")
#: approximate number of ticks on the axis of a curve
CURVE_TICKS = 7
#: the field of an event in msgspec's message
_WRONG_FIELD = re.compile(r"at `\$\.([^`]*)`")


def trace_view(data: ProfileData) -> dict[str, Any] | None:
    """Return the context of the template `profiles/_trace.html`; None without a trace."""
    summary = data.summary("trace", TraceSummary)
    if summary is None:
        return None
    waits = _waits(summary.waits)[:WAITS_SHOWN]
    device_s = sum(phase.device_s for phase in summary.phases)
    return {
        "summary": summary,
        "clock_s": TRACE_CLOCK_S,
        "is_training": any(phase.name in _TRAINING_PHASES for phase in summary.phases),
        "has_kernels": _has_kernels(summary),
        "recorded_s": summary.end_s - summary.begin_s,
        "wait_s": summary.wait_s + summary.wait_after_s,
        "wait_share": ratio(summary.wait_s + summary.wait_after_s, summary.end_s - summary.begin_s),
        "lanes": [{"row": lane, "kind": _kind(lane.kind)} for lane in summary.lanes],
        "phases": [
            {
                "row": phase,
                "name": _phase(phase.name),
                "share": ratio(phase.device_s, device_s),
            }
            for phase in summary.phases
        ],
        "scopes": summary.scopes[:SCOPES_SHOWN],
        "scopes_more": len(summary.scopes[SCOPES_SHOWN:]) + summary.scopes_left_out,
        "waits": waits,
        "waits_more": summary.waits_count - sum(wait["count"] for wait in waits),
        "curves": [
            _curve(curve, summary) for curve in summary.curves if curve.highest > curve.lowest
        ],
        "level": [_counter(curve) for curve in summary.curves if curve.highest == curve.lowest],
        "notes": [*_missing_notes(summary), *damage_notes(summary), *_gap_notes(summary)],
        "counted": _counting_notes(summary),
    }


def _waits(rows: Sequence[WaitRow]) -> list[dict[str, Any]]:
    """Merge waits at the same place for the same tensor; the longest in total come first.

    begin_s: start of the longest single wait, which can be looked up in the timeline
    """
    places: dict[tuple[tuple[str, ...], str], list[WaitRow]] = {}
    for row in rows:
        places.setdefault((row.path, row.tensor), []).append(row)
    joined = [
        {
            "path": path,
            "tensor": tensor,
            "count": len(same),
            "begin_s": max(same, key=lambda row: row.all_s).begin_s,
            "longest_s": max(row.all_s for row in same),
            "wait_s": sum(row.all_s for row in same),
        }
        for (path, tensor), same in places.items()
    ]
    return sorted(joined, key=lambda wait: -wait["wait_s"])


def _kind(kind: str) -> str:
    return {
        "host": _("Python thread: calls modules and dispatches operators"),
        "worker": _("MegEngine worker thread: prepares and launches kernels"),
        "device": _("Device: runs kernels"),
    }.get(kind, "")


def _phase(name: str) -> str:
    return {
        "forward": pgettext("of a training step", "Forward and other calls"),
        "backward": "GradManager.backward",
        "step": "Optimizer.step",
        "clear_grad": "Optimizer.clear_grad",
    }.get(name, name)


def _has_kernels(summary: TraceSummary) -> bool:
    """Whether times of the device were recorded."""
    return summary.operators > 0 and any(lane.kind == "device" for lane in summary.lanes)


def _missing_notes(summary: TraceSummary) -> list[str]:
    """Return notes on what the Profiler did not record, and what that means for the figures."""
    notes = []
    if summary.operators == 0:
        notes.append(
            _(
                "No operator was dispatched to a device, so the trace contains no operators and "
                "no kernel times. MegEngine 1.13 computes small tensors on the host, and its "
                "Profiler does not record operators of a function compiled by trace(). To "
                "record those, use trace(profiling=True) and get_profile()."
            )
        )
    elif not _has_kernels(summary):
        notes.append(
            _(
                "No device times were recorded, so kernel times and device shares are empty. Use "
                "the Profiler with profile_device=True."
            )
        )
    if summary.waits and not _has_kernels(summary):
        notes.append(
            _(
                "Without kernel times, only MegEngine’s own events count as waits. They end "
                "when the copy of a value starts: Python may have waited longer."
            )
        )
    return notes


def damage_notes(summary: TraceSummary) -> list[str]:
    """Return notes on damage of the file, which figures lack or count otherwise."""
    notes = []
    if number := summary.skipped_count:
        places = listed(
            _("byte %(byte)s (%(reason)s)") % {"byte": row.at_byte, "reason": _skip_reason(row)}
            for row in summary.skipped[:SKIPPED_SHOWN]
        )
        notes.append(
            ngettext(
                "%(number)s event cannot be read, and is not included in any figure: %(places)s.",
                "%(number)s events cannot be read, and are not included in any figure. The "
                "first ones: %(places)s.",
                number,
            )
            % {"number": number, "places": places}
        )
    if summary.is_cut:
        notes.append(
            _(
                "The file is truncated: later events are missing. A trace is complete only after "
                "the Profiler has exited or has been deleted."
            )
        )
    if number := summary.unpaired:
        notes.append(
            ngettext(
                "%(number)s event is incomplete. An event without an end counts until the end "
                "of the enclosing event.",
                "%(number)s events are incomplete. An event without an end counts until the end "
                "of the enclosing event.",
                number,
            )
            % {"number": number}
        )
    if number := summary.out_of_order:
        notes.append(
            ngettext(
                "The events of %(number)s thread were out of order and have been sorted by time.",
                "The events of %(number)s threads were out of order and have been sorted by time.",
                number,
            )
            % {"number": number}
        )
    if number := summary.without_length:
        notes.append(
            ngettext(
                "%(number)s event has no valid duration (none, or the end is before the start). "
                "Its duration counts as 0.",
                "%(number)s events have no valid duration (none, or the end is before the start). "
                "Their durations count as 0.",
                number,
            )
            % {"number": number}
        )
    if number := summary.broken:
        notes.append(
            ngettext(
                "%(number)s event has no time, and was left out.",
                "%(number)s events have no time, and were left out.",
                number,
            )
            % {"number": number}
        )
    return notes


def _skip_reason(row: SkippedRow) -> str:
    field = _WRONG_FIELD.search(row.reason)
    if row.code == "bad_value" and field:
        return _("wrong type of “%(field)s”") % {"field": visible(field[1])}
    return {
        "not_json": _("not JSON"),
        "not_utf8": _("not UTF-8"),
        "too_deep": _("too many nested brackets"),
        "bad_value": _("not an event"),
    }[row.code]


def _gap_notes(summary: TraceSummary) -> list[str]:
    """Return notes on values that the curves of counters lack."""
    if not (gaps := summary.counter_gaps):
        return []
    number = sum(gap.values for gap in gaps)
    names = listed(visible(gap.name) for gap in gaps[:SKIPPED_SHOWN])
    more = len(gaps) - SKIPPED_SHOWN
    if more > 0:
        names = _("%(names)s and %(more)s more") % {"names": names, "more": more}
    return [
        ngettext(
            "%(number)s value of a counter is missing, NaN or infinite, and is not drawn: "
            "%(names)s.",
            "%(number)s values of counters are missing, NaN or infinite, and are not drawn: "
            "%(names)s.",
            number,
        )
        % {"number": number, "names": names}
    ]


def _counting_notes(summary: TraceSummary) -> list[str]:
    """Return notes on how recomputed operators and copies between devices are counted."""
    notes = []
    if number := summary.repeated:
        times = ngettext("%(number)s time", "%(number)s times", summary.again)
        notes.append(
            ngettext(
                "%(number)s operator was recomputed %(times)s, because its outputs had been freed "
                "(DTR). Its times are sums of all executions, in one row.",
                "%(number)s operators were recomputed (%(times)s in total), because their outputs "
                "had been freed (DTR). Their times are sums of all executions, in one row each.",
                number,
            )
            % {"number": number, "times": times % {"number": summary.again}}
        )
    if number := summary.copies:
        notes.append(
            ngettext(
                "%(number)s operator copies data from one device to another. Its device time is "
                "only the time during which all of its devices were copying. The time during which "
                "one device waited for another (%(time)s) is not attributed to any operator. The "
                "table of threads and devices, the timeline and the charts show the times in the "
                "file.",
                "%(number)s operators copy data from one device to another. The device time of "
                "each is only the time during which all of its devices were copying. The time "
                "during which one device waited for another (%(time)s in total) is not attributed "
                "to any operator. The table of threads and devices, the timeline and the charts "
                "show the times in the file.",
                number,
            )
            % {"number": number, "time": duration(summary.copies_waited_s)}
        )
    return notes


def _curve(curve: Curve, summary: TraceSummary) -> dict[str, Any]:
    """Return a counter as an SVG path of steps: a value holds until the next one."""
    begin, end = min(summary.begin_s, curve.at_s[0]), max(summary.end_s, curve.at_s[-1])
    scale_x = _WIDTH / (end - begin) if end > begin else 0.0
    scale_y = _HEIGHT / (curve.highest - curve.lowest)
    path = ""
    for at_s, value in zip(curve.at_s, curve.values, strict=True):
        x, y = (at_s - begin) * scale_x, _HEIGHT - (value - curve.lowest) * scale_y
        path += f"H{x:.1f}V{y:.1f}" if path else f"M{x:.1f} {y:.1f}"
    return {
        **_counter(curve),
        "path": f"{path}H{_WIDTH}",
        "ticks": time_axis(begin, end, CURVE_TICKS),
        "box": f"0 -2 {_WIDTH} {_HEIGHT + 4}",
    }


def _counter(curve: Curve) -> dict[str, Any]:
    return {"curve": curve, "is_bytes": curve.name.endswith("_mem")}
