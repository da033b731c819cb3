"""The table of all rules, and the evaluation and ranking of their findings."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from profiles.analysis.advice import (
    algorithms,
    data_movement,
    fusion,
    hotspots,
    launch_overhead,
    memory,
    peak_performance,
    reliability,
)
from profiles.analysis.advice.context import RuleContext
from profiles.analysis.advice.finding import Finding, RunFacts
from profiles.analysis.data import ProfileData

#: facts that a rule requires beside the profile; without them, it is not evaluated
Need = Literal["iteration", "roofs", "options", "overhead"]


@dataclass(frozen=True)
class Rule:
    """One rule and its requirements.

    needs: a fact without which the rule is not evaluated
    timed: the rule depends on times, so it is not evaluated for a first execution or a disturbed
        run. Other rules look at the graph or at the measurement itself; they use times only to
        estimate savings.
    traced: the rule also holds for a trace. A trace lists what Python ran, operator by operator. It
        has no graph, no iterations and no options of load_and_run, and its clock does not start
        with the first graph, unlike that of a profile of a compiled graph.
    graph: the rule also holds for a profile of a compiled graph; false for a rule for traces only
    """

    name: str
    check: Callable[[RuleContext], Finding | None]
    needs: Need | None = None
    timed: bool = False
    traced: bool = False
    graph: bool = True


RULES = (
    Rule("first_run", reliability.first_run),
    Rule("disturbed", reliability.disturbed),
    Rule("unsteady", reliability.unsteady, timed=True),
    Rule("interrupted", hotspots.interrupted, timed=True),
    Rule("spike", hotspots.spike, timed=True),
    Rule("dominant_operator", hotspots.dominant_operator, timed=True, traced=True),
    Rule("dominant_type", hotspots.dominant_type, timed=True, traced=True),
    Rule("slow_float16", peak_performance.slow_float16, timed=True),
    Rule("far_from_roof", peak_performance.far_from_roof, needs="roofs", timed=True),
    Rule("untried_algorithms", algorithms.untried_algorithms, needs="options", timed=True),
    Rule("blocked_layout", algorithms.blocked_layout, needs="options", timed=True),
    Rule("unfused_batch_norm", fusion.unfused_batch_norm),
    Rule("unfused_bias", fusion.unfused_bias),
    Rule("constant_work", fusion.constant_work),
    Rule("tiny_operators", launch_overhead.tiny_operators, timed=True, traced=True),
    Rule("host_bound", launch_overhead.host_bound, timed=True),
    Rule("slow_to_issue", launch_overhead.slow_to_issue, timed=True),
    Rule("copies", data_movement.copies, timed=True, traced=True),
    Rule("layout_changes", data_movement.layout_changes, timed=True, traced=True),
    Rule("type_changes", data_movement.type_changes, timed=True, traced=True),
    Rule("waiting", launch_overhead.waiting, traced=True, graph=False),
    Rule("python_callbacks", data_movement.python_callbacks, timed=True),
    Rule("outside_operators", reliability.outside_operators, needs="iteration", timed=True),
    Rule("dynamic_shapes", memory.dynamic_shapes),
    Rule("no_memory_plan", memory.no_memory_plan),
    Rule("training", reliability.training, traced=True),
    Rule("too_short", reliability.too_short),
    Rule("single_sample", reliability.single_sample, traced=True),
    Rule("slow_profiling", reliability.slow_profiling, needs="overhead", timed=True),
)
_FIRST = {"warning": 0, "gain": 1, "note": 2}
#: estimates of time during which no operator runs
_BETWEEN = frozenset({"idle", "outside"})


@dataclass(frozen=True)
class Advice:
    """The findings of all rules.

    findings: warnings, then gains, then notes. Gains that name an option come first, then the
        largest saving; equal ones in the order of RULES
    checked: rules that were evaluated
    unknown: rules that lack a fact, with the missing facts
    suppressed: rules that depend on times and were skipped for a first execution or a disturbed run
    """

    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    unknown: tuple[tuple[str, Need], ...]
    suppressed: tuple[str, ...]
    total_s: float


def advise(data: ProfileData, facts: RunFacts) -> Advice:
    """Evaluate all rules that apply to this profile."""
    context = RuleContext(data, facts)
    is_first = not facts.of_trace and reliability.first_run(context) is not None
    fit = [rule for rule in RULES if (rule.traced if facts.of_trace else rule.graph)]
    lacking = [rule for rule in fit if _lacks(facts, rule)]
    known = [rule for rule in fit if rule not in lacking]
    suppressed = [rule for rule in known if rule.timed and (is_first or facts.disturbances)]
    checked = [rule for rule in known if rule not in suppressed]
    findings = [finding for rule in checked if (finding := rule.check(context))]
    return Advice(
        findings=with_overlaps(sorted(findings, key=_rank), context),
        checked=tuple(rule.name for rule in checked),
        unknown=tuple((rule.name, rule.needs) for rule in lacking if rule.needs),
        suppressed=tuple(rule.name for rule in suppressed),
        total_s=context.total_s,
    )


def with_overlaps(findings: Sequence[Finding], context: RuleContext) -> tuple[Finding, ...]:
    """Record for each finding the other findings that count some of the same time."""
    return tuple(
        replace(
            finding,
            overlaps=tuple(
                other.rule
                for other in findings
                if other is not finding and _overlap(finding, other, context)
            ),
        )
        for finding in findings
    )


def _overlap(one: Finding, other: Finding, context: RuleContext) -> bool:
    """Whether two savings partly cover the same time: both of the same operators, or both of idle
    time.
    """
    if one.saves_s is None or other.saves_s is None:
        return False
    if one.estimate in _BETWEEN or other.estimate in _BETWEEN:
        return one.estimate in _BETWEEN and other.estimate in _BETWEEN
    shared = np.intersect1d(one.rows, other.rows).astype(np.int64)
    return context.sum_s(shared) > 0


def _lacks(facts: RunFacts, rule: Rule) -> bool:
    lacks = {
        "iteration": not facts.iterations_s,
        "roofs": facts.roofs is None,
        "options": facts.options is None,
        "overhead": facts.overhead is None,
    }
    return rule.needs is not None and lacks[rule.needs]


def _rank(finding: Finding) -> tuple[int, bool, float]:
    saves_s = finding.saves_s if finding.saves_s is not None else -math.inf
    is_gain = finding.severity == "gain"
    return _FIRST[finding.severity], is_gain and not finding.options, -saves_s
