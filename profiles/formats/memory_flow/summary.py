"""Summary of `memory_flow.svg`: tensors, memory usage over time, and the peak.

The summary has a bounded size for any file; whatever exceeds the limits is counted.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from profiles.analysis.downsampling import downsample
from profiles.formats.memory_flow.reader import NONE, Flow, layout_of, read_flow
from profiles.formats.memory_flow.usage import AddressSpace, MemoryUsage, space_of, usage_of
from profiles.presenters.described import means

#: maximum number of tensors in the summary, and of those at the peak that are preferred
TENSORS_LIMIT, AT_PEAK_LIMIT = 10_000, 2_000
TAGS_LIMIT, REGIONS_LIMIT = 200, 64
#: maximum number of points of the curve
POINTS_LIMIT = 1_000
#: minimum number of unused bytes between two regions
GAP_BYTES = 1 << 20
#: usage that counts as near the peak, percent of the peak
NEAR_PERCENT = 90
_S_PER_NS = 1e-9
#: the numbers of call and output in a tensor's name, `step[12].MUL:0`
_CALL = re.compile(r"\[\d+\]|:\d+$")


class TensorRow(Struct, frozen=True):
    """One tensor; times since the Profiler began."""

    name: Annotated[str, means("Empty for a tensor that existed before the Profiler began.")]
    layout: Annotated[str, means("As MegEngine writes it: sizes with strides, then the type.")]
    shape: Annotated[tuple[int, ...] | None, means("Null: unknown.")]
    dtype: Annotated[str, means("Such as `Float32`.")]
    size_bytes: Annotated[
        int, means("From its first element to its last. A view may keep more: peak_kept_bytes.")
    ]
    produced_s: Annotated[float, means("When it began, s.")]
    erased_s: Annotated[float | None, means("When it ended, s.")]
    duration_s: Annotated[float, means("Time between both, or until the end of the file, s.")]
    address: Annotated[
        str,
        means(
            "Begin of the memory that it shares with its views, hexadecimal. The file does not "
            "say where in this memory the tensor begins."
        ),
    ]
    place_bytes: Annotated[int, means("The same without the addresses that nothing used.")]
    group: Annotated[int | None, means("Number of the operator that made it; null if none did.")]
    at_peak: Annotated[bool, means("Whether it exists when most bytes are held.")]


class TagRow(Struct, frozen=True):
    """All tensors of one name, without the numbers of calls and outputs."""

    tag: Annotated[str, means("The name that they share.")]
    tensors: Annotated[int, means("Number of tensors.")]
    peak_tensors: Annotated[int, means("Number of those that exist at the peak.")]
    peak_bytes: Annotated[int, means("Sum of their sizes.")]
    made_bytes: Annotated[int, means("Sum of the sizes of all tensors of this name.")]


class Region(Struct, frozen=True):
    """Addresses in use, with gaps of less than 1 MiB."""

    address: Annotated[str, means("Where it begins, hexadecimal.")]
    place_bytes: Annotated[int, means("The same without unused addresses.")]
    size_bytes: Annotated[int, means("Number of bytes that were used at any time.")]


class FlowCurve(Struct, frozen=True):
    """Bytes held, at most 1,000 moments with the most up to the next one."""

    at_s: Annotated[tuple[float, ...], means("Times, s.")]
    held_bytes: Annotated[tuple[int, ...], means("Bytes held, each address once.")]


class MemoryFlowSummary(Struct, frozen=True):
    """Summary of `memory_flow.svg`, with at most 10,000 tensors."""

    count: Annotated[int, means("Number of tensors in the file.")]
    begin_s: Annotated[float, means("When the first began, s.")]
    end_s: Annotated[float, means("When the last ended, s.")]
    peak_bytes: Annotated[
        int,
        means(
            "Most bytes held at a time, each address once; memory is held as a whole until the "
            "last tensor in it is gone."
        ),
    ]
    peak_s: Annotated[float | None, means("Begin of the peak, s.")]
    peak_end_s: Annotated[float | None, means("End of the peak, s.")]
    peak_tensors: Annotated[int, means("Number of tensors that exist at the peak.")]
    peak_added_bytes: Annotated[
        int, means("Sum of their sizes; more than the peak if tensors share memory.")
    ]
    used_bytes: Annotated[int, means("Number of bytes that any tensor used.")]
    tensors: Annotated[
        tuple[TensorRow, ...],
        means(
            "In the order of their begin. If there are too many: those at the peak, then large and "
            "long-lived ones."
        ),
    ]
    tensors_left_out: Annotated[int, means("Number of tensors that are left out.")]
    tags: Annotated[tuple[TagRow, ...], means("The 200 names with most bytes at the peak.")]
    tags_left_out: Annotated[int, means("Number of names that are left out.")]
    regions: Annotated[tuple[Region, ...], means("The first 64 regions, by address.")]
    regions_left_out: Annotated[int, means("Number of regions that are left out.")]
    curve: Annotated[FlowCurve, means("Bytes held over time.")]
    never_erased: Annotated[int, means("Number of tensors without an end.")]
    broken: Annotated[int, means("Number of rectangles that could not be read.")]
    beyond: Annotated[int, means("Number of rectangles after the first 1,000,000.")]
    others: Annotated[int, means("Number of elements that MegEngine does not write.")]
    is_cut: Annotated[bool, means("Whether the file ends in the middle of its picture.")]
    near_peak_s: Annotated[
        float | None, means("Time in which at least nine tenths of the peak were held, s.")
    ]
    peak_kept_bytes: Annotated[
        int, means("Bytes of the peak that belong to deleted tensors and are kept by their views.")
    ]


def summarize(flow: Flow) -> MemoryFlowSummary:
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
        # from all changes, because a point of the curve may represent seconds
        near_peak_s=None
        if peak is None
        else _s(usage.lasting_ns(-(-peak_bytes * NEAR_PERCENT // 100))),
        peak_kept_bytes=peak_bytes - space_of(flow.low[alive], flow.high[alive]).size,
    )


def _s(ns: int | np.int64) -> float:
    return float(ns) * _S_PER_NS


def _kept(flow: Flow, at_peak: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Rows of the tensors in the summary, in the order of their begins."""
    size = flow.size.astype(np.float64)
    area = size * (flow.end_ns - flow.begin_ns)
    is_first = at_peak.copy()
    is_first[np.argsort(np.where(at_peak, -size, 1), kind="stable")[AT_PEAK_LIMIT:]] = False
    order = np.lexsort((-area, ~is_first))[:TENSORS_LIMIT]
    return order[np.lexsort((order, flow.begin_ns[order]))]


def _rows(
    flow: Flow, kept: NDArray[np.intp], at_peak: NDArray[np.bool_], space: AddressSpace
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
    """The rows by tag, sorted by bytes at the peak, then by total bytes."""
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


def _regions(space: AddressSpace) -> list[Region]:
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


def _curve(usage: MemoryUsage) -> FlowCurve:
    if not len(usage.at_ns):
        return FlowCurve((), ())
    # the last point, where no memory is held any more, forms an interval of its own
    at_ns, held = downsample(usage.at_ns, usage.held, POINTS_LIMIT)
    return FlowCurve(tuple((at_ns * _S_PER_NS).tolist()), tuple(held.tolist()))


def read_memory_flow(path: Path) -> bytes:
    """Return the summary of a file as JSON. Raises ProfileFormatError as `read_flow`."""
    return msgspec.json.encode(summarize(read_flow(path)))
