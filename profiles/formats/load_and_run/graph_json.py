"""Read the executed graph (`graph.ExecutedGraph`) from a profile's JSON.

Most pages need no graph, so the graph has separate decoders; `reader.parse_whole` decodes a file
once for both. Damage in these sections affects the graph views only, never the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, Raw
from numpy.typing import NDArray

from profiles.formats.columns import MISSING, ProfileColumns, Side, TextColumn
from profiles.formats.detection import without_mark
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.graph import (
    Chunks,
    ExecutedGraph,
    Index,
    Intervals,
    Links,
    Operators,
    PassIntervals,
    Variables,
)
from profiles.formats.load_and_run.profile_json import quote_special_numbers
from profiles.formats.load_and_run.profile_schema import (
    Footprint,
    Graph,
    GraphVar,
    MemoryChunk,
    Operator,
    ProfileFile,
    Profiler,
    Times,
    TimesFile,
    WholeGraph,
    table_keys,
)
from profiles.formats.load_and_run.sections import dictionary_encode, to_float64

GraphFile = ProfileFile[Graph]
AnyFile = GraphFile | ProfileFile[WholeGraph]
_NO_FOOTPRINT = Footprint()
_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: decoders for single sections, since the document as a whole does not match the schema
_PARTS = msgspec.json.Decoder(dict[str, Raw])
_ENTRIES: dict[str, msgspec.json.Decoder[Any]] = {
    "operator": msgspec.json.Decoder(Operator),
    "var": msgspec.json.Decoder(GraphVar),
    "mem_chunk": msgspec.json.Decoder(MemoryChunk),
    "device": msgspec.json.Decoder(dict[str, Times]),
    "host": msgspec.json.Decoder(dict[str, Times]),
    "opr_footprint": msgspec.json.Decoder(Footprint),
}
#: decoder of files of which only the times are needed
_TIMES = msgspec.json.Decoder(TimesFile)
_STEPS = msgspec.json.Decoder(tuple[str, ...])


def empty_graph(problems: tuple[str, ...] = ()) -> ExecutedGraph:
    """Return a graph without operators, for a file whose graph is unusable."""
    return replace(_built(GraphFile(Profiler({}, {}), Graph()), {}), problems=problems)


def parse_graph(data: bytes, columns: ProfileColumns) -> ExecutedGraph:
    """Return the executed graph of a profile whose table is `columns`.

    Damaged sections are left out and named in `problems`; unknown ids are ignored.
    Raises ProfileFormatError (`graph_unreadable`) if the file is not JSON or nested too deeply.
    """
    try:
        file, problems = _decode(quote_special_numbers(without_mark(data)))
    except _DAMAGE as error:
        raise ProfileFormatError(
            "graph_unreadable", f"The executed graph cannot be read: {error}."
        ) from None
    return graph_of(file, columns, problems)


def parse_intervals(data: bytes, columns: ProfileColumns) -> PassIntervals:
    """Return the intervals of a profile whose table is `columns`; empty ones if they are damaged.

    It takes a tenth of the time of `parse_graph`.
    """
    data = without_mark(data)
    try:
        try:
            file = _TIMES.decode(data)
        except msgspec.DecodeError:
            file = _TIMES.decode(quote_special_numbers(data))
        keys = table_keys(file.profiler, file.graph_exec.operator)
        rows = {key: row for row, key in enumerate(keys)} if len(keys) == len(columns) else {}
        return PassIntervals(
            _intervals(file.profiler.device, rows), _intervals(file.profiler.host, rows)
        )
    except (*_DAMAGE, ProfileFormatError):
        return no_intervals()


def no_intervals() -> PassIntervals:
    return PassIntervals(_intervals({}, {}), _intervals({}, {}))


def graph_of(file: AnyFile, columns: ProfileColumns, problems: Sequence[str] = ()) -> ExecutedGraph:
    """Return the executed graph of a decoded file, adding to `problems` of the decoding."""
    rows = {key: row for row, key in enumerate(file.table_keys())}
    if len(rows) != len(columns):
        return empty_graph((*problems, "operator"))
    graph = file.graph_exec
    missing = [
        name
        for name in ("comp_seq", "mem_chunk", "var")
        if graph.operator and not getattr(graph, name)
    ]
    built = _built(file, rows)
    return replace(built, problems=tuple(dict.fromkeys([*problems, *missing, *built.problems])))


def _built(file: AnyFile, rows: Mapping[str, int]) -> ExecutedGraph:
    graph, footprints = file.graph_exec, file.profiler.opr_footprint
    operators = _operators(graph, footprints, rows)
    problems = list[str]()

    def intervals(side: Side) -> Intervals:
        try:
            return _intervals(getattr(file.profiler, side), rows)
        except ProfileFormatError:  # a time is not a number
            problems.append(side)
            return _intervals({}, rows)

    return ExecutedGraph(
        operators=operators,
        variables=_variables(graph, footprints, operators),
        chunks=_chunks(graph),
        device=intervals("device"),
        host=intervals("host"),
        problems=tuple(problems),
    )


def _decode(data: bytes) -> tuple[GraphFile, list[str]]:
    """Return the file, decoded entry by entry, and the names of damaged sections."""
    problems: list[str] = []
    file = _PARTS.decode(data)
    profiler, graph = (
        _parts(file.get(name, Raw(b"{}")), name, problems) for name in ("profiler", "graph_exec")
    )

    def section(parts: Mapping[str, Raw], name: str) -> dict[str, Any]:
        entries = _parts(parts.get(name, Raw(b"{}")), name, problems)
        return {key: _entry(raw, name, problems) for key, raw in entries.items()}

    try:
        steps = _STEPS.decode(graph.get("comp_seq", Raw(b"[]")))
    except _DAMAGE:
        steps = ()
    decoded = GraphFile(
        Profiler(*(section(profiler, name) for name in ("device", "host", "opr_footprint"))),
        Graph(
            operator=section(graph, "operator"),
            var=section(graph, "var"),
            mem_chunk=section(graph, "mem_chunk"),
            comp_seq=steps,
        ),
    )
    return decoded, list(dict.fromkeys(problems))


def _parts(raw: Raw, name: str, problems: list[str]) -> dict[str, Raw]:
    try:
        return _PARTS.decode(raw)
    except _DAMAGE:
        problems.append(name)
        return {}


def _entry(raw: Raw, section: str, problems: list[str]) -> Any:
    """Decode an entry of a section; a damaged one becomes empty, so that rows stay aligned."""
    try:
        return _ENTRIES[section].decode(raw)
    except _DAMAGE:
        problems.append(section)
        return _ENTRIES[section].decode(b"{}")


def _links(lists: Sequence[Sequence[str]], known: Mapping[str, int]) -> Links:
    rows = [[known[key] for key in keys if key in known] for keys in lists]
    return Links(
        ends=np.cumsum([len(targets) for targets in rows], dtype=np.int64),
        targets=np.array(list(chain.from_iterable(rows)), dtype=np.int32),
    )


def _codes(keys: Sequence[str | None], known: Mapping[str, int]) -> Index:
    return np.array(
        [MISSING if key is None else known.get(key, MISSING) for key in keys], dtype=np.int32
    )


def _operators(
    graph: Graph, footprints: Mapping[str, Footprint], rows: Mapping[str, int]
) -> Operators:
    keys, operators = tuple(graph.operator), tuple(graph.operator.values())
    variables = {key: index for index, key in enumerate(graph.var)}
    # of an operator that is listed twice, the first position counts
    steps = {key: step for step, key in reversed(list(enumerate(graph.comp_seq)))}
    params = [footprints.get(key, _NO_FOOTPRINT).param for key in keys]
    return Operators(
        names=tuple(operator.name for operator in operators),
        ids=tuple(str(operator.id) for operator in operators),
        types=TextColumn.from_texts([operator.type for operator in operators]),
        row=_codes(keys, rows),
        step=_codes(keys, steps),
        params=_compact_column(params),
        inputs=_links([operator.input for operator in operators], variables),
        outputs=_links([operator.output for operator in operators], variables),
    )


def _variables(
    graph: Graph, footprints: Mapping[str, Footprint], operators: Operators
) -> Variables:
    variables = tuple(graph.var.values())
    chunks = {key: row for row, key in enumerate(graph.mem_chunk)}
    plans = [variable.mem_plan for variable in variables]
    producer = np.full(len(variables), MISSING, dtype=np.int32)
    for row, variables_made in enumerate(operators.outputs.lists()):
        producer[variables_made] = row
    shapes = _shapes(graph, footprints, operators)
    return Variables(
        ids=tuple(graph.var),
        names=tuple(variable.name for variable in variables),
        shapes=TextColumn.from_texts(shapes),
        dtypes=TextColumn.from_texts([variable.dtype for variable in variables]),
        comp_nodes=TextColumn.from_texts([variable.comp_node for variable in variables]),
        flags=TextColumn.from_texts([" ".join(variable.flag) for variable in variables]),
        producer=producer,
        chunk=_codes([None if plan is None else plan.mem_chunk_id for plan in plans], chunks),
    )


def _shapes(
    graph: Graph, footprints: Mapping[str, Footprint], operators: Operators
) -> list[str | None]:
    """The shape of each variable as compact JSON, None if it is unknown.

    It comes from the memory plan, else as inferred before the run, else from the footprint of an
    operator that reads it (only these have the shapes of graph inputs), else of its producer.
    """
    known = []
    for variable in graph.var.values():
        layout = variable.mem_plan.layout if variable.mem_plan else None
        known.append(bytes(layout.shape if layout else variable.inferred_shape))
    codes, different = dictionary_encode(known)
    texts = [_axes(_value(raw)) for raw in different]
    shapes = [texts[code] for code in codes.tolist()]
    costs = [footprints.get(key, _NO_FOOTPRINT) for key in graph.operator]
    for links, raws in (
        (operators.inputs, [cost.in_shapes for cost in costs]),
        (operators.outputs, [cost.out_shapes for cost in costs]),
    ):
        for rows, raw in zip(links.lists(), raws, strict=True):
            if not bytes(raw) or all(shapes[row] is not None for row in rows):
                continue
            lists = _value(raw)
            for row, axes in zip(rows, lists if isinstance(lists, list) else (), strict=False):
                shapes[row] = shapes[row] or _axes(axes)
    return shapes


def _chunks(graph: Graph) -> Chunks:
    chunks = tuple(graph.mem_chunk.values())
    variables = {key: row for row, key in enumerate(graph.var)}
    return Chunks(
        size_bytes=_whole([chunk.size for chunk in chunks]),
        owner=_codes([chunk.owner_var for chunk in chunks], variables),
        address=_addresses([chunk.dev_ptr for chunk in chunks]),
    )


def _whole(values: Sequence[Any]) -> NDArray[np.int64]:
    """Non-negative integers as int64; anything else becomes 0."""
    return np.array([v if type(v) is int and 0 <= v < 2**63 else 0 for v in values], dtype=np.int64)


def _addresses(values: Sequence[Any]) -> NDArray[np.uint64]:
    """Addresses, which MegEngine writes as signed 64-bit integers; anything else becomes 0.

    The top bit is set on Android 11 and later, which tags pointers.
    """
    return np.array(
        [v % 2**64 if type(v) is int and -(2**63) <= v < 2**64 else 0 for v in values],
        dtype=np.uint64,
    )


def _intervals(entries: Mapping[str, Mapping[str, Times]], rows: Mapping[str, int]) -> Intervals:
    """The intervals of one side. Raises ProfileFormatError if a time is not a number."""
    entries_of_rows = [
        (rows[key], lane, times)
        for key, lanes in entries.items()
        if key in rows
        for lane, times in lanes.items()
    ]

    def seconds(values: list[Any]) -> NDArray[np.float64]:
        return to_float64(
            [np.nan if value is None or value is UNSET else value for value in values], str
        )

    return Intervals(
        row=np.array([row for row, _, _ in entries_of_rows], dtype=np.int32),
        lanes=TextColumn.from_texts([lane for _, lane, _ in entries_of_rows]),
        start_s=seconds([times.start for _, _, times in entries_of_rows]),
        kern_s=seconds([times.kern for _, _, times in entries_of_rows]),
        end_s=seconds([times.end for _, _, times in entries_of_rows]),
    )


def _compact_column(raws: Sequence[Raw]) -> TextColumn:
    """JSON values without whitespace; missing where a value is absent."""
    codes, different = dictionary_encode([bytes(raw) for raw in raws])
    texts = [_encode(_value(raw)) if raw else None for raw in different]
    return TextColumn.from_texts([texts[code] for code in codes.tolist()])


def _value(raw: bytes | Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except _DAMAGE:
        return None


def _encode(value: Any) -> str | None:
    try:
        return msgspec.json.encode(value).decode()
    except (OverflowError, RecursionError):
        return None


def _axes(value: Any) -> str | None:
    if isinstance(value, list) and all(type(axis) is int for axis in value):
        return _encode(value)
    return None
