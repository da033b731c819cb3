"""All data about one operator, for the panel beside the tables."""

from typing import Any

import msgspec
import numpy as np
from django.utils.translation import gettext as _

from profiles.analysis.data import ProfileData
from profiles.analysis.durations import TimeUnit, duration
from profiles.analysis.numbers import amount, operations, rate, share
from profiles.analysis.select import number_order
from profiles.analysis.stability import unstable
from profiles.formats.columns import MISSING, SIDES, NumberColumn, Side, SideTimes
from profiles.formats.load_and_run.graph import ExecutedGraph, Index
from profiles.formats.load_and_run.sections import tensor_text
from profiles.presenters.formatting import shortened, visible

#: maximum number of variables and parameters that are listed; the graph has all
_MOST = 40


def operator_facts(data: ProfileData, row: int) -> dict[str, Any]:
    """Return the context of `profiles/_operator.html` for a row of the profile's columns."""
    columns = data.columns
    operator = int(data.graph.operator_of_row(len(columns))[row])
    return {
        "row": row,
        "name": visible(columns.names[row]),
        "type": visible(columns.types[row] or ""),
        "id": columns.ids[row],
        "sides": [facts for side in SIDES if (facts := _side(data, side, row))],
        "numbers": _numbers(data, row),
        **(_place_in_graph(data.graph, operator) if operator != MISSING else {}),
    }


def _side(data: ProfileData, side: Side, row: int) -> dict[str, Any] | None:
    """Return the times of one side as texts; None if the operator was not timed there.

    rank: from 1, in the table of this side sorted by self time, of `timed` operators
    samples, statistics: only for several passes
    """
    times = data.columns.times(side)
    if not times.present[row]:
        return None
    self_s = float(times.end_s[row])
    total_s = times.total_s()
    spread = data.spread(side)
    several = len(data.passes) > 1
    samples = [float(value) for value in spread.end_s[:, row]]
    unit = data.unit(side)
    return {
        "title": _("Device") if side == "device" else _("Host"),
        "self_time": duration(self_s, unit),
        "share": share(self_s / total_s) if total_s else "",
        "rank": _place(times, row) + 1,
        "timed": int(np.count_nonzero(times.present)),
        "statistics": _statistics(data, side, row, unit) if several else [],
        "samples": [duration(value, unit) for value in samples] if several else [],
        "is_unstable": bool(unstable(data, side)[row]),
    }


def _place(times: SideTimes, row: int) -> int:
    """Return the place of a row among those that were timed, the longest first, as in `select`."""
    timed = np.flatnonzero(times.present)
    values = times.end_s[timed]
    if np.isnan(values).any():
        column = NumberColumn(values, np.ones(len(timed), dtype=np.bool_))
        return int(np.flatnonzero(timed[number_order(column, ascending=False)] == row)[0])
    # sorting 100,000 operators for one of them would take ten times as long
    longer = np.count_nonzero(values > times.end_s[row])
    return int(longer + np.count_nonzero(values[timed < row] == times.end_s[row]))


def _statistics(data: ProfileData, side: Side, row: int, unit: TimeUnit) -> list[tuple[str, str]]:
    spread = data.spread(side)
    cv = float(spread.cv[row])
    return [
        ("p10", duration(float(spread.p10_s[row]), unit)),
        ("p90", duration(float(spread.p90_s[row]), unit)),
        (_("Minimum"), duration(float(spread.min_s[row]), unit)),
        ("CV", share(cv)),
        ("n", str(int(spread.count[row]))),
    ]


def _numbers(data: ProfileData, row: int) -> list[tuple[str, str]]:
    columns = data.columns
    self_s = float(columns.device.end_s[row])
    facts = []
    if columns.computation.present[row]:
        flo = float(columns.computation.values[row])
        facts.append((_("Computation"), operations(flo)))
        if self_s > 0:
            facts.append(("FLOP/s", rate(flo / self_s)))
    if columns.memory.present[row]:
        size = float(columns.memory.values[row])
        facts.append((_("Bytes read and written"), amount(size)))
        if self_s > 0:
            facts.append((_("Bandwidth"), f"{amount(size / self_s)}/s"))
    return facts


def _place_in_graph(graph: ExecutedGraph, operator: int) -> dict[str, Any]:
    operators = graph.operators
    step = int(graph.steps()[operator])
    return {
        "step": None if step == MISSING else step + 1,
        "steps": len(graph.execution_order()),
        "inputs": _variables(graph, operators.inputs[operator]),
        "outputs": _variables(graph, operators.outputs[operator]),
        "params": _params(operators.params[operator]),
    }


def _variables(graph: ExecutedGraph, rows: Index) -> list[dict[str, str]]:
    variables = graph.variables
    return [
        {
            "name": shortened(variables.names[row]),
            "shape": _shape(variables.shapes[row]),
            "dtype": shortened(variables.dtypes[row] or ""),
        }
        for row in rows[:_MOST].tolist()
    ]


def _shape(text: str | None) -> str:
    axes = None if text is None else msgspec.json.decode(text)
    return "" if axes is None else f"{{{tensor_text(axes)}}}"


def _params(text: str | None) -> list[tuple[str, str]]:
    params = None if text is None else msgspec.json.decode(text)
    if not isinstance(params, dict):
        return []
    listed = list(params.items())[:_MOST]
    return [(shortened(str(name)), visible(str(value))) for name, value in listed]
