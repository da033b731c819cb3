"""The report: one HTML file for offline reading.

It makes no requests. Its CSP permits only its own style sheet and, by its hash, its only script
(`report.js`, which sorts and filters the tables).
"""

import base64
import hashlib
import math
from collections.abc import Mapping
from typing import Any

from django.template.loader import render_to_string
from django.utils import translation
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _

from profiles.analysis.data import ProfileData
from profiles.analysis.numbers import bandwidth, computation, flops, memory, percent, short
from profiles.analysis.select import Query, select
from profiles.analysis.stability import stability, totals_of_passes, unstable
from profiles.analysis.table import TableRow, rows
from profiles.exports.drawings import curve, memory_drawing, timeline_drawing, type_bars
from profiles.exports.originals import with_own_names
from profiles.formats.chrome_trace.presenter import trace_view
from profiles.formats.columns import SIDES, Side
from profiles.formats.memory_flow.presenter import FlowQuery, memory_flow_view
from profiles.models import Profile
from profiles.presenters.advice import advice_of, of_trace, run_facts
from profiles.presenters.charts import pass_sentence
from profiles.presenters.formatting import shortened, visible
from profiles.presenters.statistics import latency_words, side_statistics, total_words

#: maximum number of operators; more make the file large and slow; CSV has all
MOST_ROWS = 2_000
#: maximum number of shapes that are shown of one operator
_MOST_TENSORS = 6


def report_html(
    data: ProfileData, meta: Mapping[str, Any], profile: Profile | None = None, place: int = 0
) -> str:
    """Return the report in the user's language.

    meta: `provenance`
    profile: None for a file that is not in the database
    place: the pass that the timeline draws, counted from 0
    """
    script = render_to_string("profiles/report.js").strip()
    facts = run_facts(profile) if profile else of_trace(data)
    measured = profile.measurement if profile else None
    named = with_own_names(data, profile)
    context = {
        "language": translation.get_language() or "en",
        "script": mark_safe(script),  # a file of this repository
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "meta": meta,
        "facts": _facts(meta),
        "totals": {side: total_words(side_statistics(data, side)) for side in SIDES},
        "is_one_sample": len(data.passes) == 1 and not facts.of_trace,
        "operators": len(data.columns),
        "of_trace": facts.of_trace,
        "trace": trace_view(data),
        **_memory_flow(data),
        "passes": _passes(named),
        "stability": stability(data, "device") if len(data.passes) > 1 else None,
        "left_out": named.left_out,
        "advice": advice_of(data, facts),
        "measured": measured,
        "latency": latency_words(measured) if measured else None,
        "attempt": profile.attempt if profile else None,
        "types": type_bars(data),
        "curve": curve(data),
        "timeline": timeline_drawing(data, place, of_trace=facts.of_trace),
        "timeline_pass": pass_sentence(data, place),
        "tables": [table for side in SIDES if (table := _table(data, side))],
        "most_rows": MOST_ROWS,
    }
    return render_to_string("profiles/report.html", context)


def _memory_flow(data: ProfileData) -> dict[str, Any]:
    """Return the context of the section on memory over time; empty if the run has no such file."""
    flow = memory_flow_view(data, FlowQuery())
    if flow is None:
        return {}
    return {"memory_flow": flow, "memory_curve": memory_drawing(flow["summary"])}


def _facts(meta: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the provenance as rows, without unknown facts."""
    rows = [
        (_("Task"), f"#{meta['task']}" if "task" in meta else ""),
        (_("Address"), meta.get("url", "")),
        (_("Device"), meta.get("device", "")),
        (_("Processor"), meta.get("cpu", "")),
        ("GPU", ", ".join(meta.get("gpus", ()))),
        ("MegEngine", meta.get("megengine", "")),
        (_("Finished"), _minute(meta.get("finished_at"))),
        (_("Imported"), _minute(meta.get("opened_at"))),
        (_("Report created"), _minute(meta.get("exported_at"))),
        (_("Command on the device"), meta.get("command", "")),
    ]
    return [(name, visible(value)) for name, value in rows if value]


def _minute(iso: str | None) -> str:
    return f"{iso[:16].replace('T', ' ')} UTC" if iso else ""


def _passes(data: ProfileData) -> list[dict[str, Any]]:
    totals = {side: totals_of_passes(data, side) for side in SIDES}
    pairs = zip(data.passes, totals["device"], totals["host"], strict=True)
    return [{"name": name, "device_s": device, "host_s": host} for name, device, host in pairs]


def _table(data: ProfileData, side: Side) -> dict[str, Any] | None:
    """Return the slowest operators of one side; None if none was timed there."""
    selection = select(data.columns, Query(side=side))
    if not len(selection):
        return None
    shaky = unstable(data, side)
    many = len(data.passes) > 1
    spread = data.spread(side)
    made = []
    for row in rows(data.columns, selection, 0, MOST_ROWS):
        cv = float(spread.cv[row.operator]) if many else math.nan
        made.append(_row(row, cv, is_unstable=bool(shaky[row.operator])))
    return {
        "side": side,
        "title": _("On the device") if side == "device" else _("On the host"),
        "rows": made,
        "total": len(selection),
        "has_cv": many,
    }


def _row(row: TableRow, cv: float, *, is_unstable: bool) -> dict[str, Any]:
    return {
        "name": shortened(row.name),
        "type": shortened(row.type),
        "id": row.id,
        "place": row.place,
        "time": short(row.self_s),
        "share": percent(row.ratio),
        "cumulative": short(row.cumulative_s),
        "cumulative_share": percent(row.cumulative_ratio),
        "computation": " ".join(computation(row.computation_flo)),
        "flops": " ".join(flops(row.flops)),
        "memory": " ".join(memory(row.memory_bytes)),
        "bandwidth": " ".join(bandwidth(row.bandwidth_bytes_per_s)),
        "in_shapes": _shorten(row.in_shapes),
        "out_shapes": _shorten(row.out_shapes),
        # the sort key of the table; an absent number sorts last
        "keys": {
            "time": _key(row.self_s),
            "flo": _key(row.computation_flo),
            "flops": _key(row.flops),
            "memory": _key(row.memory_bytes),
            "bandwidth": _key(row.bandwidth_bytes_per_s),
            "cv": _key(cv),
        },
        "width": round(100 * row.ratio, 1) if 0 < row.ratio <= 1 else 0,
        "cv": "–" if math.isnan(cv) else f"{cv * 100:.1f} %",
        "is_unstable": is_unstable,
    }


def _shorten(lines: tuple[str, ...]) -> tuple[str, ...]:
    if len(lines) <= _MOST_TENSORS:
        return lines
    return (*lines[:_MOST_TENSORS], f"… +{len(lines) - _MOST_TENSORS}")


def _key(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else repr(value)
