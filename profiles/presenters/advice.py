"""Recommendations for a profile as text in the user's language."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _

from agent.protocol.options import OPTIONS
from profiles.analysis.advice.finding import Finding, RunFacts, Waits
from profiles.analysis.advice.registry import Advice, advise
from profiles.analysis.data import ProfileData
from profiles.analysis.durations import TimeUnit, duration
from profiles.analysis.numbers import share
from profiles.exports.originals import are_of_trace
from profiles.formats.chrome_trace.advice_messages import TRACE_RULES
from profiles.formats.chrome_trace.summary import TraceSummary
from profiles.ingest.loading import profile_data, run_data
from profiles.models import AttemptMeasurement, Profile
from profiles.presenters.advice_messages import ESTIMATES, NEEDS, RULES, SEVERITIES, RuleWords
from profiles.presenters.charts import roofs_of
from profiles.presenters.formatting import bytesize, isolated, listed, shortened

#: maximum number of operators that a finding links to; the others are only counted
MOST_OPERATORS = 5
#: maximum number of findings listed at the top of the page
MOST_LINES = 3
_SHARES = ("share", "reached", "idle", "host", "covered", "overhead", "limit")


def run_facts(profile: Profile) -> RunFacts:
    """Return the facts about the run of a profile; defaults for an import.

    Raises DomainError, as `profile_data`.
    """
    attempt, data = profile.attempt, run_data(profile)
    facts = of_trace(data) if are_of_trace(profile, data.passes) else RunFacts()
    if attempt is None:
        return facts
    task = attempt.task
    facts = replace(
        facts,
        # options of load_and_run do not apply to the operators of a script
        options=None if task.is_script else task.options,
        machine=str(attempt.worker.facts.get("machine", "")),
        roofs=roofs_of(profile, on_gpu=bool(profile_data(profile).on_gpu.any())),
    )
    measured = profile.measurement
    return facts if measured is None else _with_measurement(facts, measured)


def of_trace(data: ProfileData) -> RunFacts:
    """Return the facts that a trace contains: how often and how long Python waited."""
    summary = data.summary("trace", TraceSummary)
    if summary is None:
        return RunFacts()
    recorded_s = summary.end_s - summary.begin_s
    share = (summary.wait_s + summary.wait_after_s) / recorded_s if recorded_s > 0 else 0.0
    return RunFacts(of_trace=True, waits=Waits(summary.waits_count, share))


def _with_measurement(facts: RunFacts, measured: AttemptMeasurement) -> RunFacts:
    return replace(
        facts,
        iterations_s=measured.iterations_s,
        iteration_cv=measured.cv,
        overhead=measured.overhead,
        disturbances=tuple(
            str(disturbance.get("code", "")) for disturbance in measured.disturbances
        ),
    )


def advice_of(data: ProfileData, facts: RunFacts) -> dict[str, Any]:
    """Return the context of `profiles/_advice.html`.

    findings: in the format of `_finding`, in order
    lines: findings listed at the top of the page
    has_gain: whether any finding could save time
    one_sample: whether each time is a single sample of its operator
    checked: titles of the rules that were evaluated
    suppressed: titles of the rules that were skipped because times are unreliable
    unknown: titles of the rules that lack a fact, with the missing facts
    """
    advice = advise(data, facts)
    words = TRACE_RULES if facts.of_trace else RULES
    findings = [_finding(finding, words, data, advice) for finding in advice.findings]
    return {
        "findings": findings,
        "lines": _lines(findings),
        "has_gain": any(finding.severity == "gain" for finding in advice.findings),
        "one_sample": len(data.passes) == 1 and not facts.of_trace,
        "suppressed": [str(words[name].title) for name in advice.suppressed],
        "checked": [words[name].title for name in advice.checked],
        "unknown": [
            {"title": words[name].title, "lacks": NEEDS[need]} for name, need in advice.unknown
        ],
    }


def _lines(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the findings for the top of the page: one warning, then the largest saving, then
    others.

    Of savings that count the same time, only the first is included.
    """
    gains = []
    counted: list[str] = []
    for view in findings:
        if any(rule in counted for rule in view["finding"].overlaps):
            continue
        counted.append(view["rule"])
        if view["severity"] == "gain":
            gains.append(view)
    others = [view for view in findings if view["severity"] != "gain"]
    leads = others[:1] if others and others[0]["severity"] == "warning" else []
    return [*leads, *gains, *others[len(leads) :]][:MOST_LINES]


def _finding(
    finding: Finding, words_of: Mapping[str, RuleWords], data: ProfileData, advice: Advice
) -> dict[str, Any]:
    words = words_of[finding.rule]
    values = _values(finding.params)
    can_replay = "record_comp_seq" in finding.options
    step = words.step if can_replay or not words.other_step else words.other_step
    drawn = finding.rows[:MOST_OPERATORS]
    unit = data.unit("device")
    return {
        "finding": finding,
        "rule": finding.rule,
        "severity": finding.severity,
        "severity_word": SEVERITIES[finding.severity],
        "title": words.title,
        "sentence": words.sentence % values,
        "why": words.why % values,
        "step": _step(str(step), finding.options),
        # a switch that one click can turn on
        "repeat": next((name for name in finding.options if OPTIONS[name].kind == "bool"), ""),
        "saves": _saves(finding, advice, unit),
        "overlaps": _overlaps(finding, advice.findings, words_of),
        "estimate": ESTIMATES.get(finding.estimate, ""),
        "operators": [_operator(row, data, unit) for row in drawn],
        "more": len(finding.rows) - len(drawn),
    }


def _values(params: Mapping[str, float | int | str]) -> dict[str, Any]:
    """Format numbers with their units; `count` remains a number."""
    values: dict[str, Any] = dict(params)
    for name in _SHARES:
        if name in values:
            values[name] = share(float(values[name]))
    if "type" in values:
        values["type"] = isolated(str(values["type"]))
    if "bytes" in values:
        values["bytes"] = bytesize(values["bytes"])
    if "total_us" in values:
        values["total_us"] = duration(values["total_us"] * 1e-6)
    if "passes_cv" in values:
        values["spread"] = share(max(values["passes_cv"], values["iterations_cv"]))
    return values


def _saves(finding: Finding, advice: Advice, unit: TimeUnit) -> dict[str, str] | None:
    """Return the time and its share of the device total; no share for a total of 0."""
    if finding.saves_s is None:
        return None
    whole_s = advice.total_s + (finding.saves_s if finding.estimate in ("idle", "outside") else 0)
    part = share(finding.saves_s / whole_s) if whole_s > 0 else ""
    return {"time": duration(finding.saves_s, unit), "share": part}


def _overlaps(
    finding: Finding, findings: Sequence[Finding], words_of: Mapping[str, RuleWords]
) -> str:
    """Return a note on savings that count the same time; empty without any."""
    if not finding.overlaps:
        return ""
    others = [other for other in findings if other.rule in finding.overlaps]
    names = listed(_("“%(name)s”") % {"name": words_of[other.rule].title} for other in others)
    group = {finding.rule, *finding.overlaps}
    # all of them overlap with each other
    exclude_each_other = all(group - {other.rule} <= set(other.overlaps) for other in others)
    if exclude_each_other:
        text = _("Covers the same time as %(names)s: only one of these savings can be achieved.")
    else:
        text = _("Covers part of the time of %(names)s: these savings cannot be added.")
    return text % {"names": names}


def _operator(row: int, data: ProfileData, unit: TimeUnit) -> dict[str, Any]:
    columns = data.columns
    return {
        "row": row,
        "name": shortened(columns.names[row]),
        "type": shortened(columns.types[row] or ""),
        "time": duration(float(columns.device.end_s[row]), unit),
    }


def _step(text: str, options: tuple[str, ...]) -> list[dict[str, str]]:
    """Split a sentence into pieces; those that name an option have the `url` of its page.

    Options that the sentence does not name are appended.
    """
    unnamed = [name for name in options if name not in text]
    pieces = re.split("|".join(f"({name})" for name in options), text) if options else [text]
    parts = [_piece(piece, options) for piece in pieces if piece]
    for name in unnamed:
        parts += [{"text": " "}, _piece(name, options)]
    return parts


def _piece(text: str, options: tuple[str, ...]) -> dict[str, str]:
    if text not in options:
        return {"text": text}
    return {"text": text, "url": f"{reverse('options')}#{text}"}
