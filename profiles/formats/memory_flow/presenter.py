"""What the page shows of `memory_flow.svg`: the peak, what is alive then, tensors by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from profiles.analysis.data import ProfileData
from profiles.formats.memory_flow.summary import MemoryFlowSummary, TensorRow, tag_of
from profiles.presenters.formatting import bytesize, seconds, shortened, visible
from webprofile.integers import parse_int

Json = dict[str, Any]
#: rows of one page of the table, names that are listed, rectangles that are drawn
ROWS, TAGS, DRAWN = 50, 20, 5_000
_LONGEST_TAG = 300
_LARGEST_PAGE = 10**6 - 1
#: shorter ones are told apart by no clock of the Profiler's
_BRIEF_S = 1e-6
#: what the table is ordered by; what comes first of each
_ORDERS = {
    "size": lambda row: (-row.size_bytes, row.produced_s),
    "duration": lambda row: (-row.duration_s, row.produced_s),
    "produced": lambda row: (row.produced_s, -row.size_bytes),
    "tag": lambda row: (row.name.casefold(), row.produced_s),
}


@dataclass(frozen=True)
class FlowQuestion:
    """What a reader looks for.

    tag: part of a name, in whatever letters
    every: all tensors, not only those at the peak
    """

    tag: str = ""
    every: bool = False
    order: str = "size"
    page: int = 1

    def address(self, **changes: Any) -> str:
        """The query that asks for this, with some changes; what is not said is left out."""
        asked = {"tag": self.tag, "tensors": "all" if self.every else "", "flow_order": self.order}
        asked |= {"flow_page": self.page} | changes
        plain = {"flow_order": "size", "flow_page": 1}
        kept = {name: value for name, value in asked.items() if value and plain.get(name) != value}
        return f"?{urlencode(kept)}"


def read_flow_question(asked: Mapping[str, str]) -> FlowQuestion:
    """Read an address; what makes no sense in it is as if it were not there."""
    order = asked.get("flow_order", "")
    return FlowQuestion(
        tag=asked.get("tag", "").strip()[:_LONGEST_TAG],
        every=asked.get("tensors") == "all",
        order=order if order in _ORDERS else "size",
        page=parse_int(asked.get("flow_page", ""), maximum=_LARGEST_PAGE) or 1,
    )


def memory_flow_view(data: ProfileData, asked: FlowQuestion) -> Json | None:
    """What `profiles/_memory_flow.html` shows; None if no such file was opened."""
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
                "address": FlowQuestion(tag=row.tag).address() if row.tag else "",
            }
            for row in summary.tags[:TAGS]
        ],
        "unnamed": unnamed(),
        "tags_more": len(summary.tags[TAGS:]) + summary.tags_left_out,
        "notes": _notes(summary),
        **tensors_view(summary, asked),
    }


def summary_of(data: ProfileData) -> MemoryFlowSummary | None:
    """What was kept of the file; None if no such file was opened."""
    return data.summary("memory_flow", MemoryFlowSummary)


def tensors_view(summary: MemoryFlowSummary, asked: FlowQuestion) -> Json:
    """What `profiles/_memory_flow_tensors.html` shows."""
    found = sorted(_found(summary, asked), key=_ORDERS[asked.order])
    pages = max(1, -(-len(found) // ROWS))
    page = min(asked.page, pages)
    first = (page - 1) * ROWS
    return {
        "asked": asked,
        "orders": [
            {"name": name, "word": word, "is_chosen": name == asked.order}
            for name, word in _order_words().items()
        ],
        "found": len(found),
        "first": first + 1,
        "last": min(first + ROWS, len(found)),
        "rows": [_row(row, summary) for row in found[first : first + ROWS]],
        "previous": asked.address(flow_page=page - 1) if page > 1 else "",
        "next": asked.address(flow_page=page + 1) if page < pages else "",
        "left_out": summary.tensors_left_out,
    }


def memory_flow_data(summary: MemoryFlowSummary, asked: FlowQuestion) -> Json:
    """What the picture is drawn from: times in µs since the Profiler began, columns by tensor."""
    found = [row for row in summary.tensors if _has(row, asked.tag)]
    largest = sorted(found, key=lambda row: -row.size_bytes * row.duration_s)[:DRAWN]
    drawn = sorted(largest, key=lambda row: row.produced_s)
    return {
        "end": _us(summary.end_s),
        "used": summary.used_bytes,
        "peak": {"at": _us(summary.peak_s), "bytes": summary.peak_bytes},
        "curve": [
            [_us(at_s), held]
            for at_s, held in zip(summary.curve.at_s, summary.curve.held_bytes, strict=True)
        ],
        "regions": [[each.place_bytes, each.address] for each in summary.regions],
        "names": [shortened(row.name) for row in drawn],
        "start": [_us(row.produced_s) for row in drawn],
        "length": [_us(row.duration_s) for row in drawn],
        "place": [row.place_bytes for row in drawn],
        "size": [row.size_bytes for row in drawn],
        "shape": [shape_of(row) for row in drawn],
        "address": [row.address for row in drawn],
        "at_peak": [int(row.at_peak) for row in drawn],
        "sentence": _sentence(summary),
        "notes": _drawn_notes(summary, found, len(drawn), asked.tag),
    }


def shape_of(row: TensorRow) -> str:
    """Sizes of its axes and its type: `10 × 96 Float32`; as MegEngine wrote it in another form."""
    if row.shape is None:
        return shortened(row.layout)
    return f"{' × '.join(map(str, row.shape))} {shortened(row.dtype)}"


def unnamed() -> str:
    """What a tensor without a name is called."""
    return pgettext("of a tensor", "there before the Profiler began")


def _us(time_s: float | None) -> float | None:
    return None if time_s is None else round(time_s * 1e6, 3)


def _has(row: TensorRow, tag: str) -> bool:
    """Whether it is called so, with or without the numbers of calls and outputs."""
    part = tag.casefold()
    return part in row.name.casefold() or part in tag_of(row.name).casefold()


def _found(summary: MemoryFlowSummary, asked: FlowQuestion) -> list[TensorRow]:
    return [row for row in summary.tensors if (asked.every or row.at_peak) and _has(row, asked.tag)]


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
        "At most %(size)s are held, at %(at)s, by %(number)s tensor.",
        "At most %(size)s are held, at %(at)s, by %(number)s tensors.",
        summary.peak_tensors,
    ) % {
        "size": bytesize(summary.peak_bytes),
        "at": seconds(summary.peak_s),
        "number": summary.peak_tensors,
    }


def _drawn_notes(
    summary: MemoryFlowSummary, found: Sequence[TensorRow], drawn: int, tag: str
) -> list[str]:
    notes = []
    if tag:
        notes.append(
            _("Only tensors with “%(tag)s” in their tag are drawn; the curve is of all.")
            % {"tag": f"\u2068{shortened(tag)}\u2069"}
        )
    more = len(found) - drawn + summary.tensors_left_out
    if more:
        notes.append(
            ngettext(
                "%(number)s tensor that is smaller or lives shorter is not drawn.",
                "%(number)s tensors that are smaller or live shorter are not drawn.",
                more,
            )
            % {"number": more}
        )
    return notes


def _notes(summary: MemoryFlowSummary) -> list[str]:
    notes = []
    if summary.is_cut:
        notes.append(
            _(
                "The file ends in the middle: tensors behind that are missing, and the peak may "
                "have been higher. It is complete once the Profiler was left or deleted."
            )
        )
    counted = (
        (
            summary.broken,
            ngettext(
                "%(number)s rectangle could not be read, and was left out.",
                "%(number)s rectangles could not be read, and were left out.",
                summary.broken,
            ),
        ),
        (
            summary.beyond,
            ngettext(
                "%(number)s rectangle beyond the first 1,000,000 was left out.",
                "%(number)s rectangles beyond the first 1,000,000 were left out.",
                summary.beyond,
            ),
        ),
        (
            summary.others,
            ngettext(
                "%(number)s element is none that MegEngine writes, and was left out.",
                "%(number)s elements are none that MegEngine writes, and were left out.",
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
