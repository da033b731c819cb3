"""What is kept of `memory_flow.svg`: tensors, the use of memory over time, its peak.

All of it is bounded, whatever the file: what is left out is counted.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from profiles.memory_flow.amounts import layout_of
from profiles.memory_flow.reader import NONE, Flow, read_flow
from profiles.memory_flow.usage import Space, Usage, space_of, usage_of
from profiles.thinning import thinned

#: tensors that are kept, and how many of those at the peak come first
TENSORS_LIMIT, AT_PEAK_LIMIT = 10_000, 2_000
TAGS_LIMIT, REGIONS_LIMIT = 200, 64
#: of the curve
POINTS_LIMIT = 1_000
#: unused addresses between two regions
GAP_BYTES = 1 << 20
#: of the peak, in percent: what counts as near it
NEAR_PERCENT = 90
_S_PER_NS = 1e-9
#: of a tensor's name, `step[12].MUL:0`: which call, which output
_CALL = re.compile(r"\[\d+\]|:\d+$")


class TensorRow(Struct, frozen=True):
    """One tensor; times since the Profiler began.

    name: empty for what was there before
    layout: as MegEngine writes it, sizes with strides; shape, dtype: read from it, if it has both
    erased_s: None if it was never heard of; duration_s: to the last moment of the file then
    address: of the memory that it looks into (`reader`)
    place_bytes: the same in the used address space (`MemoryFlowSummary.used_bytes`)
    group: number of the operator that made it
    """

    name: str
    layout: str
    shape: tuple[int, ...] | None
    dtype: str
    size_bytes: int
    produced_s: float
    erased_s: float | None
    duration_s: float
    address: str
    place_bytes: int
    group: int | None
    at_peak: bool


class TagRow(Struct, frozen=True):
    """All tensors of one name, without the numbers of calls and outputs.

    peak_bytes: sizes of those at the peak, added up; made_bytes: of all of them
    """

    tag: str
    tensors: int
    peak_tensors: int
    peak_bytes: int
    made_bytes: int


class Region(Struct, frozen=True):
    """Used addresses, with unused ones only in gaps below GAP_BYTES.

    place_bytes: where it begins in the used address space; size_bytes: of it there
    """

    address: str
    place_bytes: int
    size_bytes: int


class FlowCurve(Struct, frozen=True):
    """Bytes held: at most POINTS_LIMIT moments (s) with the most up to the next one."""

    at_s: tuple[float, ...]
    held_bytes: tuple[int, ...]


class MemoryFlowSummary(Struct, frozen=True):
    """tensors: in the order of their beginnings; all at the peak, then those that are large and
    live long

    count: of tensors in the file; tensors_left_out: how many of them are not among `tensors`
    begin_s, end_s: from the first tensor to the end of the last
    peak_bytes: most bytes held at one time, each address once; peak_s: when first, peak_end_s: how
        long; peak_added_bytes: sizes of the peak_tensors tensors of then, added up
    peak_kept_bytes: of the peak, what none of these tensors reaches over: they are views of tensors
        that are gone, whose memory stays as long as one of them does (`usage`)
    used_bytes: of all addresses that any tensor ever has
    near_peak_s: how long NEAR_PERCENT of the peak or more were held, in all; None without a peak,
        and where the summary was made before this was measured
    never_erased, broken, beyond, others, is_cut: what was odd about the file (`reader.Flow`)
    """

    count: int
    begin_s: float
    end_s: float
    peak_bytes: int
    peak_s: float | None
    peak_end_s: float | None
    peak_tensors: int
    peak_added_bytes: int
    used_bytes: int
    tensors: tuple[TensorRow, ...]
    tensors_left_out: int
    tags: tuple[TagRow, ...]
    tags_left_out: int
    regions: tuple[Region, ...]
    regions_left_out: int
    curve: FlowCurve
    never_erased: int
    broken: int
    beyond: int
    others: int
    is_cut: bool
    near_peak_s: float | None = None
    peak_kept_bytes: int = 0


def summarize(flow: Flow) -> MemoryFlowSummary:
    """Return the summary of a file."""
    by_low = np.argsort(flow.low, kind="stable")
    space = space_of(flow.low[by_low], flow.high[by_low])
    usage = usage_of(flow)
    peak, at_peak = usage.peak, np.zeros(len(flow), np.bool_)
    if peak is not None:
        at_ns = usage.at_ns[peak]
        at_peak = (flow.begin_ns <= at_ns) & (at_ns < flow.end_ns)
    peak_bytes = 0 if peak is None else int(usage.held[peak])
    alive = by_low[at_peak[by_low]]
    kept = _kept(flow, at_peak)
    tags = _tags(flow, at_peak)
    regions = _regions(space)
    return MemoryFlowSummary(
        count=len(flow),
        begin_s=_s(flow.begin_ns.min(initial=flow.end_ns.max(initial=0))),
        end_s=_s(flow.end_ns.max(initial=0)),
        peak_bytes=peak_bytes,
        peak_s=None if peak is None else _s(usage.at_ns[peak]),
        peak_end_s=None if peak is None else _s(usage.at_ns[peak + 1]),
        peak_tensors=int(at_peak.sum()),
        peak_added_bytes=int(flow.size[at_peak].sum()),
        used_bytes=space.size,
        tensors=tuple(_rows(flow, kept, at_peak, space)),
        tensors_left_out=len(flow) - len(kept),
        tags=tuple(tags[:TAGS_LIMIT]),
        tags_left_out=max(0, len(tags) - TAGS_LIMIT),
        regions=tuple(regions[:REGIONS_LIMIT]),
        regions_left_out=max(0, len(regions) - REGIONS_LIMIT),
        curve=_curve(usage),
        never_erased=int(flow.is_open.sum()),
        broken=flow.broken,
        beyond=flow.left_out,
        others=flow.others,
        is_cut=flow.is_cut,
        near_peak_s=None if peak is None else _near_peak_s(usage, peak_bytes),
        peak_kept_bytes=peak_bytes - space_of(flow.low[alive], flow.high[alive]).size,
    )


def _s(ns: int | np.int64) -> float:
    return float(ns) * _S_PER_NS


def _near_peak_s(usage: Usage, peak_bytes: int) -> float:
    """Of all moments: the curve has only the most of each stretch, and one may last seconds."""
    return _s(usage.lasting_ns(-(-peak_bytes * NEAR_PERCENT // 100)))


def _kept(flow: Flow, at_peak: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Rows of those that are kept, in the order of their beginnings."""
    size = flow.size.astype(np.float64)
    area = size * (flow.end_ns - flow.begin_ns)
    is_first = at_peak.copy()
    is_first[np.argsort(np.where(at_peak, -size, 1), kind="stable")[AT_PEAK_LIMIT:]] = False
    order = np.lexsort((-area, ~is_first))[:TENSORS_LIMIT]
    return order[np.lexsort((order, flow.begin_ns[order]))]


def _rows(
    flow: Flow, kept: NDArray[np.intp], at_peak: NDArray[np.bool_], space: Space
) -> Iterator[TensorRow]:
    places = space.below(flow.low[kept])
    for row, place in zip(kept.tolist(), places.tolist(), strict=True):
        layout = flow.layouts[flow.layout[row]]
        shape, dtype = layout_of(layout)
        begin_ns, end_ns = int(flow.begin_ns[row]), int(flow.end_ns[row])
        group = int(flow.group[row])
        yield TensorRow(
            name=flow.names[flow.name[row]],
            layout=layout,
            shape=shape,
            dtype=dtype,
            size_bytes=int(flow.size[row]),
            produced_s=_s(begin_ns),
            erased_s=None if flow.is_open[row] else _s(end_ns),
            duration_s=_s(end_ns - begin_ns),
            address=hex(int(flow.low[row])),
            place_bytes=place,
            group=None if group == NONE else group,
            at_peak=bool(at_peak[row]),
        )


def tag_of(name: str) -> str:
    """The name of a tensor without the numbers of calls and outputs."""
    return _CALL.sub("", name)


def _tags(flow: Flow, at_peak: NDArray[np.bool_]) -> list[TagRow]:
    """By bytes at the peak, then by bytes in all."""
    codes: dict[str, int] = {}
    of_name = np.array([codes.setdefault(tag_of(n), len(codes)) for n in flow.names], np.int64)
    tag = of_name[flow.name] if len(flow) else flow.name

    def sums(rows: NDArray[np.bool_] | slice) -> tuple[list[int], list[int]]:
        count = np.bincount(tag[rows], minlength=len(codes))
        total = np.zeros(len(codes), np.int64)
        np.add.at(total, tag[rows], flow.size[rows])
        return count.tolist(), total.tolist()

    (peak_count, peak_total), (count, total) = sums(at_peak), sums(slice(None))
    rows = [
        TagRow(text, count[code], peak_count[code], peak_total[code], total[code])
        for text, code in codes.items()
        if count[code]
    ]
    return sorted(rows, key=lambda row: (-row.peak_bytes, -row.made_bytes, row.tag))


def _regions(space: Space) -> list[Region]:
    if not len(space.start):
        return []
    gap = space.start[1:] - space.end[:-1]
    first = np.append(0, np.flatnonzero(gap >= GAP_BYTES) + 1)
    places = space.place[first]
    sizes = np.diff(np.append(places, space.size))
    return [
        Region(hex(start), place, size)
        for start, place, size in zip(
            space.start[first].tolist(), places.tolist(), sizes.tolist(), strict=True
        )
    ]


def _curve(usage: Usage) -> FlowCurve:
    if not len(usage.at_ns):
        return FlowCurve((), ())
    # the last moment, at which nothing is held any more, is a stretch of its own
    starts = thinned(usage.at_ns, POINTS_LIMIT)
    return FlowCurve(
        at_s=tuple((usage.at_ns[starts] * _S_PER_NS).tolist()),
        held_bytes=tuple(np.maximum.reduceat(usage.held, starts).tolist()),
    )


def read_memory_flow(path: Path) -> bytes:
    """Return the summary of a file as JSON. Raises ProfileFormatError, as `read_flow` does."""
    return msgspec.json.encode(summarize(read_flow(path)))
