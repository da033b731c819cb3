"""Data of the charts of a profile: plain columns for JSON, and the texts beside them.

Operators are identified by their rows in `ProfileColumns`; times are in µs with three decimals.
"""

import datetime
import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import numpy as np
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from numpy.typing import NDArray

from agent.protocol.artifacts import profile_number
from profiles.analysis.advice.context import CONSTANTS
from profiles.analysis.by_type import ScopeTimes, scope_paths, scope_tree, time_by_type
from profiles.analysis.cumulative import Cumulative, cumulative
from profiles.analysis.data import ProfileData
from profiles.analysis.durations import duration, unit_of
from profiles.analysis.memory_plan import MemoryPlan, memory_plan
from profiles.analysis.roofline import Roofline, Roofs, peaks_in_use, roof_shares, roofline
from profiles.analysis.stability import totals_of_passes
from profiles.analysis.timeline import Bars, Timeline, TimelineLane, timeline
from profiles.formats.chrome_trace.device_times import on_several_lanes
from profiles.formats.columns import MISSING, NumberColumn, Side, TextColumn
from profiles.models import Profile
from profiles.presenters.described import ChartText, means, unknown
from profiles.presenters.formatting import bytesize, isolated, listed
from webprofile.sentences import sentences
from workers.models import Runtime

Json = dict[str, Any]
#: options that make a CPU compute in several threads; the peak performance is that of one thread
_THREADS = ("multithread", "multithread_default")
#: operators up to which the times of each pass are sent
_MOST_WITH_PASSES = 20_000
_NODE = re.compile(r'^CompNode\("([^"]*)"')


class TextsColumn(TypedDict):
    """A column of texts, each of which is sent once."""

    values: Annotated[Sequence[str], means("The different texts.")]
    codes: Annotated[Sequence[int], means("Place in `values` by row, or -1.")]


class SideColumns(TypedDict):
    """Times of all operators on one side, by row; statistics only for several passes."""

    us: Annotated[Sequence[float | None], unknown("Self time, µs; the median of several passes.")]
    count: Annotated[Sequence[int], means("Passes that timed the operator.")]
    cv: Annotated[Sequence[float | None], unknown("Standard deviation / mean over the passes.")]
    passes: Annotated[
        Sequence[Sequence[float | None]],
        unknown("Self time in each pass, µs. Empty above 20,000 operators."),
    ]


class OperatorsChart(TypedDict):
    """All operators, column by column: what the table, the charts and the graph show."""

    side: Annotated[
        str, means("Whose times charts use: `device`, or `host` without times on the device.")
    ]
    names: Annotated[Sequence[str], means("Name of each operator, by row.")]
    ids: Annotated[
        Sequence[str],
        means("Number that MegEngine gave the operator, as text: it may exceed 2^53."),
    ]
    types: Annotated[Sequence[int], means("Type of each operator: a place in `type_names`, or -1.")]
    type_names: Annotated[Sequence[str], means("The types.")]
    constant_types: Annotated[Sequence[int], means("Types of constants: places in `type_names`.")]
    device: Annotated[SideColumns, means("On the device.")]
    host: Annotated[SideColumns, means("On the host.")]
    scopes: Annotated[TextsColumn, means("Enclosing scope of names, such as `layer1.0`.")]
    computation: Annotated[Sequence[float | None], unknown("Operations of one execution.")]
    bytes: Annotated[Sequence[float | None], unknown("Bytes read and written.")]
    roof: Annotated[
        Sequence[float | None],
        unknown("Shortest time that the measured hardware permits / self time."),
    ]
    bound: Annotated[
        Sequence[int], means("What bounds it: 0 computation, 1 memory, 2 latency; -1 unknown.")
    ]
    in_shapes: Annotated[TextsColumn, means("Shapes of the inputs, JSON.")]
    out_shapes: Annotated[TextsColumn, means("Shapes of the outputs, JSON.")]
    dtypes: Annotated[TextsColumn, means("Dtypes of the inputs, JSON.")]


class LaneAnswer(TypedDict):
    """A computing node, or a thread of the host."""

    side: Annotated[str, means("`device` or `host`.")]
    name: Annotated[str, means("Its name.")]
    operators: Annotated[int, means("How many ran there.")]
    wait: Annotated[float | None, unknown("How long they waited, added up, µs.")]
    work: Annotated[float | None, unknown("How long they computed, added up, µs.")]


class BarColumns(TypedDict):
    """Bars of a timeline, column by column."""

    lane: Annotated[Sequence[int], means("Lane of each bar.")]
    start: Annotated[Sequence[float | None], unknown("Where each bar begins, µs.")]
    end: Annotated[Sequence[float | None], unknown("Where it ends, µs.")]
    wait: Annotated[Sequence[float | None], unknown("How much of it is waiting, µs.")]
    work: Annotated[Sequence[float | None], unknown("How much of it is computing, µs.")]
    copy: Annotated[Sequence[int], means("1 if it copies or converts data.")]
    count: Annotated[Sequence[int], means("Operators in each bar.")]
    rows: Annotated[Sequence[int], means("Rows of these operators, bar after bar.")]


class TimelineChart(ChartText, BarColumns):
    """When operators ran: bars, column by column."""

    lanes: Annotated[Sequence[LaneAnswer], means("The lanes.")]
    span: Annotated[float | None, unknown("From the first start to the last end, µs.")]
    merged: Annotated[bool, means("Whether a bar has several operators.")]
    pass_number: Annotated[
        int, means("The number of the pass that is drawn, which its file has, too.")
    ]
    passes: Annotated[
        int, means("Profiled passes that were merged; tables show medians over them.")
    ]


class PassChoice(TypedDict):
    """A pass that a timeline can draw; `place` counts the merged passes, from 1."""

    place: int
    number: int
    total: str
    is_fastest: bool
    is_median: bool


class TypesChart(ChartText):
    """Time by type, column by column."""

    types: Annotated[Sequence[int], means("The type: a place in `type_names`.")]
    us: Annotated[Sequence[float | None], unknown("Time of all its operators, µs.")]
    operators: Annotated[Sequence[int], means("How many they are.")]
    total: Annotated[float | None, unknown("Time of all types, µs.")]


class ScopesChart(ChartText):
    """Time by scope of names."""

    tree: Annotated[
        Sequence[Any], means("Scopes `{n: name, c: [content]}` and leaves `{r: [rows], t: µs}`.")
    ]


class RoofAnswer(TypedDict):
    """A compute ceiling of the roofline."""

    name: Annotated[str, means("Data type; empty: the best operator of this profile.")]
    flops: Annotated[float | None, unknown("Operations per second.")]


class RooflineChart(ChartText):
    """Speed against intensity, column by column."""

    rows: Annotated[Sequence[int], means("The operators that have a place.")]
    intensity: Annotated[Sequence[float | None], unknown("Operations per byte.")]
    flops: Annotated[Sequence[float | None], unknown("Operations per second.")]
    us: Annotated[Sequence[float | None], unknown("Self time, µs.")]
    measured: Annotated[bool, means("Whether the limits are those of the hardware.")]
    roofs: Annotated[Sequence[RoofAnswer], means("The limits of computing.")]
    bytes_s: Annotated[float | None, unknown("The limit of moving data, bytes per second.")]


class OwnerAnswer(TypedDict):
    """A memory block that is in use at the peak."""

    name: Annotated[str, means("The variable.")]
    row: Annotated[int, means("The operator that writes it, or -1.")]
    bytes: Annotated[float | None, unknown("Its size, bytes.")]
    kind: Annotated[str, means("`persistent`, `planned` or `estimated`.")]
    first: Annotated[int, means("The first step at which it is taken.")]
    last: Annotated[int, means("The last one.")]


class MemoryChart(ChartText):
    """Memory over the order of execution, column by column."""

    device: Annotated[str, means("Such as `cpu0`.")]
    devices: Annotated[Sequence[str], means("All that have blocks.")]
    rows: Annotated[Sequence[int], means("The operator of each step, or -1.")]
    persistent: Annotated[float | None, unknown("Bytes that are taken all the time.")]
    planned: Annotated[Sequence[int], means("Bytes of the memory plan at each step.")]
    estimated: Annotated[Sequence[int], means("Bytes that were estimated, at each step.")]
    peak: Annotated[int, means("The step with most bytes, or -1.")]
    peak_bytes: Annotated[float | None, unknown("How many these are.")]
    owners: Annotated[Sequence[OwnerAnswer], means("The largest blocks of that step.")]


class CumulativeChart(ChartText):
    """The running share of the slowest operators, column by column."""

    rows: Annotated[Sequence[int], means("The operators, the slowest first.")]
    us: Annotated[Sequence[float | None], unknown("Self time, µs.")]
    share: Annotated[
        Sequence[float | None], unknown("Share of the total of this one and those before it.")
    ]
    milestones: Annotated[
        Sequence[Sequence[float]], means("`[share, number of operators that reach it]`.")
    ]


def operators_data(data: ProfileData, roofs: Roofs | None) -> OperatorsChart:
    """Return the columns of all operators; `roofs` are those of the hardware, if measured."""
    columns = data.columns
    if roofs is None:
        share, bound = np.full(len(columns), math.nan), np.full(len(columns), -1, np.int8)
    else:
        share, bound = roof_shares(columns, roofs)
    scopes = [".".join(path) for path in scope_paths(data.graph, len(columns))]
    values = list(dict.fromkeys(scopes))
    places = {scope: place for place, scope in enumerate(values)}
    types = columns.types.values
    return {
        "side": chart_side(data),
        "names": columns.names,
        "ids": columns.ids,
        "types": columns.types.codes.tolist(),
        "type_names": types,
        "constant_types": [code for code, name in enumerate(types) if name in CONSTANTS],
        "device": _side(data, "device"),
        "host": _side(data, "host"),
        "scopes": {"values": values, "codes": [places[scope] for scope in scopes]},
        "computation": _present(columns.computation),
        "bytes": _present(columns.memory),
        "roof": _rounded(share, 3),
        "bound": bound.tolist(),
        "in_shapes": _texts(columns.in_shapes),
        "out_shapes": _texts(columns.out_shapes),
        "dtypes": _texts(columns.in_dtypes),
    }


def _side(data: ProfileData, side: Side) -> SideColumns:
    spread = data.spread(side)
    passes = spread.end_s if len(data.columns) <= _MOST_WITH_PASSES else ()
    return {
        "us": microseconds_of(data.columns.times(side).end_s),
        "count": spread.count.tolist(),
        "cv": _rounded(spread.cv, 4),
        "passes": [microseconds_of(times) for times in passes] if len(data.passes) > 1 else [],
    }


def _present(column: NumberColumn) -> list[float | None]:
    return _rounded(np.where(column.present, column.values, math.nan), 0)


def _texts(column: TextColumn) -> TextsColumn:
    return {"values": column.values, "codes": column.codes.tolist()}


def chart_side(data: ProfileData) -> Side:
    """Return the device, or the host for a profile without device times."""
    return "device" if data.columns.device.present.any() else "host"


def timeline_data(
    data: ProfileData,
    window_us: tuple[float, float] | None,
    place: int = 0,
    *,
    of_trace: bool = False,
) -> TimelineChart:
    """Return lanes and bars of the pass at `place`; `rows` holds `count` rows for each bar.

    of_trace: whether the operators come from a trace
    """
    graph = data.graph_of_pass(place)
    drawn = timeline(graph, data.columns.types, window_us, one_clock=of_trace)
    bars = drawn.bars
    return {
        "lanes": [lane_answer(lane) for lane in drawn.lanes],
        "span": drawn.span_us,
        **bar_columns(bars),
        "merged": bool((bars.counts > 1).any()),
        "pass_number": pass_number(data, place),
        "passes": len(data.passes),
        "sentence": sentences((pass_sentence(data, place), _timeline_sentence(drawn))),
        "notes": [*(_copy_notes(data) if of_trace else []), *timeline_notes(drawn)],
    }


def bar_columns(bars: Bars) -> BarColumns:
    """Return bars column by column."""
    return {
        "lane": bars.lane.tolist(),
        "start": _microseconds(bars.start_us),
        "end": _microseconds(bars.end_us),
        "wait": _microseconds(bars.wait_us),
        "work": _microseconds(bars.work_us),
        "copy": bars.copies.astype(int).tolist(),
        "count": bars.counts.tolist(),
        "rows": bars.rows.tolist(),
    }


def pass_number(data: ProfileData, place: int) -> int:
    """Return the number of the merged pass at `place`, which its file has, too."""
    return (profile_number(data.passes[place]) if data.passes else None) or place + 1


def pass_choices(data: ProfileData) -> list[PassChoice]:
    """Return the passes that a timeline can draw; none for a single pass.

    Of those with a known total, one is the fastest, and another one has the median.
    """
    if len(data.passes) < 2:
        return []
    places = range(len(data.passes))
    totals = totals_of_passes(data, chart_side(data))
    unit = unit_of(totals)
    known = {place: total_s for place, total_s in enumerate(totals) if total_s is not None}
    ordered = sorted(known, key=known.__getitem__)
    fastest = ordered[0] if ordered else None
    median = ordered[(len(ordered) - 1) // 2] if ordered else None
    return [
        {
            "place": place + 1,
            "number": pass_number(data, place),
            "total": duration(totals[place], unit),
            "is_fastest": place == fastest,
            "is_median": place == median != fastest,
        }
        for place in places
    ]


def pass_sentence(data: ProfileData, place: int = 0) -> str:
    """Return which of several passes a timeline draws, with its total; empty for a single pass."""
    if len(data.passes) < 2:
        return ""
    side = chart_side(data)
    text = _(
        "Profiled pass %(number)s, one iteration: operators take %(total)s on the device. "
        "Tables show medians over %(passes)s passes."
    )
    if side == "host":
        text = _(
            "Profiled pass %(number)s, one iteration: operators take %(total)s on the host. "
            "Tables show medians over %(passes)s passes."
        )
    return text % {
        "number": pass_number(data, place),
        "total": duration(totals_of_passes(data, side)[place]),
        "passes": len(data.passes),
    }


def lane_name(lane: TimelineLane) -> str:
    """Return the name of a thread or comp node: `gpu0:0` for `CompNode("gpu0:0" from "xpux:0")`."""
    node = _NODE.match(lane.name)
    return node[1] if node else lane.name


def lane_answer(lane: TimelineLane) -> LaneAnswer:
    return {
        "side": lane.side,
        "name": lane_name(lane),
        "operators": lane.operators,
        "wait": round(lane.wait_us, 3),
        "work": round(lane.work_us, 3),
    }


def _timeline_sentence(drawn: Timeline) -> str:
    device = [lane for lane in drawn.lanes if lane.side == "device"]
    if not device:
        return _("Span: %(span)s.") % {"span": duration(drawn.span_us / 1e6)}
    work_us, wait_us = sum(lane.work_us for lane in device), sum(lane.wait_us for lane in device)
    unit = unit_of(time_us / 1e6 for time_us in (drawn.span_us, work_us, wait_us))
    return _(
        "Span: %(span)s. On the device, operators run for %(work)s and wait for %(wait)s in total."
    ) % {
        "span": duration(drawn.span_us / 1e6, unit),
        "work": duration(work_us / 1e6, unit),
        "wait": duration(wait_us / 1e6, unit),
    }


def _copy_notes(data: ProfileData) -> list[str]:
    """Return notes for a trace: a copy's time does not include waiting for another device."""
    if not on_several_lanes(data.graph.device, len(data.columns)).any():
        return []
    return [
        _(
            "A copy between devices is drawn on each of them, including the time during which that "
            "device waited for the other. The totals here include this time; operator times do not "
            "include it."
        )
    ]


def timeline_notes(drawn: Timeline) -> list[str]:
    notes = []
    if drawn.shift_us is not None:
        notes.append(
            _(
                "The clocks of device and host have different origins, and the profile does not "
                "contain the offset. Device tracks are shifted by %(shift)s, the smallest shift "
                "for which no operator starts on the device before the host dispatches it. The "
                "gap between an operator on the host and on the device may be larger than shown."
            )
            % {"shift": duration(drawn.shift_us / 1e6)}
        )
    odd = {
        "not_finite": _("not finite"),
        "negative": _("negative"),
        "reversed": _("ends before it starts"),
    }
    for reason, number in drawn.odd.items():
        notes.append(
            ngettext(
                "%(number)d interval is left out: %(reason)s.",
                "%(number)d intervals are left out: %(reason)s.",
                number,
            )
            % {"number": number, "reason": odd[reason]}
        )
    if drawn.more_lanes:
        notes.append(
            ngettext(
                "%(number)d track with less time is not shown.",
                "%(number)d tracks with less time are not shown.",
                drawn.more_lanes,
            )
            % {"number": drawn.more_lanes}
        )
    return notes


def types_data(data: ProfileData) -> TypesChart:
    """Return the time by operator type, slowest first."""
    columns, side = data.columns, chart_side(data)
    types = time_by_type(columns.types, columns.times(side))
    sentence = ""
    if types.total_s:
        sentence = _("%(type)s: %(share)s of the total operator time (%(total)s).") % {
            "type": isolated(columns.types.values[types.codes[0]]),
            "share": percent(types.times_s[0] / types.total_s),
            "total": duration(types.total_s),
        }
    return {
        "types": types.codes.tolist(),
        "us": _microseconds(types.times_s * 1e6),
        "operators": types.operators.tolist(),
        "total": types.total_s * 1e6,
        "sentence": sentence,
        "notes": [*_side_notes(side), *_odd_notes(types.left_out)],
    }


def scopes_data(data: ProfileData) -> ScopesChart:
    """Return the tree of scopes: `n` name, `c` content; of a leaf `r` rows and `t` µs."""
    side = chart_side(data)
    paths = scope_paths(data.graph, len(data.columns))
    tree = scope_tree(paths, data.columns.times(side))
    return {"tree": _scope_nodes(tree), "sentence": "", "notes": _side_notes(side)}


def _scope_nodes(scope: ScopeTimes) -> list[Json]:
    nodes: list[Json] = []
    for child in scope.scopes.values():
        name = child.name
        # a scope that contains only one other scope is merged with it
        while len(child.scopes) == 1 and not child.rows and not child.more:
            (child,) = child.scopes.values()
            name = f"{name}.{child.name}"
        nodes.append({"n": name, "c": _scope_nodes(child)})
    nodes += [
        {"r": [row], "t": round(time_s * 1e6, 3)}
        for row, time_s in zip(scope.rows, scope.times_s, strict=True)
    ]
    if scope.more:
        nodes.append({"r": scope.more, "t": round(scope.more_s * 1e6, 3)})
    return nodes


def roofs_of(profile: Profile, *, on_gpu: bool = False) -> Roofs | None:
    """Return the peak performance of the task's device, measured with its version of MegEngine.

    None for an import, if it was not measured, and for a run in several threads.
    """
    if profile.attempt is None:
        return None
    task = profile.attempt.task
    several = any(int(task.options.get(name) or 0) > 1 for name in _THREADS)
    if several and not on_gpu:
        return None
    runtime = Runtime.objects.filter(
        worker=profile.attempt.worker_id, version=task.runtime_version
    ).first()
    peaks = runtime.roofs_of("cuda" if on_gpu else "cpu") if runtime else None
    if peaks is None:
        return None
    day = datetime.datetime.fromtimestamp(peaks.measured_at, datetime.UTC).date()
    return Roofs(
        peak_flops=peaks.peak_flops,
        copy_bytes_s=peaks.copy_bytes_s,
        source=_("matrix products and copies, measured on %(date)s on this device.")
        % {"date": day.isoformat()},
    )


def roofline_data(data: ProfileData, roofs: Roofs | None) -> RooflineChart:
    """Return the points of the roofline, and the ceilings of hardware or else of this profile."""
    points = roofline(data.columns)
    lines: list[RoofAnswer] = [{"name": "", "flops": points.best_flops}]
    bytes_s = points.best_bytes_s
    if roofs is not None:
        peaks = peaks_in_use(points, data.columns, roofs)
        lines = [{"name": name, "flops": flops} for name, flops in peaks.items()]
        bytes_s = roofs.copy_bytes_s
    return {
        "rows": points.rows.tolist(),
        "intensity": _round(points.intensity),
        "flops": _round(points.flops),
        "us": _microseconds(points.time_s * 1e6),
        "measured": roofs is not None,
        "roofs": lines,
        "bytes_s": bytes_s,
        "sentence": _roofline_sentence(points, len(data.columns)),
        "notes": _roofline_notes(points, roofs),
    }


def _roofline_sentence(points: Roofline, operators: int) -> str:
    total = float(points.time_s.sum())
    if not total:
        return ""
    return _("%(number)d of %(all)d operators plotted (%(time)s)") % {
        "number": len(points.rows),
        "all": operators,
        "time": duration(total),
    }


def _roofline_notes(points: Roofline, roofs: Roofs | None) -> list[str]:
    counts = (
        (points.no_time, _("a time that is 0 or cannot be drawn")),
        (points.no_computation, _("FLOPs that MegEngine does not count")),
        (points.no_memory, _("bytes that MegEngine does not count")),
    )
    left_out = [f"{number} ({reason})" for number, reason in counts if number]
    notes = []
    if left_out:
        notes.append(
            _("Timed operators that are not plotted: %(list)s.") % {"list": listed(left_out)}
        )
    if roofs is not None:
        notes.append(_("Roofs: %(source)s") % {"source": roofs.source})
        if bool((points.flops > points.intensity * roofs.copy_bytes_s).any()):
            notes.append(
                _(
                    "Operators above the copy line read from caches: their inputs were used "
                    "shortly before, and caches are faster than the memory that was measured."
                )
            )
    elif len(points.rows):
        notes.append(
            _(
                "No roofs are known for this run, because roofs are measured only on devices of "
                "this site, with one thread. The lines are the highest FLOP/s and bytes/s that "
                "operators of at least 10 µs reached in this profile. They are not limits of the "
                "hardware."
            )
        )
    return notes


def memory_data(data: ProfileData, device: str) -> MemoryChart:
    """Return the bytes over the order of execution, and the blocks allocated at the peak."""
    plan = memory_plan(data.graph, data.columns, device)
    return {
        "device": plan.device,
        "devices": plan.devices,
        "rows": plan.rows.tolist(),
        "persistent": plan.persistent_bytes,
        "planned": plan.planned.astype(int).tolist(),
        "estimated": plan.estimated.astype(int).tolist(),
        "peak": plan.peak_step if plan.peak_bytes else MISSING,
        "peak_bytes": plan.peak_bytes,
        "owners": [
            {
                "name": owner.variable,
                "row": owner.row,
                "bytes": owner.size_bytes,
                "kind": owner.kind,
                "first": owner.first,
                "last": owner.last,
            }
            for owner in plan.owners
        ],
        "sentence": _memory_sentence(plan, data),
        "notes": _memory_notes(plan),
    }


def _memory_sentence(plan: MemoryPlan, data: ProfileData) -> str:
    if not plan.peak_bytes:
        return ""
    row = int(plan.rows[plan.peak_step])
    name = data.columns.names[row] if row != MISSING else "–"
    # a trace does not record where its tensors are stored
    text = _(
        "Peak on %(device)s: %(peak)s at operator %(step)d of %(steps)d, %(name)s; %(persistent)s "
        "of it are parameters, constants and inputs."
    )
    if not plan.device:
        text = _("Peak: %(peak)s at operator %(step)d of %(steps)d, %(name)s.")
    return text % {
        "device": isolated(plan.device),
        "peak": bytesize(plan.peak_bytes),
        "step": plan.peak_step + 1,
        "steps": len(plan.rows),
        "name": isolated(name),
        "persistent": bytesize(plan.persistent_bytes),
    }


def _memory_notes(plan: MemoryPlan) -> list[str]:
    notes = []
    if plan.estimated.any():
        notes.append(
            _(
                "Estimated: variables that MegEngine allocates while the graph runs are not in "
                "its plan. Their size is shape × element size, where the element size is "
                "derived from the bytes that the operators read and write. Results that are "
                "written in place, over an input, are counted twice."
            )
        )
    if plan.unknown:
        notes.append(
            ngettext(
                "%(number)d variable of unknown size is left out.",
                "%(number)d variables of unknown size are left out.",
                plan.unknown,
            )
            % {"number": plan.unknown}
        )
    return notes


def cumulative_data(data: ProfileData) -> CumulativeChart:
    """Return operators by time, slowest first, and their running share of the total."""
    side = chart_side(data)
    curve = cumulative(data.columns.times(side))
    return {
        "rows": curve.rows.tolist(),
        "us": _microseconds(curve.times_s * 1e6),
        "share": np.round(curve.shares, 5).tolist(),
        "milestones": curve.milestones,
        "sentence": _pareto(curve),
        "notes": [*_side_notes(side), *_odd_notes(curve.left_out)],
    }


def pareto_sentence(data: ProfileData) -> str:
    """Return how many operators make most of the time; empty without times."""
    return _pareto(cumulative(data.columns.times(chart_side(data))))


def _pareto(curve: Cumulative) -> str:
    if not curve.milestones:
        return ""
    share, operators = curve.milestones[1]
    return ngettext(
        "%(number)d of %(all)d operators accounts for %(share)s of the time.",
        "%(number)d of %(all)d operators account for %(share)s of the time.",
        operators,
    ) % {"number": operators, "all": len(curve.rows), "share": percent(share)}


def _side_notes(side: Side) -> list[str]:
    return (
        []
        if side == "device"
        else [_("No operator was timed on the device. These are host times.")]
    )


def _odd_notes(left_out: int) -> list[str]:
    if not left_out:
        return []
    return [
        ngettext(
            "%(number)d operator is left out: its time is negative, too large or not a number.",
            "%(number)d operators are left out: their times are negative, too large or not "
            "numbers.",
            left_out,
        )
        % {"number": left_out}
    ]


def percent(share: float) -> str:
    """Format `80 %`, `0.4 %`, `< 0.1 %`; must agree with `static/js/format.js`."""
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{share * 100:.0f} %" if share >= 0.0995 or not share else f"{share * 100:.1f} %"


def _microseconds(values: NDArray[np.float64]) -> list[float | None]:
    with np.errstate(over="ignore", invalid="ignore"):
        return _rounded(values, 3)


def microseconds_of(seconds: NDArray[np.float64]) -> list[float | None]:
    with np.errstate(over="ignore"):
        return _microseconds(seconds * 1e6)


def _rounded(values: NDArray[np.float64], digits: int) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in np.round(values, digits).tolist()]


def _round(values: NDArray[np.float64]) -> list[float]:
    return [float(f"{value:.5g}") for value in values.tolist()]
