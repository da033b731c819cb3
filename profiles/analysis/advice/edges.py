"""Producers and readers of the variables of the executed graph."""

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.advice.operator_types import CONSTANTS
from profiles.formats.columns import MISSING
from profiles.formats.load_and_run.graph import ExecutedGraph, Index

Mask = NDArray[np.bool_]

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
