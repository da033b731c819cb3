"""Template context for a static memory plan: figures, peak, tensors, and data of the chart."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

import msgspec
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from profiles.analysis.data import ProfileData
from profiles.analysis.numbers import ratio
from profiles.formats.columns import MISSING
from profiles.formats.static_memory.summary import (
    ChunkRow,
    MomentRow,
    StaticMemory,
    rows_by_step,
)
from profiles.presenters.described import ChartText, means, unknown
from profiles.presenters.formatting import bytesize, isolated
from webprofile.integers import parse_int

#: maximum rows on the page; the API returns all that are kept
CHUNKS_SHOWN, AT_PEAK_SHOWN, MOMENTS_SHOWN = 200, 100, 20
#: maximum length of a search text
LONGEST_SEARCH = 200
#: query parameters of the page: search text for tensors, and the number of a moment of high use
SEARCH, MOMENT = "chunk", "peak"
KIND = "static_memory"

Json = dict[str, Any]


#: a keyword of Python, so no field of a class
_From = TypedDict(
    "_From",
    {"from": Annotated[Sequence[int], means("The first step at which each chunk is alive.")]},
)


class StaticMemoryChart(ChartText, _From):
    """Tensors of a memory plan over steps, column by column. Steps are places in the order of
    execution, from 0."""

    steps: Annotated[int, means("Operators of the plan.")]
    peak: Annotated[float | None, unknown("The highest address of a tensor, bytes.")]
    most: Annotated[float | None, unknown("The most in use at one step, bytes.")]
    moment: Annotated[
        Sequence[int] | None,
        means("First and last step at which most is in use; null without tensors."),
    ]
    id: Annotated[Sequence[int], means("Id of each chunk, as in the file.")]
    to: Annotated[Sequence[int], means("The step after the last one at which it is alive.")]
    low: Annotated[Sequence[int], means("Its lowest address, bytes.")]
    size: Annotated[Sequence[int], means("Its size, bytes.")]
    in_place: Annotated[Sequence[int], means("1 if it is written in another one's place.")]
    at_peak: Annotated[Sequence[int], means("1 if it is alive when most is in use.")]
    name: Annotated[Sequence[str], means("Its tensor; empty where it is not certain.")]
    row: Annotated[Sequence[int], means("The operator that writes it, or -1.")]
    names: Annotated[Sequence[str], means("Names of operators.")]
    first: Annotated[Sequence[int], means("The operator that writes it: a place in `names`.")]
    last: Annotated[Sequence[int], means("The last operator that needs it: a place in `names`.")]
    curve: Annotated[
        Sequence[Sequence[int]],
        means("Steps, and the bytes in use from each to the one before the next."),
    ]


def static_memory_view(data: ProfileData, parameters: QueryDict) -> Json | None:
    """Return the context of the template `profiles/_static_memory.html`; None without a plan."""
    plan = data.summary(KIND, StaticMemory)
    if plan is None:
        return None
    names = _PlanNames(plan, data)
    search = parameters.get(SEARCH, "")[:LONGEST_SEARCH].strip()
    chosen = _chosen_moment(plan.moments, parameters.get(MOMENT, ""))
    matching = [chunk for chunk in plan.chunks if names.matches(chunk, search)]
    # the largest first; equal sizes in the order of execution
    matching.sort(key=lambda chunk: (-chunk.size_bytes, chunk.begin, chunk.id))
    return {
        "plan": plan,
        "lost_bytes": plan.peak_bytes - plan.most_alive_bytes,
        "lost_share": ratio(plan.peak_bytes - plan.most_alive_bytes, plan.peak_bytes),
        "holes_bytes": plan.peak_bytes - plan.peak_alive_bytes,
        "together_bytes": plan.peak_bytes + plan.weight_bytes,
        "reuse": ratio(plan.sum_bytes, plan.peak_bytes),
        "peak_operator": names.operator(plan.peak_step),
        "notes": _notes(plan),
        "moments": [
            {**names.moment(moment), "number": number, "chosen": moment is chosen}
            for number, moment in enumerate(plan.moments[:MOMENTS_SHOWN], start=1)
        ],
        "moments_more": len(plan.moments[MOMENTS_SHOWN:]) + plan.moments_left_out,
        "chosen": chosen and names.moment(chosen),
        "at_peak": names.alive_at(chosen) if chosen else [],
        "at_peak_more": len(chosen.chunks[AT_PEAK_SHOWN:]) + chosen.chunks_left_out
        if chosen
        else 0,
        "search": search,
        "matching": len(matching),
        "chunks": [names.chunk(chunk) for chunk in matching[:CHUNKS_SHOWN]],
        "chunks_more": len(matching[CHUNKS_SHOWN:]),
        "others": [
            (name, value)
            for name, values in parameters.lists()
            # the form leads to the page, also from the fragment that `part` asks for
            if name not in (SEARCH, MOMENT, "part")
            for value in values
        ],
    }


def static_memory_data(data: ProfileData) -> StaticMemoryChart:
    """Return the data of the chart: the counted chunks as columns, and the bytes in use."""
    plan = msgspec.json.decode(data.summaries[KIND], type=StaticMemory)
    plan_names = _PlanNames(plan, data)
    chunks = [
        chunk for chunk in plan.chunks if chunk.counted_from <= chunk.last and not chunk.is_weight
    ]
    chunks.sort(key=lambda chunk: (chunk.counted_from, chunk.address))
    at_peak = set(plan.moments[0].chunks) if plan.moments else set()
    names = dict.fromkeys(
        plan_names.names[step] for chunk in chunks for step in (chunk.begin, chunk.last)
    )
    codes = {name: code for code, name in enumerate(names)}
    return {
        "steps": plan.operators_count,
        "peak": plan.peak_bytes,
        "most": plan.most_alive_bytes,
        "moment": [plan.moments[0].first, plan.moments[0].last] if plan.moments else None,
        "id": [chunk.id for chunk in chunks],
        "from": [chunk.counted_from for chunk in chunks],
        "to": [chunk.last + 1 for chunk in chunks],
        "low": [chunk.address for chunk in chunks],
        "size": [chunk.size_bytes for chunk in chunks],
        "in_place": [int(chunk.overwrites >= 0) for chunk in chunks],
        "at_peak": [int(chunk.id in at_peak) for chunk in chunks],
        "name": [chunk.variable for chunk in chunks],
        "row": [plan_names.rows.get(chunk.begin, MISSING) for chunk in chunks],
        "names": list(codes),
        "first": [codes[plan_names.names[chunk.begin]] for chunk in chunks],
        "last": [codes[plan_names.names[chunk.last]] for chunk in chunks],
        "curve": [plan.curve_steps, plan.curve_bytes],
        "sentence": _sentence(plan, plan_names) if chunks else "",
        "notes": _chart_notes(plan),
    }


class _PlanNames:
    """Looks up names and types of the operators and tensors of one plan."""

    def __init__(self, plan: StaticMemory, data: ProfileData) -> None:
        # a dash stands for operators that were left out
        self.names: Mapping[int, str] = defaultdict(
            lambda: "–", {operator.step: operator.name for operator in plan.operators}
        )
        self.types = {operator.step: operator.type for operator in plan.operators}
        self.rows = rows_by_step(plan, data)
        self._dtypes = _dtypes(data) if data.has_operators else {}
        self._chunks = {chunk.id: chunk for chunk in plan.chunks}

    def operator(self, step: int) -> Json | None:
        """Return name, place (from 1) and row in the table of operators (or None) of a step.

        None for a negative step.
        """
        if step < 0:
            return None
        return {"name": self.names[step], "place": step + 1, "row": self.rows.get(step)}

    def moment(self, moment: MomentRow) -> Json:
        """Return the first and last operator of a moment."""
        return {
            "first": self.operator(moment.first),
            "last": self.operator(moment.last),
            "is_one": moment.first == moment.last,
        }

    def chunk(self, chunk: ChunkRow) -> Json:
        """Return a chunk with its operators, shape and dtype."""
        return {
            "row": chunk,
            "type": "" if chunk.is_weight else self.types.get(chunk.begin, ""),
            "writer": None if chunk.is_weight else self.operator(chunk.begin),
            "reader": None if chunk.is_weight else self.operator(max(chunk.last, chunk.begin)),
            "shape": None if chunk.shape is None else "×".join(map(str, chunk.shape)) or "()",
            "dtype": chunk.dtype or self._dtypes.get(chunk.variable) or _width(chunk),
            "is_in_place": chunk.overwrites >= 0,
        }

    def alive_at(self, moment: MomentRow) -> list[Json]:
        """Return the tensors in use at a moment, the largest first."""
        pairs = zip(moment.chunks, moment.percent, strict=True)
        return [
            {**self.chunk(self._chunks[number]), "share": percent / 100}
            for number, percent in pairs
            if number in self._chunks
        ][:AT_PEAK_SHOWN]

    def matches(self, chunk: ChunkRow, search: str) -> bool:
        """Whether a chunk has this id, or its tensor or operators contain this text."""
        if not search:
            return True
        needle = search.casefold()
        names = [chunk.variable]
        if not chunk.is_weight:
            names += [self.names[chunk.begin], self.names[chunk.last]]
        return search == str(chunk.id) or any(needle in name.casefold() for name in names)


def _dtypes(data: ProfileData) -> dict[str, str]:
    """Return the dtype of each named variable of a profile; the graph of the plan has none."""
    variables = data.graph.variables
    dtypes: dict[str, str] = {}
    for place, name in enumerate(variables.names):
        if name and (dtype := variables.dtypes[place]):
            dtypes[name] = dtype
    return dtypes


def _width(chunk: ChunkRow) -> str:
    """Return the bytes of one element as text; empty if they are unknown."""
    if chunk.element_bytes is None or chunk.shape is None:
        return ""
    number = f"{chunk.element_bytes:g}"
    return _("%(number)s B per element") % {"number": number}


def _chosen_moment(moments: Sequence[MomentRow], text: str) -> MomentRow | None:
    """Return the moment with this number, by default the first."""
    number = parse_int(text, maximum=len(moments)) or 1
    return moments[number - 1] if moments else None


def _sentence(plan: StaticMemory, names: _PlanNames) -> str:
    return _(
        "The plan needs %(peak)s. The maximum in use at the same time is %(most)s, at operator "
        "%(name)s."
    ) % {
        "peak": bytesize(plan.peak_bytes),
        "most": bytesize(plan.most_alive_bytes),
        "name": isolated(names.names[plan.moments[0].first] if plan.moments else "–"),
    }


def _chart_notes(plan: StaticMemory) -> list[str]:
    left = plan.chunks_left_out
    if not left:
        return []
    return [
        ngettext(
            "%(number)s smaller chunk of memory is not drawn.",
            "%(number)s smaller chunks of memory are not drawn.",
            left,
        )
        % {"number": left}
    ]


def _notes(plan: StaticMemory) -> list[str]:
    notes = []
    if number := plan.overlaps_count:
        first = plan.overlaps[0]
        notes.append(
            ngettext(
                "At least %(number)s pair of chunks uses the same bytes at the same time: "
                "%(one)s and %(other)s. If both are on the same device, this is an error of the "
                "plan: results would be overwritten before they are read. The file does not say "
                "which device a chunk is on.",
                "At least %(number)s pairs of chunks use the same bytes at the same time; the "
                "first pair is %(one)s and %(other)s. If both are on the same device, this is "
                "an error of the plan: results would be overwritten before they are read. The "
                "file does not say which device a chunk is on.",
                number,
            )
            % {"number": number, "one": first.one, "other": first.other}
        )
    if number := max(plan.unplanned, 0):
        notes.append(
            ngettext(
                "The size of %(number)s tensor is unknown before the graph runs, so the plan "
                "does not include its memory.",
                "The sizes of %(number)s tensors are unknown before the graph runs, so the plan "
                "does not include their memory.",
                number,
            )
            % {"number": number}
        )
    if plan.graph == "none":
        notes.append(
            _(
                "Without the graph.json of the same folder, tensors have no names or shapes. "
                "Import both files together."
            )
        )
    elif plan.graph != "used":
        notes.append(_("The graph.json is not used, so tensors have no names or shapes."))
    if not plan.chunks_count:
        notes.append(
            _(
                "Only weights are planned: the graph is not static, or none of its operators "
                "needs memory."
            )
        )
    return notes
