"""Read a profile exactly as MegEngine writes it, in less than half the time of the careful way.

Everything is typed, and ids are numbers, so that sections are joined by numpy and not by
dictionaries. What does not fit (damaged files, odd ids, `NaN`) is left to the careful way
(`load_and_run`), which names what is wrong.
"""

from dataclasses import dataclass
from itertools import chain
from mmap import mmap
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from profiles.formats.columns import NumberColumn, SideTimes, TextColumn
from profiles.formats.load_and_run.id_lists import Index, Places, id_array, id_lists
from profiles.formats.load_and_run.profile_schema import (
    StrictFile,
    StrictFootprint,
    StrictGraph,
    StrictTimes,
    StrictWiredGraph,
)
from profiles.formats.load_and_run.sections import Sections, coded, largest

_NAN = float("nan")


_WIRED_FILE = msgspec.json.Decoder(StrictFile[StrictWiredGraph])
_FILE = msgspec.json.Decoder(StrictFile[StrictGraph])
_FOOTPRINTS = msgspec.json.Decoder(list[StrictFootprint])
_NO_FOOTPRINT = Raw(b"{}")


def quick(data: bytes | mmap, *, dtypes: bool = True) -> Sections | None:
    """Return what is read, or None if the careful way has to look.

    dtypes: whether `in_dtypes` is read; else it is missing everywhere, and variables are not looked
        at, which are two thirds of a file
    """
    try:
        if not dtypes:
            return _sections(_FILE.decode(data), None)
        file = _WIRED_FILE.decode(data)
        inputs = _inputs(file.graph_exec)
        return None if inputs is None else _sections(file, inputs)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
        return None


def _sections(
    file: StrictFile[StrictGraph] | StrictFile[StrictWiredGraph], inputs: "_Inputs | None"
) -> Sections:
    """Join the sections; each is emptied once it was read, so that its memory serves the next."""
    profiler, every = file.profiler, list(file.graph_exec.operator.values())
    operators = Places(id_array(file.graph_exec.operator))
    count = len(every)
    device = _Side(profiler.device, operators, count)
    host = _Side(profiler.host, operators, count)
    footprints = _at(profiler.opr_footprint, operators, count)
    rows = np.flatnonzero(device.named | host.named | (footprints >= 0))
    kept = [every[row] for row in rows.tolist()]
    costs, different = _costs(profiler.opr_footprint, footprints[rows])
    return Sections(
        names=[operator.name for operator in kept],
        ids=[operator.id for operator in kept],
        types=[operator.type for operator in kept],
        device=device.times(rows),
        host=host.times(rows),
        computation=_numbers([each.computation or _NAN for each in different], costs),
        memory=_numbers([each.memory for each in different], costs),
        costs=costs,
        in_shapes=[bytes(each.in_shapes) for each in different],
        out_shapes=[bytes(each.out_shapes) for each in different],
        in_layouts=[bytes(each.in_layouts) for each in different],
        in_dtypes=inputs.dtypes(rows) if inputs else TextColumn.missing(len(rows)),
    )


def _at(section: dict[int, Any], operators: Places, count: int) -> Index:
    """Return (count,) for each operator its place in a section, -1 if it is not there."""
    places = operators.find(id_array(section))
    at = np.full(count, -1, dtype=np.intp)
    known = np.flatnonzero(places >= 0)
    at[places[known]] = known
    return at


class _Side:
    """Times of one side, by operator.

    named: (count,) bool, the section names the operator, if only without times
    """

    def __init__(
        self, section: dict[int, dict[str, StrictTimes]], operators: Places, count: int
    ) -> None:
        nodes = list(section.values())
        at = _at(section, operators, count)
        self.named = at >= 0
        self._at = at
        self._counts = np.fromiter(map(len, nodes), dtype=np.intp, count=len(nodes))
        times = list(chain.from_iterable(map(dict.values, nodes)))
        start, end, kern = (
            np.fromiter(map(attrgetter(field), times), np.float64, len(times))
            for field in ("start", "end", "kern")
        )
        with np.errstate(invalid="ignore", over="ignore"):
            self._end_s = largest(end - start, self._counts)
            self._kern_s = largest(kern - start, self._counts)
        section.clear()

    def times(self, rows: Index) -> SideTimes:
        """Return the times of some operators."""
        at = self._at[rows]
        present = at >= 0
        present[present] = self._counts[at[present]] > 0
        end_s, kern_s = np.full((2, len(rows)), np.nan)
        end_s[present] = self._end_s[at[present]]
        kern_s[present] = self._kern_s[at[present]]
        return SideTimes(present=present, end_s=end_s, kern_s=kern_s)


def _costs(section: dict[int, Raw], at: Index) -> tuple[Index, list[StrictFootprint]]:
    """Decode each different footprint once: a network repeats its layers."""
    # the last, at -1, stands for all that have none
    every = [*section.values(), _NO_FOOTPRINT]
    section.clear()
    codes, different = coded([bytes(every[place]) for place in at.tolist()])
    return codes, _FOOTPRINTS.decode(b"[" + b",".join(different) + b"]")


def _numbers(values: list[float], costs: Index) -> NumberColumn:
    """A file that has nan itself is not read here, so nan means: none."""
    column = np.array(values, dtype=np.float64)[costs]
    return NumberColumn(column, ~np.isnan(column))


@dataclass(frozen=True, eq=False)
class _Inputs:
    """The variables of all n operators.

    codes: (v,) of the variables' dtypes; names: the different ones
    lengths: (2 n,) of the lists of inputs and of outputs, in turns
    places: all their variables, one after the other
    """

    codes: Index
    names: list[str | None]
    lengths: Index
    places: Index

    def dtypes(self, rows: Index) -> TextColumn:
        """Return the dtypes of the inputs of some operators, each as a JSON list."""
        ends = np.cumsum(self.lengths)[::2][rows]
        starts = ends - self.lengths[::2][rows]
        # equal lists have equal bytes
        data, size = self.codes[self.places].tobytes(), self.codes.itemsize
        lists = [
            data[start:end]
            for start, end in zip((starts * size).tolist(), (ends * size).tolist(), strict=True)
        ]
        which, different = coded(lists)
        texts = [self._text(np.frombuffer(each, self.codes.dtype)) for each in different]
        return TextColumn(which.astype(np.int32), tuple(texts))

    def _text(self, codes: Index) -> str:
        return msgspec.json.encode([self.names[code] for code in codes]).decode()


def _inputs(graph: StrictWiredGraph) -> _Inputs | None:
    """Return None if anything but plain ids of known variables stands in the lists."""
    every = graph.operator.values()
    read = id_lists(list(chain.from_iterable(map(attrgetter("input", "output"), every))))
    if read is None:
        return None
    lengths, ids = read
    places = Places(id_array(graph.var)).find(ids)
    if (places < 0).any():
        return None
    codes, names = coded([each.dtype for each in graph.var.values()])
    graph.var.clear()
    return _Inputs(codes, names, lengths, places)
