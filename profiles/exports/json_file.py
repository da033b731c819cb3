"""Export a profile as one JSON object for programs."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from profiles.analysis.data import ProfileData
from profiles.analysis.select import Selection
from profiles.analysis.totals import plausible
from profiles.exports.fields import FIELDS, VERSION, Rows, group_rows, values_of
from profiles.formats.columns import SIDES, Side

FORMAT = "megengine-web-profile"


def to_json(
    data: ProfileData, rows: Rows, selected: Selection | None, meta: Mapping[str, Any]
) -> bytes:
    """Return UTF-8 JSON with the members below; numbers are read back as the same float64.

    selected: the groups, if these were requested instead of single operators

    format, version: identify the format; a program should stop at another version
    meta: origin of the profile (`provenance`)
    totals: `device_s`, `host_s`; of all operators, also of those that are not listed; times are
        medians over passes, or those of the selected pass; null if they are no possible time
    passes: names of the profiled passes
    left_out: files that could not be merged, {"name", "code", "why"}
    operators: the selected operators in the selected order; `device.passes_s` and `host.passes_s`
        are the self times in each pass. A number that the profile lacks is null, and so are nan and
        infinity, which JSON cannot represent.
    groups: by operator type, the longest first: {"type", "operators", "device_s", "host_s"}, sums
        over the listed operators
    aggregate: null, or the selected groups (`fields.GROUP_FIELDS`)
    """
    document = {
        "format": FORMAT,
        "version": VERSION,
        "meta": meta,
        "totals": {f"{side}_s": plausible(data.columns.times(side).total_s()) for side in SIDES},
        "passes": list(data.passes),
        "left_out": [
            {"name": file.name, "code": file.code, "why": file.detail} for file in data.left_out
        ],
        "operators": operators_as_json(data, rows),
        "groups": groups(data, rows),
        "aggregate": None if selected is None else list(group_rows(selected)),
    }
    return msgspec.json.encode(document)


def groups(data: ProfileData, rows: Rows) -> list[dict[str, Any]]:
    """Return sums over the operators of each type, the longest on the device first."""
    types = data.columns.types
    codes = types.codes[rows]
    order = np.argsort(codes, kind="stable")
    known, starts = np.unique(codes[order], return_index=True)
    lines = []
    for code, places in zip(known.tolist(), np.split(order, starts)[1:], strict=True):
        members = rows[places]
        sums = {f"{side}_s": _sum(data, side, members) for side in SIDES}
        name = types.values[code] if code >= 0 else ""
        lines.append({"type": name, "operators": len(members), **sums})
    return sorted(lines, key=lambda group: -(group["device_s"] or 0.0))


def _sum(data: ProfileData, side: Side, members: Rows) -> float | None:
    times = data.columns.times(side)
    timed = members[times.present[members]]
    with np.errstate(invalid="ignore", over="ignore"):
        total = float(times.end_s[timed].sum())
    return plausible(total) if len(timed) else None


def operators_as_json(data: ProfileData, rows: Rows) -> list[dict[str, Any]]:
    """Return the operators of `to_json`; their JSON texts are kept as they are for `msgspec`."""
    made: list[dict[str, Any]] = [{"device": {}, "host": {}} for _ in rows]
    for field, cells in zip(FIELDS, values_of(data, rows), strict=True):
        place, _, key = field.key.rpartition(".")
        if field.kind == "json":
            cells = [None if cell is None else msgspec.Raw(cell.encode()) for cell in cells]
        for operator, cell in zip(made, cells, strict=True):
            (operator[place] if place else operator)[key] = cell
    for side in SIDES:
        samples = data.spread(side).end_s[:, rows].T.tolist()
        for operator, passes_s in zip(made, samples, strict=True):
            operator[side]["passes_s"] = passes_s
    return made
