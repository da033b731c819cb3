"""Lines for Netron's side panel about an operator or a block."""

import math

import numpy as np

from profiles.analysis.data import Floats, ProfileData
from profiles.analysis.durations import duration, unit_of
from profiles.analysis.netron.text import (
    amount,
    operations,
    parameters,
    plain,
    rate,
)
from profiles.analysis.numbers import share
from profiles.formats.columns import MISSING, Side
from profiles.formats.load_and_run.graph import Index

Lines = list[tuple[str, str]]


class OperatorPanel:
    """Lines for the drawn operators of a profile; Netron cuts names at 13 letters and sorts them.

    side: whose times are used for blocks and shares
    operators: (m,) int32, rows of `Operators`
    """

    def __init__(self, data: ProfileData, side: Side, operators: Index) -> None:
        self._data = data
        self._side: Side = side
        self._operators = operators
        #: (m,) int32, rows of the table
        self.rows: Index = data.graph.operators.row[operators]
        self._total_s = data.columns.times(side).total_s() or math.nan

    def operator(self, position: int) -> Lines:
        """Return times, computation and memory, position in the execution order, parameters."""
        row, operator = int(self.rows[position]), int(self._operators[position])
        graph = self._data.graph
        lines: Lines = [] if row == MISSING else self._time_lines(row)
        if graph.operators.step[operator] != MISSING:
            lines.append(("step", str(int(graph.operators.step[operator]) + 1)))
        outputs = graph.operators.outputs[operator].tolist()
        nodes = {graph.variables.comp_nodes[output] for output in outputs} - {None}
        if nodes:
            lines.append(("comp node", plain(", ".join(sorted(str(node) for node in nodes)))))
        return lines + parameters(graph.operators.params[operator])

    def block(self, members: Index) -> Lines:
        """Return the total of a block, its number of operators, and the slowest of them."""
        rows = self.rows[members]
        rows = rows[rows != MISSING]
        times = self._data.columns.times(self._side).end_s[rows]
        known = np.isfinite(times)
        lines: Lines = [("operators", str(len(members)))]
        if not known.any():
            return lines
        total = _sum(times)
        slowest = int(rows[known][np.argmax(times[known])])
        unit = unit_of([total])
        lines += [
            ("time", duration(total, unit)),
            ("share", share(total / self._total_s if self._total_s else math.nan)),
            ("slowest", plain(self._data.columns.names[slowest])),
            ("slowest time", duration(float(times[known].max()), unit)),
        ]
        return lines + self._work(rows, total)

    def _time_lines(self, row: int) -> Lines:
        columns = self._data.columns
        own = columns.times(self._side)
        lines: Lines = []
        other: Side = "host" if self._side == "device" else "device"
        opposite = columns.times(other)
        unit = unit_of([float(own.end_s[row]), float(opposite.end_s[row])])
        if own.present[row]:
            time = float(own.end_s[row])
            part = share(time / self._total_s if self._total_s else math.nan)
            lines += [("time", duration(time, unit)), ("share", part)]
        if opposite.present[row]:
            lines.append((f"{other} time", duration(float(opposite.end_s[row]), unit)))
        spread = self._data.spread(self._side)
        if len(spread.count) > row and spread.count[row] > 1:
            lines += [("cv", share(float(spread.cv[row]))), ("n", str(int(spread.count[row])))]
        seconds = float(own.end_s[row]) if own.present[row] else math.nan
        return lines + self._work(np.array([row], dtype=np.int32), seconds)

    def _work(self, rows: Index, seconds: float) -> Lines:
        """Return the lines of operations and bytes, in total and per second."""
        lines: Lines = []
        flops = _sum(self._data.columns.computation.values[rows])
        moved = _sum(self._data.columns.memory.values[rows])
        is_timed = math.isfinite(seconds) and seconds > 0
        if math.isfinite(flops):
            lines.append(("flops", operations(flops)))
            lines += [("flops/s", rate(flops / seconds))] if is_timed else []
        if math.isfinite(moved):
            lines.append(("bytes", amount(moved)))
            lines += [("bandwidth", f"{amount(moved / seconds)}/s")] if is_timed else []
        return lines


def _sum(values: Floats) -> float:
    known = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        return float(known.sum()) if len(known) else math.nan
