"""What the page shows of a memory plan: figures, the peak, its tensors, and the picture's data."""

from collections.abc import Mapping, Sequence
from typing import Any

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
    rows_of,
)
from profiles.presenters.formatting import bytesize, isolated
from webprofile.integers import parse_int

#: rows that the page shows; the API has all that are kept
CHUNKS_SHOWN, AT_PEAK_SHOWN, MOMENTS_SHOWN = 200, 100, 20
#: of what is searched for
LONGEST_SEARCH = 200
#: parameters of the page's address: which tensors, and which moment of those with the most bytes
SEARCH, MOMENT = "chunk", "peak"
KIND = "static_memory"

Json = dict[str, Any]


def static_memory_view(data: ProfileData, asked: QueryDict) -> Json | None:
    """What the template `profiles/_static_memory.html` shows; None without a plan."""
    found = data.summary(KIND, StaticMemory)
    if found is None:
        return None
    shown = _Shown(found, data)
    search = asked.get(SEARCH, "")[:LONGEST_SEARCH].strip()
    chosen = _chosen(found.moments, asked.get(MOMENT, ""))
    matching = [each for each in found.chunks if shown.matches(each, search)]
    # the largest first, in the order of execution where they are alike
    matching.sort(key=lambda each: (-each.size_bytes, each.begin, each.id))
    return {
        "plan": found,
        "lost_bytes": found.peak_bytes - found.most_alive_bytes,
        "lost_share": ratio(found.peak_bytes - found.most_alive_bytes, found.peak_bytes),
        "holes_bytes": found.peak_bytes - found.peak_alive_bytes,
        "together_bytes": found.peak_bytes + found.weight_bytes,
        "reuse": ratio(found.sum_bytes, found.peak_bytes),
        "peak_operator": shown.operator(found.peak_step),
        "notes": _notes(found),
        "moments": [
            {**shown.moment(each), "number": number, "chosen": each is chosen}
            for number, each in enumerate(found.moments[:MOMENTS_SHOWN], start=1)
        ],
        "moments_more": len(found.moments[MOMENTS_SHOWN:]) + found.moments_left_out,
        "chosen": chosen and shown.moment(chosen),
        "at_peak": shown.at(chosen) if chosen else [],
        "at_peak_more": _left(chosen) if chosen else 0,
        "search": search,
        "matching": len(matching),
        "chunks": [shown.chunk(each) for each in matching[:CHUNKS_SHOWN]],
        "chunks_more": len(matching[CHUNKS_SHOWN:]),
        "others": [
            (name, value)
            for name, values in asked.lists()
            if name not in (SEARCH, MOMENT)
            for value in values
        ],
    }


def static_memory_data(data: ProfileData) -> Json:
    """What the picture is drawn from: chunks that count, as columns, and the bytes alive."""
    found = msgspec.json.decode(data.beside[KIND], type=StaticMemory)
    shown = _Shown(found, data)
    chunks = [each for each in found.chunks if each.counted_from <= each.last]
    chunks = [each for each in chunks if not each.is_weight]
    chunks.sort(key=lambda each: (each.counted_from, each.address))
    at_peak = set(found.moments[0].chunks) if found.moments else set()
    names = dict.fromkeys(shown.names[step] for each in chunks for step in (each.begin, each.last))
    codes = {name: code for code, name in enumerate(names)}
    return {
        "steps": found.operators_count,
        "peak": found.peak_bytes,
        "most": found.most_alive_bytes,
        "moment": [found.moments[0].first, found.moments[0].last] if found.moments else None,
        "id": [each.id for each in chunks],
        "from": [each.counted_from for each in chunks],
        "to": [each.last + 1 for each in chunks],
        "low": [each.address for each in chunks],
        "size": [each.size_bytes for each in chunks],
        "in_place": [int(each.overwrites >= 0) for each in chunks],
        "at_peak": [int(each.id in at_peak) for each in chunks],
        "name": [each.variable for each in chunks],
        "row": [shown.rows.get(each.begin, MISSING) for each in chunks],
        "names": list(codes),
        "first": [codes[shown.names[each.begin]] for each in chunks],
        "last": [codes[shown.names[each.last]] for each in chunks],
        "curve": [found.curve_steps, found.curve_bytes],
        "sentence": _sentence(found, shown) if chunks else "",
        "notes": _picture_notes(found),
    }


class _Shown:
    """Names operators and tensors of one plan."""

    def __init__(self, found: StaticMemory, data: ProfileData) -> None:
        self.names: Mapping[int, str] = _Names({each.step: each.name for each in found.operators})
        self.types = {each.step: each.type for each in found.operators}
        self.rows = rows_of(found, data)
        self._dtypes = _dtypes(data) if data.has_operators else {}
        self._chunks = {each.id: each for each in found.chunks}

    def operator(self, step: int) -> Json | None:
        """name, place (from 1), row in the table of operators or None; None for no step."""
        if step < 0:
            return None
        return {"name": self.names[step], "place": step + 1, "row": self.rows.get(step)}

    def moment(self, moment: MomentRow) -> Json:
        return {
            "first": self.operator(moment.first),
            "last": self.operator(moment.last),
            "is_one": moment.first == moment.last,
        }

    def chunk(self, chunk: ChunkRow) -> Json:
        return {
            "row": chunk,
            "type": "" if chunk.is_weight else self.types.get(chunk.begin, ""),
            "writer": None if chunk.is_weight else self.operator(chunk.begin),
            "reader": None if chunk.is_weight else self.operator(max(chunk.last, chunk.begin)),
            "shape": None if chunk.shape is None else "×".join(map(str, chunk.shape)) or "()",
            "dtype": chunk.dtype or self._dtypes.get(chunk.variable) or _width(chunk),
            "is_in_place": chunk.overwrites >= 0,
        }

    def at(self, moment: MomentRow) -> list[Json]:
        """The tensors that are alive then, the largest first."""
        pairs = zip(moment.chunks, moment.percent, strict=True)
        return [
            {**self.chunk(self._chunks[number]), "share": percent / 100}
            for number, percent in pairs
            if number in self._chunks
        ][:AT_PEAK_SHOWN]

    def matches(self, chunk: ChunkRow, search: str) -> bool:
        if not search:
            return True
        wanted = search.casefold()
        names = [chunk.variable]
        if not chunk.is_weight:
            names += [self.names[chunk.begin], self.names[chunk.last]]
        return search == str(chunk.id) or any(wanted in name.casefold() for name in names)


class _Names(dict[int, str]):
    """Names of operators by step; of those that were left out, nothing but a dash."""

    def __missing__(self, step: int) -> str:
        return "–"


def _dtypes(data: ProfileData) -> dict[str, str]:
    """Data types of a profile's variables, by their names, which the plan's graph lacks."""
    variables = data.graph.variables
    found: dict[str, str] = {}
    for place, name in enumerate(variables.names):
        if name and (dtype := variables.dtypes[place]):
            found[name] = dtype
    return found


def _width(chunk: ChunkRow) -> str:
    if chunk.element_bytes is None or chunk.shape is None:
        return ""
    number = f"{chunk.element_bytes:g}"
    return _("%(number)s B each") % {"number": number}


def _chosen(moments: Sequence[MomentRow], text: str) -> MomentRow | None:
    number = parse_int(text, maximum=len(moments)) or 1
    return moments[number - 1] if moments else None


def _left(moment: MomentRow) -> int:
    return len(moment.chunks[AT_PEAK_SHOWN:]) + moment.chunks_left_out


def _sentence(found: StaticMemory, shown: _Shown) -> str:
    return _(
        "The plan takes %(peak)s; at most %(most)s of it is in use at one operator, %(name)s."
    ) % {
        "peak": bytesize(found.peak_bytes),
        "most": bytesize(found.most_alive_bytes),
        "name": isolated(shown.names[found.moments[0].first] if found.moments else "–"),
    }


def _picture_notes(found: StaticMemory) -> list[str]:
    left = found.chunks_left_out
    if not left:
        return []
    return [
        ngettext(
            "%(number)s smaller piece of memory is not drawn.",
            "%(number)s smaller pieces of memory are not drawn.",
            left,
        )
        % {"number": left}
    ]


def _notes(found: StaticMemory) -> list[str]:
    notes = []
    if number := found.overlaps_count:
        first = found.overlaps[0]
        notes.append(
            ngettext(
                "At least %(number)s pair of pieces is taken at the same time on the same bytes, "
                "%(one)s and %(other)s first. On one device that is a fault of the plan: results "
                "would be overwritten before they are read. The file does not name devices.",
                "At least %(number)s pairs of pieces are taken at the same time on the same bytes, "
                "%(one)s and %(other)s first. On one device that is a fault of the plan: results "
                "would be overwritten before they are read. The file does not name devices.",
                number,
            )
            % {"number": number, "one": first.one, "other": first.other}
        )
    if number := max(found.unplanned, 0):
        notes.append(
            ngettext(
                "The size of %(number)s tensor is not known before the graph runs: its memory is "
                "not in the plan, so more is taken than it says.",
                "The sizes of %(number)s tensors are not known before the graph runs: their "
                "memory is not in the plan, so more is taken than it says.",
                number,
            )
            % {"number": number}
        )
    if found.graph == "none":
        notes.append(
            _(
                "Without the graph.json of the same folder tensors have no names and shapes: open "
                "both files together."
            )
        )
    elif found.graph != "used":
        notes.append(_("The graph.json is not used, so tensors have no names and shapes."))
    if not found.chunks_count:
        notes.append(
            _(
                "Nothing but weights is planned: the graph is not static, or no operator of it "
                "needs memory of its own."
            )
        )
    return notes
