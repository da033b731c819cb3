"""Colour classes of operators on the graph: ten classes of heat, or nine classes of change.

Heat: a value v gets class floor(10 sqrt(v / m)), at most 9, where m is the largest value of the
    view; class 5 begins at a quarter of m. Change: a difference d gets class 4 + round(4 sign(d)
    sqrt(|d| / m)), where m is the largest |d|; 0 is the largest gain, 4 no change, 8 the largest
    loss. `static/css/heat.css` defines the colours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.data import Floats, ProfileData
from profiles.analysis.durations import duration, unit_of
from profiles.analysis.numbers import amount, rate
from profiles.formats.columns import MISSING, Side
from profiles.formats.load_and_run.graph import Index

Metric = Literal["time", "flops", "bytes", "change"]
METRICS: tuple[Metric, ...] = ("time", "flops", "bytes")
HEAT_CLASSES = 10
NO_CHANGE = 4
Classes = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Colouring:
    """The quantity that the colours of operators represent.

    values: (n,) float64, one for each row of `ProfileColumns`; nan for none. time and change in s,
        bytes in B, flops in operations
    seconds: (n,) float64 for a rate, which is `values` per second; None otherwise
    """

    metric: Metric
    values: Floats
    seconds: Floats | None = None

    @property
    def prefix(self) -> str:
        """Prefix of the class names in the style sheet."""
        return "delta" if self.metric == "change" else "heat"

    def texts(self, values: Sequence[float]) -> list[str]:
        """Format values with their units; times share one unit: `12.35 µs`, `1.2 GFLOP/s`, `3.4
        MiB`.
        """
        if self.metric == "flops":
            return [rate(value) for value in values]
        if self.metric == "bytes":
            return [amount(value) for value in values]
        unit = unit_of(values)
        return [duration(value, unit) for value in values]

    def of(self, groups: Sequence[Index]) -> Floats:
        """Return the value of each group of rows: the sum, or the rate of the whole group."""
        values = _sums(self.values, groups)
        if self.seconds is None:
            return values
        seconds = _sums(self.seconds, groups)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(seconds > 0, values / seconds, np.nan)

    def classes(self, values: Floats) -> tuple[Classes, list[str]]:
        """Return the class of each value, MISSING for none, and the lower limits of the classes as
        text.

        For change, the texts are the middles of the classes.
        """
        known = np.isfinite(values)
        most = float(np.max(np.abs(values[known]))) if known.any() else 0.0
        if self.metric == "change":
            return self._changes(values, known, most)
        classes = np.full(len(values), MISSING, dtype=np.int8)
        share = np.clip(values[known] / most, 0.0, 1.0) if most > 0 else np.zeros(known.sum())
        classes[known] = np.minimum(HEAT_CLASSES * np.sqrt(share), HEAT_CLASSES - 1).astype(np.int8)
        bounds = [most * (step / HEAT_CLASSES) ** 2 for step in range(HEAT_CLASSES)]
        return classes, self.texts([*bounds, most])

    def _changes(
        self, values: Floats, known: NDArray[np.bool_], most: float
    ) -> tuple[Classes, list[str]]:
        classes = np.full(len(values), MISSING, dtype=np.int8)
        share = values[known] / most if most > 0 else np.zeros(known.sum())
        steps = NO_CHANGE * np.sign(share) * np.sqrt(np.abs(share))
        classes[known] = NO_CHANGE + np.round(steps).astype(np.int8)
        places = [k / NO_CHANGE for k in range(-NO_CHANGE, NO_CHANGE + 1)]
        return classes, self.texts([most * place * abs(place) for place in places])


def _sums(values: Floats, groups: Sequence[Index]) -> Floats:
    """Return the sum of the known values in each group; nan if none is known."""
    sums = np.full(len(groups), np.nan)
    for place, rows in enumerate(groups):
        known = values[rows]
        known = known[np.isfinite(known)]
        if len(known):
            with np.errstate(over="ignore"):
                sums[place] = known.sum()
    return sums


def colouring(data: ProfileData, metric: Metric, side: Side) -> Colouring:
    """Return the colouring by time, operations per second or bytes moved, on one side."""
    times = np.maximum(data.columns.times(side).end_s, 0.0)
    if metric == "flops":
        return Colouring("flops", data.columns.computation.values, times)
    if metric == "bytes":
        return Colouring("bytes", data.columns.memory.values)
    return Colouring("time", times)
