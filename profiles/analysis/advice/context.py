"""The data of a profile that rules use: types and masks of operators, graph edges, valid times."""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.advice.finding import Finding, RunFacts
from profiles.analysis.cumulative import LONGEST_S, sound_rows
from profiles.analysis.data import ProfileData
from profiles.formats.columns import MISSING, TextColumn
from profiles.formats.load_and_run.graph import ExecutedGraph, Index, Intervals

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: shortest meaningful sum of times, 100 ticks of the CPU's clock (1 us)
NOTICEABLE_S = 20e-6
#: below this, an iteration is too short for shares of it to be meaningful
MEASURABLE_S = 100e-6
#: share of the device's span from which it counts as continuously busy
BUSY = 0.9

#: a training step has operators of these types, or names below the scope `backward`. A type that
#: ends in BackwardData also occurs as a deconvolution in inference.
_TRAINING_TYPE = re.compile(r"Backward(?!Data)|Grad")
_TRAINING_NAME = "backward."

CONSTANTS = frozenset(
    {
        "ImmutableTensor",
        "SharedDeviceTensor",
        "SharedDeviceTensorWithFormat",
        "VolatileSharedDeviceTensor",
        "MultipleDeviceTensorHolder",
        "MultipleDeviceTensorWithFormatHolder",
    }
)
CALLBACKS = frozenset({"InputCallback", "OutputCallback"})
#: operator with which load_and_run's lite interface returns a result: a copy to the host
RESULT_CALLBACK = "ComputingGraphImpl::CallbackCaller"
#: operators that pass tensors in and out without computing
GLUE = CONSTANTS | CALLBACKS | {RESULT_CALLBACK, "Host2DeviceCopy"}
#: types whose values differ between executions or come from outside
_CHANGING = ("RNG", "Dropout", "Callback", "Host2DeviceCopy", "Loader", "Remote")
#: deepest expression of constants that is followed
_DEEPEST = 64


@dataclass(frozen=True, eq=False)
class OperatorEdges:
    """The edges between operators that run; operators are numbered by rows of `Operators`."""

    graph: ExecutedGraph

    @cached_property
    def runs(self) -> Mask:
        return np.asarray(self.graph.operators.step != MISSING)

    @cached_property
    def readers(self) -> NDArray[np.int64]:
        """(v,) int64, the number of inputs of running operators that read this variable."""
        return np.bincount(self._read[self.runs[self._reader]], minlength=self._variables)

    @cached_property
    def reader(self) -> Index:
        """(v,) int32, a running operator that reads this variable, MISSING for none."""
        readers = np.full(self._variables, MISSING, dtype=np.int32)
        running = self.runs[self._reader]
        readers[self._read[running]] = self._reader[running]
        return readers

    @cached_property
    def constant(self) -> Mask:
        """(g,) bool, operators whose results depend only on parameters and constants."""
        operators = self.graph.operators
        source = operators.types.where(CONSTANTS.__contains__)
        changing = operators.types.where(lambda name: any(word in name for word in _CHANGING))
        inputs = np.diff(operators.inputs.ends, prepend=0)
        candidates = (inputs > 0) & ~changing
        producer = self.graph.variables.producer[self._read]
        known = producer != MISSING
        constant = source
        for _ in range(_DEEPEST):
            varying = ~(known & constant[producer])
            waiting = np.bincount(self._reader[varying], minlength=len(operators))
            grown = source | (candidates & (waiting == 0))
            if (grown == constant).all():
                break
            constant = grown
        return constant

    def inputs(self, operator: int) -> list[int]:
        return [int(variable) for variable in self.graph.operators.inputs[operator]]

    def producer(self, variable: int) -> int:
        return int(self.graph.variables.producer[variable])

    def type_of(self, operator: int) -> str:
        return (self.graph.operators.types[operator] or "") if operator != MISSING else ""

    def params_of(self, operator: int) -> dict[str, object]:
        """Return the parameters, as far as the footprint states them."""
        return _object(self.graph.operators.params[operator] or "{}")

    def only_reader(self, operator: int) -> int:
        """Return the only operator that reads an output of this one; MISSING if there is not
        exactly one.
        """
        read = [v for v in self.graph.operators.outputs[operator].tolist() if self.readers[v]]
        if len(read) != 1 or self.readers[read[0]] != 1:
            return MISSING
        return int(self.reader[read[0]])

    @property
    def _variables(self) -> int:
        return len(self.graph.variables)

    @property
    def _read(self) -> Index:
        return self.graph.operators.inputs.targets

    @cached_property
    def _reader(self) -> NDArray[np.int64]:
        """The operator of each entry of `_read`."""
        inputs = self.graph.operators.inputs
        return np.repeat(np.arange(len(inputs)), np.diff(inputs.ends, prepend=0))


@lru_cache(maxsize=1000)
def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, eq=False)
class LaneUsage:
    """The valid intervals of one side.

    span_s: from the first start to the last end, 0 without intervals
    busy_s: time during which the busiest lane has an operator
    first_s: the first start
    count: lanes with intervals
    """

    span_s: float
    busy_s: float
    first_s: float
    count: int

    @property
    def is_busy(self) -> bool:
        """Whether the busiest lane has operators nearly all the time."""
        return self.count > 0 and self.busy_s >= BUSY * self.span_s


@dataclass(frozen=True, eq=False)
class RuleContext:
    """A profile with the derived data that rules use. Masks and times are (n,), by row of
    `ProfileColumns`.

    An operator without a valid time (missing, negative, nan, beyond LONGEST_S) counts as 0 s.
    """

    data: ProfileData
    facts: RunFacts

    @property
    def graph(self) -> ExecutedGraph:
        return self.data.graph

    @property
    def types(self) -> TextColumn:
        return self.data.columns.types

    @cached_property
    def device_s(self) -> Floats:
        return _sound(self.data.columns.device.end_s)

    @cached_property
    def host_s(self) -> Floats:
        return _sound(self.data.columns.host.end_s)

    @cached_property
    def total_s(self) -> float:
        return float(self.device_s.sum())

    @cached_property
    def glue(self) -> Mask:
        return self.of_types(GLUE)

    @cached_property
    def device(self) -> LaneUsage:
        return _lanes(self.graph.device)

    @cached_property
    def host(self) -> LaneUsage:
        return _lanes(self.graph.host)

    @cached_property
    def operator(self) -> Index:
        """(n,) int32: row of `Operators`, MISSING for none."""
        return self.graph.operator_of_row(len(self.data.columns))

    @cached_property
    def edges(self) -> OperatorEdges:
        return OperatorEdges(self.graph)

    @property
    def is_measurable(self) -> bool:
        return self.total_s >= MEASURABLE_S

    @property
    def on_cpu(self) -> bool:
        """Whether all operators ran on processors, whose clock has a resolution of 1 us."""
        return not self.data.on_gpu.any()

    @property
    def has_odd_times(self) -> bool:
        """Whether an operator has an invalid time, so that the total is too low."""
        times = self.data.columns.device
        return sound_rows(times)[1] > 0

    @cached_property
    def is_training(self) -> bool:
        if any(_TRAINING_TYPE.search(name) for name in self.types.values):
            return True
        return any(name.startswith(_TRAINING_NAME) for name in self.data.columns.names)

    def of_types(self, names: Collection[str]) -> Mask:
        """Return (n,) bool, operators of these types."""
        return self.types.where(names.__contains__)

    def sum_s(self, rows: Mask | Index | NDArray[np.int64]) -> float:
        """Return the device time of some operators, s."""
        return float(self.device_s[rows].sum())

    def share(self, time_s: float) -> float:
        return time_s / self.total_s if self.total_s > 0 else 0.0

    def saving(
        self,
        rule: str,
        chosen: Mask | Index | NDArray[np.int64],
        *,
        share: float,
        least_s: float = 0.0,
        by: Floats | None = None,
        options: tuple[str, ...] = (),
        **params: float,
    ) -> Finding | None:
        """Return the finding that some operators could be removed, if they take enough time.

        chosen: mask or rows
        by: times to use, by default those on the device
        share: of the device total, that they must take at least
        least_s: time that they must take at least
        """
        times = self.device_s if by is None else by
        rows = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        time_s = float(times[rows].sum())
        if time_s < least_s or self.share(time_s) < share:
            return None
        return Finding(
            rule=rule,
            severity="gain",
            rows=self.slowest_first(rows, by=by),
            saves_s=time_s,
            estimate="removed",
            params={"count": len(rows), "share": self.share(time_s), **params},
            options=options,
        )

    def slowest_first(self, rows: Iterable[int], by: Floats | None = None) -> tuple[int, ...]:
        """Return rows by descending device time (or `by`); equal times keep the file's order."""
        times = self.device_s if by is None else by
        return tuple(sorted((int(row) for row in rows), key=lambda row: -float(times[row])))


def _sound(times_s: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.where((times_s > 0) & (times_s <= LONGEST_S), times_s, 0.0)


def _lanes(intervals: Intervals) -> LaneUsage:
    with np.errstate(invalid="ignore"):
        sound = (
            (intervals.start_s >= 0)
            & (intervals.end_s >= intervals.start_s)
            & (intervals.end_s <= LONGEST_S)
        )
    if not sound.any():
        return LaneUsage(0.0, 0.0, 0.0, 0)
    start, end = intervals.start_s[sound], intervals.end_s[sound]
    lane = intervals.lanes.codes[sound]
    present = np.unique(lane)
    return LaneUsage(
        span_s=float(end.max() - start.min()),
        busy_s=max(_busy_s(start[lane == code], end[lane == code]) for code in present),
        first_s=float(start.min()),
        count=len(present),
    )


def _busy_s(start: Floats, end: Floats) -> float:
    """Return the length of the union of intervals."""
    order = np.argsort(start, kind="stable")
    start, reached = start[order], np.maximum.accumulate(end[order])
    gaps = np.maximum(start[1:] - reached[:-1], 0.0)
    return float(reached[-1] - start[0] - gaps.sum())
