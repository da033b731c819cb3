"""Format a comparison for its page: numbers with their messages, row by row."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from django.core.paginator import Page, Paginator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agent.statistics.unpaired import ScatterSource
from profiles.analysis.durations import CLOCK_S, TimeUnit, duration, in_unit, unit_of
from profiles.comparison import messages
from profiles.comparison.comparison import Comparison
from profiles.comparison.facts import steps_of_all
from profiles.comparison.loading import ComparisonResult
from profiles.comparison.nodes import Nodes
from profiles.comparison.question import SORTS, RowSelection
from profiles.comparison.request import ComparisonRequest
from profiles.comparison.rows import STATUSES, ComparisonCell, ComparisonRow
from profiles.comparison.waterfall import BYS, WaterfallStep, waterfall
from profiles.formats.columns import SIDES, Side
from profiles.presenters.formatting import listed, recorded_size, shortened, visible

PAGE_SIZE = 100
#: most operators of a group that the table names; the selected row names all
_MOST_NAMED = 4


def row_page(
    compared: ComparisonResult, request: ComparisonRequest, answer: RowSelection
) -> "Page[Any]":
    """Return the requested page of rows; `object_list` holds the formatted rows."""
    page: Page[Any] = Paginator(answer.rows.tolist(), PAGE_SIZE).get_page(request.page)
    unit = row_unit(compared, request)
    page.object_list = [row_view(compared, number, request, unit) for number in page.object_list]
    return page


def row_unit(compared: ComparisonResult, request: ComparisonRequest) -> TimeUnit:
    """Return the unit of the longest row, so that all pages of the table use the same."""
    times_s = compared.comparison.side(request.question.side).time_s
    return unit_of([float(np.nanmax(times_s, initial=0.0))])


def row_view(
    compared: ComparisonResult, number: int, request: ComparisonRequest, unit: TimeUnit
) -> dict[str, Any]:
    """Return one row of the table; unit: that of all its times, which are numbers of it."""
    comparison, side = compared.comparison, request.question.side
    row, numbers = comparison.rows[number], comparison.side(side)
    profile, x = comparison.main[number]
    nodes = comparison.nodes[profile]
    became = _became(comparison, row)
    return {
        "number": number,
        "label": shortened(comparison.label(number)),
        "name": shortened(nodes.short_names[x]),
        "type": shortened(nodes.kinds[x]),
        "base": in_unit(float(numbers.time_s[0, number]), unit),
        "address": request.changed(row=number),
        "selected": number == request.row,
        "cells": [
            _cell_view(comparison, number, other, side=side, unit=unit)
            | {"became": became.get(other, "")}
            for other in range(len(row.cells))
        ],
    }


def _became(comparison: Comparison, row: ComparisonRow) -> dict[int, str]:
    """Return the change of groups per profile that has one: `Conv + BN + ADD → ConvBias`."""
    lines = {}
    before = _kinds(comparison.nodes[0], row.baseline)
    for other, cell in enumerate(row.cells):
        if (cell and cell.status in ("fused", "split")) or (cell and "type" in cell.reasons):
            lines[other] = f"{before} → {_kinds(comparison.nodes[other + 1], cell.members)}"
    return lines


def _kinds(nodes: Nodes, members: tuple[int, ...]) -> str:
    computing = nodes.computing(members)
    named = [shortened(nodes.kinds[x]) for x in computing[:_MOST_NAMED]]
    more = ["…"] if len(computing) > _MOST_NAMED else []
    return " + ".join(named + more)


def _cell_view(
    comparison: Comparison, number: int, other: int, *, side: Side, unit: TimeUnit
) -> dict[str, Any]:
    cell, numbers = comparison.rows[number].cells[other], comparison.side(side)
    if cell is None:
        return {"status": ""}
    base_s, time_s = (float(numbers.time_s[k, number]) for k in (0, other + 1))
    # a change to 0 is -100 %; times below the resolution of the clock have no ratio
    has_ratio = base_s >= CLOCK_S and (time_s == 0 or time_s >= CLOCK_S) and bool(cell.members)
    return {
        "letter": messages.letter(other + 1),
        "status": cell.status,
        "word": messages.STATUS_WORDS[cell.status][0],
        "reasons": listed(str(messages.REASON_WORDS[reason]) for reason in cell.reasons),
        "time": in_unit(time_s, unit),
        "delta": messages.signed(float(numbers.delta_s[other, number]), unit),
        "verdict": messages.verdict_words(numbers.judgements[other], number, has_ratio=has_ratio),
    }


#: names of the totals, and how a sentence begins that is about one
_TOTALS = {
    "latency": gettext_lazy("Latency, median (profiler off)"),
    "device": gettext_lazy("Device total"),
    "host": gettext_lazy("Host total"),
}
_SENTENCES = {
    "latency": gettext_lazy("Latency %(change)s %%, %(verdict)s"),
    "device": gettext_lazy("Device time %(change)s %%, %(verdict)s"),
    "host": gettext_lazy("Host time %(change)s %%, %(verdict)s"),
}


def answers(compared: ComparisonResult) -> list[dict[str, str]]:
    """Return the difference of each profile from the baseline in one or two sentences.

    They are about the latency and the total of the operators (on the device, or else on the host),
    as far as their ratios are known. Rows of operators without a verdict do not repeat the reason.
    """
    return [
        {"letter": messages.letter(other)} | answer
        for other in range(1, len(compared.profiles))
        for answer in _answers(compared, other)
    ]


def _answers(compared: ComparisonResult, other: int) -> list[dict[str, str]]:
    known = dict[str, dict[str, str]]()
    for key, _values, judged in compared.totals():
        words = messages.verdict_words(judged[other - 1], 0)
        if words["change"]:
            text = _SENTENCES[key] % {"change": words["change"], "verdict": words["word"]}
            known[key] = {"text": text, "interval": words["interval"], "tone": words["tone"]}
    operators = known.get("device") or known.get("host")
    if found := [answer for answer in (known.get("latency"), operators) if answer]:
        return found
    none = _(
        "Total times cannot be compared, because no total is known and greater than 0 in both runs."
    )
    return [{"text": none, "interval": "", "tone": ""}]


def total_table(compared: ComparisonResult) -> dict[str, Any]:
    """Return the unit of times and the rows of latency, totals and memory, per step for traces."""
    totals = compared.totals()
    steps = _step_totals(compared)
    unit = unit_of(
        value
        for values in [*(row[1] for row in totals), *(row[2] for row in steps)]
        for value in values
    )
    rows = []
    for key, values, judged in totals:
        verdicts = [messages.verdict_words(judgement, 0) for judgement in judged]
        rows.append(_total_row(key, str(_TOTALS[key]), values, verdicts, unit))
    for name, title, values in steps:
        verdicts = [
            _without_verdict(messages.verdict_word("single"), value, values[0])
            for value in values[1:]
        ]
        rows.append(_total_row(name, title, values, verdicts, unit))
    return {"unit": unit.name, "rows": rows + _memory_rows(compared)}


#: texts on the smallest significant difference, by the runs that show it
_EQUAL_RUNS: dict[ScatterSource, Any] = {
    "equal": gettext_lazy(
        "Equal runs of this task may differ by %(percent)s in device time. A smaller difference "
        "of %(letter)s gets no verdict."
    ),
    "device": gettext_lazy(
        "Equal runs on this device may differ by %(percent)s in device time. A smaller "
        "difference of %(letter)s gets no verdict."
    ),
    "sample": gettext_lazy(
        "Equal runs of the sample model on this device differ by up to %(percent)s in device "
        "time. A smaller difference of %(letter)s gets no verdict."
    ),
}


def total_notes(compared: ComparisonResult) -> list[str]:
    """Return sentences on the smallest significant difference and on missing verdicts."""
    notes = []
    for other, judgement in enumerate(compared.latency, start=1):
        if judgement.code(0) in ("none", "faster", "slower"):
            percent = messages.plain_percent(math.expm1(compared.basis(other, "latency").allowance))
            notes.append(
                _(
                    "Latencies of equal runs may differ by %(percent)s. A smaller difference of "
                    "%(letter)s gets no verdict."
                )
                % {"percent": percent, "letter": messages.letter(other)}
            )
    if any(judgement.code(0) == "unknown" for judgement in compared.latency):
        notes.append(
            _(
                "The median latency gets no verdict: it is unknown how much the latencies of equal "
                "runs on the device differ."
            )
        )
    for other, judgement in enumerate(compared.comparison.device.totals, start=1):
        if judgement.code(0) in ("none", "faster", "slower"):
            basis = compared.basis(other, "device")
            percent = messages.plain_percent(math.expm1(basis.allowance))
            values = {"percent": percent, "letter": messages.letter(other)}
            notes.append(_EQUAL_RUNS[basis.source or "device"] % values)
    return notes


def _step_totals(compared: ComparisonResult) -> list[tuple[str, str, list[float]]]:
    """Return totals per training step, if all profiles are traces with known steps."""
    steps = [count or 0 for count in steps_of_all(compared)]
    if not all(steps) or max(steps) == 1:
        return []
    titles = {
        "device": _("Device time of one training step"),
        "host": _("Host, one training step"),
    }
    totals = []
    for side in SIDES:
        totals_s = compared.comparison.side(side).total_s.tolist()
        each_s = [total_s / number for total_s, number in zip(totals_s, steps, strict=True)]
        totals.append((f"{side}-step", titles[side], each_s))
    return totals


#: titles of peak memory, by the field of the attempt
_MEMORY = {
    "host_memory_bytes": gettext_lazy("Peak memory"),
    "gpu_memory_bytes": gettext_lazy("Peak GPU memory"),
}


def _memory_rows(compared: ComparisonResult) -> list[dict[str, Any]]:
    """Return the rows of peak memory that any run has; sizes have their units."""
    rows = []
    for key, title in _MEMORY.items():
        base, *others = (getattr(profile.attempt, key, None) for profile in compared.profiles)
        if base is None and all(size is None for size in others):
            continue
        cells = []
        for number, size in enumerate(others, start=1):
            delta = None if base is None or size is None else size - base
            cells.append(
                {
                    "letter": messages.letter(number),
                    "time": recorded_size(size),
                    "delta": "" if delta is None else messages.signed_amount(delta),
                    "verdict": _without_verdict(_("no verdict"), size, base),
                }
            )
        rows.append({"key": key, "title": str(title), "base": recorded_size(base), "cells": cells})
    return rows


def _without_verdict(word: str, value: float | None, base: float | None) -> dict[str, str]:
    change = value / base - 1 if base and value is not None else math.nan
    return {
        "code": "single",
        "word": word,
        "change": messages.change_texts(change, math.nan, math.nan)[0],
        "interval": "",
        "tone": "",
    }


def _total_row(
    key: str, title: str, values: Sequence[float], verdicts: list[dict[str, str]], unit: TimeUnit
) -> dict[str, Any]:
    return {
        "key": key,
        "title": title,
        "base": in_unit(values[0], unit),
        "cells": [
            {
                "letter": messages.letter(number),
                "time": in_unit(value, unit),
                "delta": messages.signed(value - values[0], unit),
                "verdict": verdict,
            }
            for number, (value, verdict) in enumerate(
                zip(values[1:], verdicts, strict=True), start=1
            )
        ],
    }


def waterfall_view(compared: ComparisonResult, request: ComparisonRequest) -> dict[str, Any]:
    """Return the waterfall to one of the other profiles: steps for the table and for the chart."""
    other = request.other
    steps = waterfall(compared.comparison, other, side=request.question.side, by=request.by)
    unit = unit_of([step.to_s for step in steps])
    views = [_step_view(step, request, unit) for step in steps]
    start_s = steps[0].to_s if steps else 0.0
    for view, step in zip(views, steps, strict=True):
        if step.kind in ("step", "rest"):
            change = step.delta_s / start_s if start_s else math.nan
            view["percent"] = messages.change_texts(change, math.nan, math.nan)[0]
    return {
        "other": other,
        "letter": messages.letter(other),
        # each operator would be removed or new, which explains nothing
        "is_apart": not compared.comparison.common[other - 1],
        "steps": views,
        "unit": unit.name,
        "data": [
            {
                "kind": step.kind,
                "name": view["name"],
                "from": step.from_s,
                "to": step.to_s,
                "delta": step.delta_s,
                "amount": f"{view['delta'] or view['total']} {unit.name}",
                "total": f"{view['total']} {unit.name}",
                "tone": view["tone"],
            }
            for step, view in zip(steps, views, strict=True)
        ],
        "others": [
            {
                "letter": messages.letter(n),
                "address": request.changed(other=n),
                "is_current": n == other,
            }
            for n in range(1, len(compared.profiles))
        ],
        "bys": [
            {
                "word": messages.BY_WORDS[by],
                "address": request.changed(by=by),
                "is_current": by == request.by,
            }
            for by in BYS
        ],
    }


def _step_view(step: WaterfallStep, request: ComparisonRequest, unit: TimeUnit) -> dict[str, Any]:
    names = {
        "start": _("Total of the baseline"),
        "rest": _("all other operators"),
        "end": _("Total"),
    }
    name = step.name or names.get(step.kind) or _("without a scope")
    return {
        "kind": step.kind,
        "name": shortened(name),
        "rows": step.rows,
        "delta": messages.signed(step.delta_s, unit) if step.kind in ("step", "rest") else "",
        "total": in_unit(step.to_s, unit),
        "address": request.changed(row=step.row) if step.row is not None else "",
        "tone": step.verdict if step.verdict in ("faster", "slower") else "",
    }


def filter_view(request: ComparisonRequest, answer: RowSelection) -> dict[str, Any]:
    """Return the context of the form above the table."""
    question = request.question
    quiet_s = answer.quiet_delta_s.tolist()
    unit = unit_of(quiet_s)
    return {
        "text": question.text,
        "least": "" if question.least_percent is None else f"{question.least_percent:g}",
        "every": question.every,
        "statuses": [
            {
                "key": status,
                "word": messages.STATUS_WORDS[status][0],
                "help": messages.STATUS_WORDS[status][1],
                "count": answer.counts[status],
                "is_chosen": status in question.statuses,
            }
            for status in STATUSES
        ],
        "sorts": [
            {"key": sort, "word": messages.SORT_WORDS[sort], "is_chosen": sort == question.sort}
            for sort in SORTS
        ],
        "sides": [{"key": side, "is_chosen": side == question.side} for side in SIDES],
        "all_address": request.changed(question=replace(question, every=True, least_percent=None)),
        "reset_address": request.changed(question=type(question)(side=question.side)),
        "quiet": answer.quiet,
        "quiet_delta": listed(
            f"{messages.letter(n)} {messages.signed_time(value, unit)}"
            for n, value in enumerate(quiet_s, start=1)
        ),
    }


def selected_view(compared: ComparisonResult, request: ComparisonRequest) -> dict[str, Any] | None:
    """Return the selected row with all of its operators; None without a selection."""
    comparison = compared.comparison
    if request.row is None or request.row >= len(comparison.rows):
        return None
    row = comparison.rows[request.row]
    unit = _selected_unit(compared, row, request)
    # the row of a profile's own table that represents the group in its graph
    drawn = comparison.nodes[request.drawn]
    computing = drawn.computing(row.members(request.drawn))
    return {
        **row_view(compared, request.row, request, unit),
        "close_address": request.changed(row=None),
        "graph_row": drawn.rows[computing[0]] if computing else None,
        "profiles": [
            {
                "letter": messages.letter(profile),
                **_operators(compared, profile, row, side=request.question.side, unit=unit),
                "samples": [
                    duration(sample, unit) for sample in _samples(comparison, profile, request)
                ],
                "how": _how(row.cells[profile - 1]) if profile else "",
            }
            for profile in range(len(compared.profiles))
        ],
    }


def _how(cell: ComparisonCell | None) -> str:
    return listed(str(messages.HOW_WORDS[how]) for how in cell.how) if cell else ""


def _selected_unit(
    compared: ComparisonResult, row: ComparisonRow, request: ComparisonRequest
) -> TimeUnit:
    """Return the common unit of all times of the selected row."""
    times: list[float] = []
    for profile, data in enumerate(compared.data):
        rows = compared.comparison.nodes[profile].rows
        end_s = data.columns.times(request.question.side).end_s
        times += [float(end_s[rows[x]]) for x in row.members(profile)]
        times += _samples(compared.comparison, profile, request)
    return unit_of(times)


def _samples(comparison: Comparison, profile: int, request: ComparisonRequest) -> list[float]:
    samples_s = comparison.side(request.question.side).samples[profile][:, request.row]
    return sorted(samples_s[~np.isnan(samples_s)].tolist())


def _operators(
    compared: ComparisonResult, profile: int, row: ComparisonRow, *, side: Side, unit: TimeUnit
) -> dict[str, Any]:
    """Return the computing operators one by one, and constants as a count and a time."""
    nodes, columns = compared.comparison.nodes[profile], compared.data[profile].columns
    times_s, members = columns.times(side).end_s, row.members(profile)
    computing = nodes.computing(members)
    constants = sorted(set(members) - set(computing))
    return {
        "operators": [
            {
                "name": shortened(nodes.short_names[x]),
                "type": shortened(nodes.kinds[x]),
                "time": duration(float(times_s[nodes.rows[x]]), unit),
                "reads": _shapes(nodes.read_shapes[x]),
                "makes": ", ".join(shape or "?" for shape in nodes.value_shapes[x]),
                "params": _params(nodes.params[x]),
            }
            for x in computing
        ],
        "constants": len(constants),
        "constants_time": duration(
            float(np.nansum([times_s[nodes.rows[x]] for x in constants])) if constants else None,
            unit,
        ),
    }


def _shapes(shapes: str | None) -> str:
    decoded = msgspec.json.decode(shapes) if shapes else None
    if not isinstance(decoded, list):
        return ""
    return ", ".join(msgspec.json.encode(value).decode() for value in decoded)


def _params(params: str | None) -> str:
    decoded = msgspec.json.decode(params) if params else None
    if not isinstance(decoded, dict):
        return ""
    return visible(", ".join(f"{name}={value}" for name, value in sorted(decoded.items())))
