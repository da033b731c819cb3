"""Schemas of a profile's JSON, and of the graph.json of a memory plan.

The format is that of MegEngine's `GraphProfiler::to_json` and `ComputingGraph` dump
(`src/plugin/impl/profiler.cpp`, unchanged from 1.4 to 1.13). Only fields that the site uses are
declared.

The classes whose names begin with `Strict` belong to the fast reader, which requires numeric ids
and values. The other classes belong to the lenient reader, which reads the files that do not match;
it has `Any` for values that our own code checks, since these errors name the operator.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from msgspec import UNSET, Raw, Struct

NOTHING = Raw(b"")
_NAN = float("nan")


class Times(Struct, gc=False):
    """One execution on one node or thread, seconds."""

    start: Any = UNSET
    kern: Any = UNSET
    end: Any = UNSET


class Footprint(Struct, gc=False):
    """The cost of one execution. Shapes are not decoded, since few of them are distinct."""

    computation: Any = None
    memory: Any = UNSET
    in_shapes: Raw = NOTHING
    out_shapes: Raw = NOTHING
    in_layouts: Raw = NOTHING
    param: Raw = NOTHING


class Profiler(Struct, gc=False):
    """Times by operator id and node or thread, and footprints by operator id."""

    device: dict[str, dict[str, Times]]
    host: dict[str, dict[str, Times]]
    opr_footprint: dict[str, Footprint] = {}


class Operator(Struct, gc=False):
    """An operator of the executed graph; `input` and `output` are ids of variables."""

    name: str = ""
    type: str = ""
    id: str | int = ""
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()


class TableOperator(Operator, gc=False):
    """An operator for the table, where all fields are required."""

    name: str
    type: str
    id: str | int
    input: tuple[str, ...]
    output: tuple[str, ...]


class TensorLayout(Struct, gc=False):
    """A tensor's layout."""

    dtype: str | None = None


class MemPlan(Struct, gc=False):
    """The memory of a variable."""

    layout: TensorLayout | None = None


class Var(Struct, gc=False):
    """A variable; `mem_plan` is null if its memory is allocated dynamically."""

    mem_plan: MemPlan | None = None

    @property
    def dtype(self) -> str | None:
        """None for a variable without memory."""
        plan = self.mem_plan
        return None if plan is None or plan.layout is None else plan.layout.dtype


class GraphLayout(TensorLayout, gc=False):
    """A layout with the shape, as JSON."""

    shape: Raw = NOTHING


class GraphMemPlan(MemPlan, gc=False):
    """The memory of a variable, with its chunk."""

    layout: GraphLayout | None = None
    mem_chunk_id: str | None = None


class InferredValue(Struct, gc=False):
    """A value that MegEngine inferred before the run, as JSON."""

    inferred_result: Raw = NOTHING


class Tags(Struct, gc=False):
    """The values that MegEngine infers statically for a variable."""

    SHAPE: InferredValue | None = None


class GraphVar(Var, gc=False):
    """A variable for the graph views."""

    name: str = ""
    comp_node: str | None = None
    flag: tuple[str, ...] = ()
    mem_plan: GraphMemPlan | None = None
    static_infer_tags: Tags | None = None

    @property
    def inferred_shape(self) -> Raw:
        """The statically inferred shape as JSON; empty if there is none."""
        tags = self.static_infer_tags
        return tags.SHAPE.inferred_result if tags and tags.SHAPE else NOTHING


class MemoryChunk(Struct, gc=False):
    """A memory chunk; sizes in bytes."""

    size: Any = 0
    owner_var: str | None = None
    dev_ptr: Any = 0


class TableGraph(Struct, gc=False):
    """The executed graph, restricted to the table's fields."""

    operator: Mapping[str, TableOperator]
    var: Mapping[str, Var]


class Graph(Struct, gc=False):
    """The executed graph for the graph views; all sections are optional."""

    operator: Mapping[str, Operator] = {}
    var: Mapping[str, GraphVar] = {}
    mem_chunk: Mapping[str, MemoryChunk] = {}
    comp_seq: tuple[str, ...] = ()


class WholeGraph(Graph, gc=False):
    """The executed graph for the table and the graph views."""

    operator: Mapping[str, TableOperator]
    var: Mapping[str, GraphVar]


class OrderedGraph(Struct, gc=False):
    """Operators and the order in which they ran."""

    operator: dict[str, Operator]
    comp_seq: tuple[str, ...]


class PlanGraph(OrderedGraph, gc=False):
    """The graph.json of a memory plan."""

    var: dict[str, GraphVar]


AnyGraph = TypeVar("AnyGraph", TableGraph, Graph, WholeGraph)


class ProfileFile(Struct, Generic[AnyGraph], gc=False):
    """The whole file."""

    profiler: Profiler
    graph_exec: AnyGraph

    def table_keys(self) -> list[str]:
        """Return the keys of the operators in `ProfileColumns`, in its order."""
        return table_keys(self.profiler, self.graph_exec.operator)


class TimesProfiler(Struct, gc=False):
    """`Profiler` with footprints that are not decoded."""

    device: dict[str, dict[str, Times]]
    host: dict[str, dict[str, Times]]
    opr_footprint: dict[str, Raw] = {}


class KeysGraph(Struct, gc=False):
    """The operators, which are not decoded."""

    operator: dict[str, Raw]


class TimesFile(Struct, gc=False):
    """The times of the file."""

    profiler: TimesProfiler
    graph_exec: KeysGraph


def table_keys(profiler: Profiler | TimesProfiler, operators: Iterable[str]) -> list[str]:
    """Return the keys of the operators that have times or a footprint, in the order of the file."""
    data = profiler.device.keys() | profiler.host.keys() | profiler.opr_footprint.keys()
    return [key for key in operators if key in data]


class StrictTimes(Struct, gc=False):
    """`Times` as MegEngine writes them."""

    start: float
    end: float
    kern: float = _NAN


class StrictFootprint(Struct, gc=False):
    """`Footprint` as MegEngine writes it."""

    computation: float | None = None
    memory: float = _NAN
    in_shapes: Raw = NOTHING
    out_shapes: Raw = NOTHING
    in_layouts: Raw = NOTHING


class StrictOperator(Struct, gc=False):
    """`Operator` as MegEngine writes it, without its variables."""

    name: str
    type: str
    id: str


class StrictWiredOperator(StrictOperator, gc=False):
    """The same with the lists of its variables' ids, as JSON."""

    input: Raw
    output: Raw


class StrictProfiler(Struct, gc=False):
    """`Profiler` with numeric ids; each distinct footprint is decoded once."""

    device: dict[int, dict[str, StrictTimes]]
    host: dict[int, dict[str, StrictTimes]]
    opr_footprint: dict[int, Raw] = {}


class StrictGraph(Struct, gc=False):
    """The graph without its variables."""

    operator: dict[int, StrictOperator]


class StrictWiredGraph(Struct, gc=False):
    """The graph with its variables."""

    operator: dict[int, StrictWiredOperator]
    var: dict[int, Var]


AnyStrictGraph = TypeVar("AnyStrictGraph", StrictGraph, StrictWiredGraph)


class StrictFile(Struct, Generic[AnyStrictGraph], gc=False):
    """The whole file."""

    profiler: StrictProfiler
    graph_exec: AnyStrictGraph
