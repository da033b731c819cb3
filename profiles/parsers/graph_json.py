"""Read the executed graph out of a profile's JSON; see `graph` for what it holds.

It is decoded apart from the table's columns (`load_and_run`): most questions need no graph, and
decoding it takes as long again. What is damaged here costs the pictures, never the table.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct
from numpy.typing import NDArray

from profiles.parsers.columns import MISSING, ProfileColumns, TextColumn
from profiles.parsers.errors import ProfileFormatError
from profiles.parsers.graph import (
    Chunks,
    ExecutedGraph,
    Index,
    Intervals,
    Links,
    Operators,
    Variables,
)
from profiles.parsers.numbers import to_float64
from profiles.parsers.profile_json import respelled


class _Operator(Struct, gc=False):
    name: str = ""
    type: str = ""
    id: str | int = ""
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()


class _Layout(Struct, gc=False):
    dtype: str | None = None
    shape: Raw = Raw(b"")


class _MemPlan(Struct, gc=False):
    layout: _Layout | None = None
    mem_chunk_id: str | None = None
    offset_byte: Any = 0


class _Inferred(Struct, gc=False):
    inferred_result: Raw = Raw(b"")


class _Tags(Struct, gc=False):
    SHAPE: _Inferred | None = None


class _Var(Struct, gc=False):
    name: str = ""
    comp_node: str | None = None
    flag: tuple[str, ...] = ()
    mem_plan: _MemPlan | None = None
    static_infer_tags: _Tags | None = None


class _Chunk(Struct, gc=False):
    size: Any = 0
    owner_var: str | None = None
    dev_ptr: Any = 0


class _Graph(Struct, gc=False):
    operator: dict[str, _Operator] = {}
    var: dict[str, _Var] = {}
    mem_chunk: dict[str, _Chunk] = {}
    comp_seq: tuple[str, ...] = ()


class _Times(Struct, gc=False):
    start: Any = None
    kern: Any = None
    end: Any = None


class _Footprint(Struct, gc=False):
    param: Raw = Raw(b"")
    out_shapes: Raw = Raw(b"")


class _Profiler(Struct, gc=False):
    device: dict[str, dict[str, _Times]] = {}
    host: dict[str, dict[str, _Times]] = {}
    opr_footprint: dict[str, _Footprint] = {}


class _File(Struct, gc=False):
    profiler: _Profiler
    graph_exec: _Graph


_FILE = msgspec.json.Decoder(_File)


def parse_graph(data: bytes, columns: ProfileColumns) -> ExecutedGraph:
    """Return the executed graph of a profile whose table is `columns`.

    Raises ProfileFormatError (`graph_unreadable`) if its graph has the wrong form.
    """
    file = _decode(data)
    graph, footprints = file.graph_exec, file.profiler.opr_footprint
    keys = tuple(graph.operator)
    rows = {key: row for row, key in enumerate(_table_keys(file))}
    if len(rows) != len(columns):
        raise ProfileFormatError("graph_unreadable", "The graph and the table disagree.")
    operators = _operators(graph, footprints, rows)
    variables = _variables(graph, footprints, operators)
    return ExecutedGraph(
        operators=operators,
        variables=variables,
        chunks=_chunks(graph),
        device=_intervals(file.profiler.device, rows, "device"),
        host=_intervals(file.profiler.host, rows, "host"),
        problems=tuple(
            name
            for name, is_there in (("comp_seq", graph.comp_seq), ("mem_chunk", graph.mem_chunk))
            if keys and not is_there
        ),
    )


def _decode(data: bytes) -> _File:
    try:
        return _FILE.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _FILE.decode(respelled(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProfileFormatError(
            "graph_unreadable", f"The executed graph cannot be read: {error}."
        ) from None


def _table_keys(file: _File) -> list[str]:
    """Keys of the operators that `ProfileColumns` has, in its order."""
    profiler = file.profiler
    timed = profiler.device.keys() | profiler.host.keys() | profiler.opr_footprint.keys()
    return [key for key in file.graph_exec.operator if key in timed]


def _links(lists: Sequence[Sequence[str]], known: Mapping[str, int]) -> Links:
    found = [[known[key] for key in keys if key in known] for keys in lists]
    return Links(
        ends=np.cumsum([len(each) for each in found], dtype=np.int64),
        targets=np.array(list(chain.from_iterable(found)), dtype=np.int32),
    )


def _codes(keys: Sequence[str | None], known: Mapping[str, int]) -> Index:
    return np.array(
        [MISSING if key is None else known.get(key, MISSING) for key in keys], dtype=np.int32
    )


def _operators(
    graph: _Graph, footprints: Mapping[str, _Footprint], rows: Mapping[str, int]
) -> Operators:
    keys, operators = tuple(graph.operator), tuple(graph.operator.values())
    variables = {key: place for place, key in enumerate(graph.var)}
    # an operator that is named twice ran at its first place
    steps = {key: step for step, key in reversed(list(enumerate(graph.comp_seq)))}
    params = [footprints[key].param if key in footprints else Raw(b"") for key in keys]
    return Operators(
        names=tuple(operator.name for operator in operators),
        ids=tuple(str(operator.id) for operator in operators),
        types=TextColumn.from_texts([operator.type for operator in operators]),
        row=_codes(keys, rows),
        step=_codes(keys, steps),
        params=_compact(params),
        inputs=_links([operator.input for operator in operators], variables),
        outputs=_links([operator.output for operator in operators], variables),
    )


def _variables(
    graph: _Graph, footprints: Mapping[str, _Footprint], operators: Operators
) -> Variables:
    variables = tuple(graph.var.values())
    chunks = {key: place for place, key in enumerate(graph.mem_chunk)}
    plans = [variable.mem_plan for variable in variables]
    layouts = [None if plan is None else plan.layout for plan in plans]
    producer = np.full(len(variables), MISSING, dtype=np.int32)
    for place, made in enumerate(operators.outputs):
        producer[made] = place
    shapes = _shapes(graph, footprints, operators)
    return Variables(
        ids=tuple(graph.var),
        names=tuple(variable.name for variable in variables),
        shapes=TextColumn.from_texts(shapes),
        dtypes=TextColumn.from_texts([None if each is None else each.dtype for each in layouts]),
        comp_nodes=TextColumn.from_texts([variable.comp_node for variable in variables]),
        flags=TextColumn.from_texts([" ".join(variable.flag) for variable in variables]),
        producer=producer,
        chunk=_codes([None if plan is None else plan.mem_chunk_id for plan in plans], chunks),
        chunk_offset=_whole([0 if plan is None else plan.offset_byte for plan in plans]),
    )


def _shapes(
    graph: _Graph, footprints: Mapping[str, _Footprint], operators: Operators
) -> list[str | None]:
    """The shape of each variable: of its memory, else as inferred, else as its operator tells."""
    known: dict[bytes, str | None] = {b"": None}

    def compact(raw: Raw) -> str | None:
        text = bytes(raw)
        if text not in known:
            known[text] = _axes(msgspec.json.decode(text))
        return known[text]

    shapes = []
    for variable in graph.var.values():
        layout = variable.mem_plan.layout if variable.mem_plan else None
        tags = variable.static_infer_tags
        inferred = tags.SHAPE.inferred_result if tags and tags.SHAPE else Raw(b"")
        shapes.append(compact(layout.shape) if layout else compact(inferred))
    for key, outputs in zip(graph.operator, operators.outputs, strict=True):
        if key not in footprints or not any(shapes[place] is None for place in outputs.tolist()):
            continue
        told = msgspec.json.decode(footprints[key].out_shapes or b"null")
        for place, axes in zip(outputs.tolist(), told or (), strict=False):
            shapes[place] = shapes[place] or _axes(axes)
    return shapes


def _axes(value: Any) -> str | None:
    if isinstance(value, list) and all(type(axis) is int for axis in value):
        return msgspec.json.encode(value).decode()
    return None


def _compact(raws: Sequence[Raw]) -> TextColumn:
    known: dict[bytes, str | None] = {b"": None}
    texts = []
    for raw in raws:
        text = bytes(raw)
        if text not in known:
            known[text] = msgspec.json.encode(msgspec.json.decode(text)).decode()
        texts.append(known[text])
    return TextColumn.from_texts(texts)


def _chunks(graph: _Graph) -> Chunks:
    chunks = tuple(graph.mem_chunk.values())
    variables = {key: place for place, key in enumerate(graph.var)}
    return Chunks(
        ids=tuple(graph.mem_chunk),
        size_bytes=_whole([chunk.size for chunk in chunks]),
        owner=_codes([chunk.owner_var for chunk in chunks], variables),
        address=_whole([chunk.dev_ptr for chunk in chunks]).astype(np.uint64),
    )


def _whole(values: Sequence[Any]) -> NDArray[np.int64]:
    """Whole numbers that fit; anything else is 0."""
    return np.array([v if type(v) is int and 0 <= v < 2**63 else 0 for v in values], dtype=np.int64)


def _intervals(
    entries: Mapping[str, Mapping[str, _Times]], rows: Mapping[str, int], side: str
) -> Intervals:
    found = [
        (rows[key], lane, times)
        for key, lanes in entries.items()
        if key in rows
        for lane, times in lanes.items()
    ]

    def seconds(values: list[Any]) -> NDArray[np.float64]:
        return to_float64(
            [np.nan if value is None else value for value in values],
            lambda index: f"`profiler.{side}` entry of lane {found[index][1]!r}",
        )

    return Intervals(
        row=np.array([row for row, _, _ in found], dtype=np.int32),
        lanes=TextColumn.from_texts([lane for _, lane, _ in found]),
        start_s=seconds([times.start for _, _, times in found]),
        kern_s=seconds([times.kern for _, _, times in found]),
        end_s=seconds([times.end for _, _, times in found]),
    )
