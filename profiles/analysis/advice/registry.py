"""All rules, and the order of what they find."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from profiles.analysis.advice import (
    algorithms,
    constants,
    fusing,
    interruptions,
    launching,
    limits,
    memory,
    moving,
    shares,
    trust,
)
from profiles.analysis.advice.finding import Facts, Finding
from profiles.analysis.advice.scene import Scene
from profiles.analysis.data import ProfileData

#: what a rule must know beside the profile; without it, it is not asked
Need = Literal["iteration", "roofs", "options", "overhead"]


@dataclass(frozen=True)
class Rule:
    """One rule.

    steady: its times mean nothing in a first execution, so it is not asked there
    traced: it holds for a trace, too: what Python ran, operator by operator, without a graph, an
        iteration or options of load_and_run, and with a clock that does not begin with the first
    graph: it holds for a profile of a compiled graph
    """

    name: str
    check: Callable[[Scene], Finding | None]
    needs: Need | None = None
    steady: bool = False
    traced: bool = False
    graph: bool = True


RULES = (
    Rule("first_run", trust.first_run),
    Rule("contaminated", trust.contaminated),
    Rule("unsteady", trust.unsteady),
    Rule("interrupted", interruptions.interrupted, steady=True),
    Rule("dominant_operator", shares.dominant_operator, steady=True, traced=True),
    Rule("dominant_type", shares.dominant_type, steady=True, traced=True),
    Rule("slow_float16", limits.slow_float16, steady=True),
    Rule("far_from_roof", limits.far_from_roof, needs="roofs", steady=True),
    Rule("untried_algorithms", algorithms.untried_algorithms, needs="options", steady=True),
    Rule("blocked_layout", algorithms.blocked_layout, needs="options", steady=True),
    Rule("unfused_batch_norm", fusing.unfused_batch_norm),
    Rule("unfused_bias", fusing.unfused_bias),
    Rule("constant_work", constants.constant_work),
    Rule("tiny_operators", launching.tiny_operators, steady=True, traced=True),
    Rule("host_bound", launching.host_bound, steady=True),
    Rule("slow_to_issue", launching.slow_to_issue, steady=True),
    Rule("copies", moving.copies, steady=True, traced=True),
    Rule("layout_changes", moving.layout_changes, steady=True, traced=True),
    Rule("type_changes", moving.type_changes, steady=True, traced=True),
    Rule("waiting", launching.waiting, traced=True, graph=False),
    Rule("python_callbacks", moving.python_callbacks, steady=True),
    Rule("outside_operators", trust.outside_operators, needs="iteration", steady=True),
    Rule("dynamic_shapes", memory.dynamic_shapes),
    Rule("no_memory_plan", memory.no_memory_plan),
    Rule("training", trust.training, traced=True),
    Rule("too_short", trust.too_short),
    Rule("single_sample", trust.single_sample, traced=True),
    Rule("slow_profiling", trust.slow_profiling, needs="overhead"),
)
_FIRST = {"warning": 0, "gain": 1, "note": 2}


@dataclass(frozen=True)
class Advice:
    """What the rules say.

    findings: warnings, then what saves most, then notes; equal ones in the order of RULES
    checked: rules that were asked; unknown: rules that lack a fact, with what they lack
    """

    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    unknown: tuple[tuple[str, Need], ...]
    total_s: float


def advise(data: ProfileData, facts: Facts) -> Advice:
    """Ask all rules that can be asked of this profile."""
    scene = Scene(data, facts)
    is_first = not facts.of_trace and trust.first_run(scene) is not None
    fit = [rule for rule in RULES if (rule.traced if facts.of_trace else rule.graph)]
    unknown = tuple((rule.name, rule.needs) for rule in fit if rule.needs and _lacks(facts, rule))
    asked = [rule for rule in fit if not _lacks(facts, rule) and not (rule.steady and is_first)]
    found = [finding for rule in asked if (finding := rule.check(scene))]
    return Advice(
        findings=tuple(sorted(found, key=_rank)),
        checked=tuple(rule.name for rule in asked),
        unknown=unknown,
        total_s=scene.total_s,
    )


def _lacks(facts: Facts, rule: Rule) -> bool:
    known = {
        "iteration": facts.iteration_s,
        "roofs": facts.roofs,
        "options": facts.options,
        "overhead": facts.overhead,
    }
    return rule.needs is not None and known[rule.needs] is None


def _rank(finding: Finding) -> tuple[int, float]:
    saves_s = finding.saves_s if finding.saves_s is not None else -math.inf
    return _FIRST[finding.severity], -saves_s
