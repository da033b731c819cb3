"""The data of one profile for pages and analyses: columns, spread over passes, executed graph."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from profiles.analysis.durations import TimeUnit, unit_of
from profiles.formats.columns import ProfileColumns, Side, SideTimes, take_rows
from profiles.formats.load_and_run.graph import ExecutedGraph, PassIntervals

Floats = NDArray[np.float64]
Summary = TypeVar("Summary")


@dataclass(frozen=True, eq=False)
class Spread:
    """Self times of n operators on one side in k profiled passes, each one sample of each operator.

    present: (k, n) bool, the pass timed the operator
    end_s, kern_s: (k, n) float64, s, as in `SideTimes`; nan where a pass has none
    count: (n,) int64, passes that timed the operator
    median_s, p10_s, p90_s, min_s: (n,) float64, s, of `end_s`; nan without samples. Percentiles
        interpolate linearly between the two nearest samples, as numpy's default does.
    cv: (n,) float64, standard deviation (n - 1) / mean; nan below two samples or for a mean that
        is not positive
    """

    present: NDArray[np.bool_]
    end_s: Floats
    kern_s: Floats
    count: NDArray[np.int64]
    median_s: Floats
    p10_s: Floats
    p90_s: Floats
    min_s: Floats
    cv: Floats


class LeftOut(NamedTuple):
    """A file of the run that could not be merged into the profile.

    code: an error code of `formats.errors`, `analysis.errors` or `webprofile.errors`,
        `other_graph`, or `disturbed`
    detail: the reason as an English sentence
    """

    name: str
    code: str
    detail: str


@dataclass(frozen=True, eq=False)
class ProfileData:
    """One profile, possibly of several passes over the same graph.

    columns: with one pass, the columns of its file. With several, times are medians over the
        passes, an operator counts as timed if any pass timed it, and all other columns are those of
        the first pass.
    load_graph: loads the executed graph of the first pass; `graph` calls it once
    load_intervals: loads the intervals of a later pass, counted from 0
    on_gpu: (n,) bool, the operator ran on a computing node of a GPU
    order: (k, n) int32, the rows in the order of each pass's own file
    passes: names of the k merged files, `profile.json`, `profile-2.json` ...; the first one leads
    left_out: files that could not be merged
    summaries: of other files of the run as JSON, by the file's kind: `trace`
        (`chrome_trace.summary`), `memory_flow` (`memory_flow.summary`), `static_memory`
        (`static_memory.summary`)

    If the run has no file of a kind that holds operators, the profile has no operators and no
    passes.
    """

    columns: ProfileColumns
    load_graph: Callable[[], ExecutedGraph]
    load_intervals: Callable[[int], PassIntervals]
    device: Spread
    host: Spread
    on_gpu: NDArray[np.bool_]
    order: NDArray[np.int32]
    passes: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    summaries: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def has_operators(self) -> bool:
        """Whether the run has a file of a kind that holds operators, even if that file has none."""
        return bool(self.passes)

    def summary(self, kind: str, form: type[Summary]) -> Summary | None:
        """Return the summary of the run's file of this kind, or None if there is no such file."""
        kept = self.summaries.get(kind)
        return None if kept is None else msgspec.json.decode(kept, type=form)

    @cached_property
    def graph(self) -> ExecutedGraph:
        """The executed graph of the first pass, with its intervals."""
        return self.load_graph()

    def graph_of_pass(self, number: int) -> ExecutedGraph:
        """Return the executed graph with the intervals of one pass (counted from 0)."""
        if number == 0:
            return self.graph
        intervals = self.load_intervals(number)
        return replace(self.graph, device=intervals.device, host=intervals.host)

    def spread(self, side: Side) -> Spread:
        return self.device if side == "device" else self.host

    def unit(self, side: Side) -> TimeUnit:
        """Return the unit in which pages show the self times of the operators of a side."""
        times_s = self.columns.times(side).end_s
        timed = times_s[np.isfinite(times_s)]
        return unit_of([float(timed.max())] if len(timed) else [])

    def of_pass(self, number: int) -> "ProfileData":
        """Return the same rows with the times of one pass (counted from 0) instead of the medians.

        The spread remains that of all passes.
        """

        def times(spread: Spread) -> SideTimes:
            return SideTimes(spread.present[number], spread.end_s[number], spread.kern_s[number])

        columns = replace(self.columns, device=times(self.device), host=times(self.host))
        return replace(self, columns=columns)

    def columns_of_pass(self, number: int) -> ProfileColumns:
        """Return the columns of one pass (counted from 0) with its times, in the order of its own
        file.

        The footprints are those of the first pass.
        """
        columns = self.of_pass(number).columns
        return columns if number == 0 else take_rows(columns, self.order[number])

    def times_of_pass(self, number: int, side: Side) -> SideTimes:
        """Return the times of one pass (counted from 0) in the order of its own file.

        In this order, the sum has the same digits as the total that `profile_analyze` prints for
        the file.
        """
        return take_rows(self.of_pass(number).columns.times(side), self.order[number])
