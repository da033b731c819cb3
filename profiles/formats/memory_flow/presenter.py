"""Template context for a `memory_flow.svg`: the peak, tensors in use at the peak, tensor table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from profiles.analysis.data import ProfileData
from profiles.analysis.durations import duration
from profiles.formats.memory_flow.summary import MemoryFlowSummary, TensorRow, tag_of
from profiles.presenters.described import ChartText, means, unknown
from profiles.presenters.formatting import bytesize, shortened, visible
from webprofile.integers import parse_int

Json = dict[str, Any]
#: maximum rows of a table page, listed tags, and drawn rectangles
ROWS, TAGS, DRAWN = 50, 20, 5_000
_LONGEST_TAG = 300
_LARGEST_PAGE = 10**6 - 1
#: shorter times are below the resolution of the clock of the Profiler
_BRIEF_S = 1e-6
#: sort keys of the table
_ORDERS = {
    "size": lambda row: (-row.size_bytes, row.produced_s),
    "duration": lambda row: (-row.duration_s, row.produced_s),
    "produced": lambda row: (row.produced_s, -row.size_bytes),
    "tag": lambda row: (row.name.casefold(), row.produced_s),
}


@dataclass(frozen=True)
class FlowQuery:
    """A query on the table of tensors.

    tag: text that occurs in a name, ignoring case
    every: all tensors, not only those at the peak
    """

    tag: str = ""
    every: bool = False
    order: str = "size"
    page: int = 1

    def address(self, **changes: Any) -> str:
        """Return the query string with some changes; default values are omitted."""
        parameters = {
            "tag": self.tag,
            "tensors": "all" if self.every else "",
            "flow_order": self.order,
        }
        parameters |= {"flow_page": self.page} | changes
        defaults = {"flow_order": "size", "flow_page": 1}
        kept = {
            name: value
            for name, value in parameters.items()
            if value and defaults.get(name) != value
        }
        return f"?{urlencode(kept)}"


def read_flow_query(parameters: Mapping[str, str]) -> FlowQuery:
    """Parse the query string of a page; invalid values are ignored."""
    order = parameters.get("flow_order", "")
    return FlowQuery(
        tag=parameters.get("tag", "").strip()[:_LONGEST_TAG],
        every=parameters.get("tensors") == "all",
        order=order if order in _ORDERS else "size",
        page=parse_int(parameters.get("flow_page", ""), maximum=_LARGEST_PAGE) or 1,
    )


def memory_flow_view(data: ProfileData, query: FlowQuery) -> Json | None:
    """Return the context of `profiles/_memory_flow.html`; None without such a file."""
    summary = summary_of(data)
    if summary is None:
        return None
    recorded_s = summary.end_s - summary.begin_s
    peak_lasts_s = (summary.peak_end_s or 0.0) - (summary.peak_s or 0.0)
    near_peak_s = summary.near_peak_s
    return {
        "summary": summary,
        "recorded_s": recorded_s,
        "peak_lasts_s": peak_lasts_s,
        "is_brief": peak_lasts_s < _BRIEF_S,
        "near_peak_share": near_peak_s / recorded_s if near_peak_s and recorded_s > 0 else None,
        "peak_share": summary.peak_bytes / summary.used_bytes if summary.used_bytes else None,
        "is_shared": summary.peak_added_bytes > summary.peak_bytes - summary.peak_kept_bytes,
        "tags": [
            {
                "row": row,
                "name": visible(row.tag) or unnamed(),
                "address": FlowQuery(tag=row.tag).address() if row.tag else "",
            }
            for row in summary.tags[:TAGS]
        ],
        "unnamed": unnamed(),
        "tags_more": len(summary.tags[TAGS:]) + summary.tags_left_out,
        "notes": _notes(summary),
        **tensors_view(summary, query),
    }


def summary_of(data: ProfileData) -> MemoryFlowSummary | None:
    """Return the summary of the file; None without such a file."""
    return data.summary("memory_flow", MemoryFlowSummary)


def tensors_view(summary: MemoryFlowSummary, query: FlowQuery) -> Json:
    """Return the context of `profiles/_memory_flow_tensors.html`."""
    rows = [row for row in summary.tensors if query.every or row.at_peak]
    matching = sorted((row for row in rows if _has(row, query.tag)), key=_ORDERS[query.order])
    pages = max(1, -(-len(matching) // ROWS))
    page = min(query.page, pages)
    first = (page - 1) * ROWS
    return {
        "query": query,
        "orders": [
            {"name": name, "word": word, "is_chosen": name == query.order}
            for name, word in _order_words().items()
        ],
        "matching": len(matching),
        "first": first + 1,
        "last": min(first + ROWS, len(matching)),
        "rows": [_row(row, summary) for row in matching[first : first + ROWS]],
        "previous": query.address(flow_page=page - 1) if page > 1 else "",
        "next": query.address(flow_page=page + 1) if page < pages else "",
        "left_out": summary.tensors_left_out,
    }


class MemoryFlowChart(ChartText):
    """Tensors of a dynamic graph over time, column by column."""

    end: Annotated[
        float | None, unknown("When the last tensor ended, µs since the Profiler began.")
    ]
    used: Annotated[float | None, unknown("Addresses that any tensor ever had, bytes.")]
    peak: Annotated[
        dict[str, float | None],
        means("`bytes`: the most that is held; `at`: when that is first so, µs; null without."),
    ]
    curve: Annotated[
        Sequence[Sequence[float | None]],
        means("`[µs, bytes]`: what is held from each moment to the next one."),
    ]
    regions: Annotated[
        Sequence[Sequence[Any]],
        means("`[place, address]` where each region of used addresses begins."),
    ]
    names: Annotated[Sequence[str], means("Name of each tensor.")]
    start: Annotated[Sequence[float | None], unknown("When it began, µs.")]
    length: Annotated[Sequence[float | None], unknown("How long it lived, µs.")]
    place: Annotated[Sequence[int], means("Where it lies if unused addresses are left out, bytes.")]
    size: Annotated[Sequence[int], means("Its size, bytes.")]
    shape: Annotated[Sequence[str], means("Its shape and type, in the reader's words.")]
    address: Annotated[
        Sequence[str], means("Where the memory begins that it shares with its views, hexadecimal.")
    ]
    at_peak: Annotated[Sequence[int], means("1 if it is alive when most bytes are held.")]


def memory_flow_data(summary: MemoryFlowSummary, query: FlowQuery) -> MemoryFlowChart:
    """Return the data of the chart: columns by tensor, times in µs since the Profiler began."""
    matching = [row for row in summary.tensors if _has(row, query.tag)]
    largest = sorted(matching, key=lambda row: -row.size_bytes * row.duration_s)[:DRAWN]
    drawn = sorted(largest, key=lambda row: row.produced_s)
    return {
        "end": _us(summary.end_s),
        "used": summary.used_bytes,
        "peak": {"at": _us(summary.peak_s), "bytes": summary.peak_bytes},
        "curve": [
            [_us(at_s), held]
            for at_s, held in zip(summary.curve.at_s, summary.curve.held_bytes, strict=True)
        ],
        "regions": [[region.place_bytes, region.address] for region in summary.regions],
        "names": [shortened(row.name) for row in drawn],
        "start": [_us(row.produced_s) for row in drawn],
        "length": [_us(row.duration_s) for row in drawn],
        "place": [row.place_bytes for row in drawn],
        "size": [row.size_bytes for row in drawn],
        "shape": [shape_of(row) for row in drawn],
        "address": [row.address for row in drawn],
        "at_peak": [int(row.at_peak) for row in drawn],
        "sentence": _sentence(summary),
        "notes": _drawn_notes(summary, len(matching) - len(drawn), query.tag),
    }


def shape_of(row: TensorRow) -> str:
    """Return shape and dtype: `10 × 96 Float32`; the layout as written if it was not parsed."""
    if row.shape is None:
        return shortened(row.layout)
    return f"{' × '.join(map(str, row.shape))} {shortened(row.dtype)}"


def unnamed() -> str:
    """Return the text that is shown for a tensor without a name."""
    return pgettext("of a tensor", "before the Profiler started")


def _us(time_s: float | None) -> float | None:
    return None if time_s is None else round(time_s * 1e6, 3)


def _has(row: TensorRow, tag: str) -> bool:
    """Whether the name contains `tag`, with or without the numbers of calls and outputs."""
    part = tag.casefold()
    return part in row.name.casefold() or part in tag_of(row.name).casefold()


def _row(row: TensorRow, summary: MemoryFlowSummary) -> Json:
    return {
        "row": row,
        "name": visible(row.name) or unnamed(),
        "is_named": bool(row.name),
        "shape": shape_of(row),
        "share": row.size_bytes / summary.peak_bytes if row.at_peak else None,
    }


def _order_words() -> dict[str, str]:
    return {
        "size": _("the largest first"),
        "duration": _("the longest first"),
        "produced": _("the earliest first"),
        "tag": _("by tag"),
    }


def _sentence(summary: MemoryFlowSummary) -> str:
    if summary.peak_s is None:
        return ""
    return ngettext(
        "Maximum usage: %(size)s at %(at)s, by %(number)s tensor.",
        "Maximum usage: %(size)s at %(at)s, by %(number)s tensors.",
        summary.peak_tensors,
    ) % {
        "size": bytesize(summary.peak_bytes),
        "at": duration(summary.peak_s),
        "number": summary.peak_tensors,
    }


def _drawn_notes(summary: MemoryFlowSummary, not_drawn: int, tag: str) -> list[str]:
    """Return notes on the tensors that the chart leaves out."""
    notes = []
    if tag:
        notes.append(
            _(
                "Only tensors whose tag contains “%(tag)s” are drawn; the curve includes all "
                "tensors."
            )
            % {"tag": f"\u2068{shortened(tag)}\u2069"}
        )
    more = not_drawn + summary.tensors_left_out
    if more:
        notes.append(
            ngettext(
                "%(number)s tensor that is small or short-lived is not drawn.",
                "%(number)s tensors that are small or short-lived are not drawn.",
                more,
            )
            % {"number": more}
        )
    return notes


def _notes(summary: MemoryFlowSummary) -> list[str]:
    """Return notes on damage of the file."""
    notes = []
    if summary.is_cut:
        notes.append(
            _(
                "The file is truncated: later tensors are missing, and the peak may have been "
                "higher. The file is complete only after the Profiler has exited or has been "
                "deleted."
            )
        )
    counted = (
        (
            summary.broken,
            ngettext(
                "%(number)s rectangle could not be read and is left out.",
                "%(number)s rectangles could not be read and are left out.",
                summary.broken,
            ),
        ),
        (
            summary.beyond,
            ngettext(
                "%(number)s rectangle after the first 1,000,000 is left out.",
                "%(number)s rectangles after the first 1,000,000 are left out.",
                summary.beyond,
            ),
        ),
        (
            summary.others,
            ngettext(
                "%(number)s unknown element is left out.",
                "%(number)s unknown elements are left out.",
                summary.others,
            ),
        ),
        (
            summary.never_erased,
            ngettext(
                "%(number)s tensor has no end, and is drawn up to the end of the file.",
                "%(number)s tensors have no end, and are drawn up to the end of the file.",
                summary.never_erased,
            ),
        ),
    )
    return notes + [text % {"number": number} for number, text in counted if number]
