"""The executed graph of a profile as columns: operators, variables, memory chunks, intervals.

Source: `graph_exec` and `profiler` of the JSON (MegEngine `src/core/impl/graph/*to_json*`,
`src/plugin/impl/profiler.cpp`). Unlike `ProfileColumns`, it includes operators that never run
because they are only used for shape inference.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from profiles.formats.columns import MISSING, TextColumn

Index = NDArray[np.int32]

#: flags of variables that several analyses use: parameters, constants and inputs; scratch memory
PERSISTENT, VOLATILE = "PERSISTENT_DEVICE_VALUE", "VOLATILE_CONTENT"


@dataclass(frozen=True, eq=False)
class Links:
    """One list of row numbers for each of n rows, in compressed sparse row form.

    ends: (n,) int64, end of each list in `targets`
    targets: (ends[-1],) int32
    """

    ends: NDArray[np.int64]
    targets: Index

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> Index:
        """Return the (k,) int32 list of one row."""
        start = self.ends[row - 1] if row else 0
        return self.targets[start : self.ends[row]]

    def lists(self) -> list[list[int]]:
        """Return all n lists as Python lists; twenty times as fast as indexing each row."""
        targets, ends = self.targets.tolist(), self.ends.tolist()
        return [targets[start:end] for start, end in pairwise([0, *ends])]


@dataclass(frozen=True, eq=False)
class Intervals:
    """The m intervals in which operators ran on one side, of one execution (the last).

    row: (m,) int32, row of `ProfileColumns`
    lanes: m names of comp nodes (device) or threads (host)
    start_s, kern_s, end_s: (m,) float64, s. The two sides have separate clocks with an unknown
        offset (`profiles/analysis/timeline.py`), except in a trace; the device's clock starts near
        the first execution. The operator waits from `start` to `kern` and computes from `kern` to
        `end`. Values are not corrected and may be reversed, negative, inf or nan; kern is nan if
        the file has none, and -1 if no kernel was observed.
    """

    row: Index
    lanes: TextColumn
    start_s: NDArray[np.float64]
    kern_s: NDArray[np.float64]
    end_s: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, eq=False)
class PassIntervals:
    """The intervals of both sides in one profiled pass."""

    device: Intervals
    host: Intervals


@dataclass(frozen=True, eq=False)
class Operators:
    """The g operators of `graph_exec.operator`, in the order of the file.

    row: (g,) int32, row of `ProfileColumns`, MISSING for an operator without times and footprint
    step: (g,) int32, position in the execution order (`comp_seq`), MISSING if it never runs
    params: compact JSON objects, such as `{"format":"NCHW","pad_h":1}`; missing without footprint
    inputs, outputs: rows of `Variables`
    """

    names: tuple[str, ...]
    ids: tuple[str, ...]
    types: TextColumn
    row: Index
    step: Index
    params: TextColumn
    inputs: Links
    outputs: Links

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Variables:
    """The v variables of `graph_exec.var`.

    shapes: compact JSON list, `[1,3,224,224]`; from the memory plan, else as inferred before the
        run, else from the footprint of an operator that reads or produces it; missing if none has
        it
    dtypes: as MegEngine writes them, `Float32`; missing for dynamically allocated variables
    comp_nodes: `CompNode("cpu0:0" from "xpux:0")`
    flags: space-separated, such as `PERSISTENT_DEVICE_VALUE` for a parameter
    producer: (v,) int32, row of `Operators`, MISSING for none
    chunk: (v,) int32, row of `Chunks`, MISSING for dynamically allocated ones
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    shapes: TextColumn
    dtypes: TextColumn
    comp_nodes: TextColumn
    flags: TextColumn
    producer: Index
    chunk: Index

    def __len__(self) -> int:
        return len(self.ids)

    def with_flag(self, flag: str) -> NDArray[np.bool_]:
        """Return (v,) bool, whether each variable has this flag."""
        return self.flags.where(lambda text: flag in text.split())


@dataclass(frozen=True, eq=False)
class Chunks:
    """The c memory chunks of `graph_exec.mem_chunk`.

    size_bytes: (c,) int64; owner: (c,) int32 row of `Variables`, MISSING if unknown
    address: (c,) uint64, device address; 0 if it has none (already freed)
    """

    size_bytes: NDArray[np.int64]
    owner: Index
    address: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.size_bytes)


@dataclass(frozen=True, eq=False)
class ExecutedGraph:
    """The graph that MegEngine executed.

    problems: names of missing or damaged sections of the file, whose data are incomplete here:
        `operator`, `var`, `mem_chunk`, `comp_seq`, `opr_footprint`, `device`, `host`, or
        `graph_exec` and `profiler` as a whole. The times of the table do not depend on them.
    """

    operators: Operators
    variables: Variables
    chunks: Chunks
    device: Intervals
    host: Intervals
    problems: tuple[str, ...] = ()

    def operator_of_row(self, rows: int) -> Index:
        """Return (rows,) int32: the row of `Operators` for each row of `ProfileColumns`."""
        operators = np.full(rows, MISSING, dtype=np.int32)
        known = np.flatnonzero(self.operators.row != MISSING)
        operators[self.operators.row[known]] = known
        return operators

    def execution_order(self) -> Index:
        """Return the rows of `Operators` that run, in order of execution."""
        running = np.flatnonzero(self.operators.step != MISSING)
        return running[np.argsort(self.operators.step[running], kind="stable")].astype(np.int32)

    def steps(self) -> Index:
        """Return (g,) int32: the place of each operator in `execution_order`, MISSING if it never
        runs.

        Places have no gaps, unlike `Operators.step`: the file may list operators that it does not
        describe, or one of them twice.
        """
        steps = np.full(len(self.operators), MISSING, dtype=np.int32)
        order = self.execution_order()
        steps[order] = np.arange(len(order), dtype=np.int32)
        return steps
