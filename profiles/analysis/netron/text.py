"""Texts for Netron, which does not format or escape them: numbers with units, sanitized names, and
the lines of its side panel.
"""

import math
import re

import msgspec
import numpy as np

from profiles.analysis.data import Floats, ProfileData
from profiles.analysis.durations import duration, unit_of
from profiles.analysis.numbers import amount, operations, rate, share
from profiles.formats.columns import MISSING, Side
from profiles.formats.load_and_run.graph import Index

#: longest name; a hostile file may have names of megabytes
LONGEST_TEXT = 200
#: control characters, and invisible characters that change text direction or join letters
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def plain(text: str) -> str:
    r"""Return a text of the file as one line of visible characters: a newline becomes `\u000a`."""
    if len(text) > LONGEST_TEXT:
        text = text[: LONGEST_TEXT - 1] + "…"
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def dimensions(shape: str | None) -> list[int] | None:
    """Return the axes of a shape in the format of `Variables.shapes`."""
    axes = None if shape is None else msgspec.json.decode(shape)
    return axes if isinstance(axes, list) else None


def parameters(text: str | None) -> list[tuple[str, str]]:
    """Return the names and values of an operator's parameters, given as in `Operators.params`."""
    params = None if text is None else msgspec.json.decode(text)
    if not isinstance(params, dict):
        return []
    return [(plain(name), plain(_value(value))) for name, value in params.items()]


def _value(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


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
        self._steps = data.graph.steps()[operators]

    def operator(self, position: int) -> Lines:
        """Return times, computation and memory, position in the execution order, parameters."""
        row, operator = int(self.rows[position]), int(self._operators[position])
        step = int(self._steps[position])
        graph = self._data.graph
        lines: Lines = [] if row == MISSING else self._time_lines(row)
        if step != MISSING:
            lines.append(("step", str(step + 1)))
        outputs = graph.operators.outputs[operator].tolist()
        nodes = {graph.variables.comp_nodes[output] for output in outputs} - {None}
        if nodes:
            lines.append(("computing node", plain(", ".join(sorted(str(node) for node in nodes)))))
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
