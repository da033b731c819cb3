"""Differences between runs beside their times, to show whether the runs are comparable."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any

import msgspec
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agent.statistics.unpaired import LEAST_DOF
from profiles.analysis.data import ProfileData
from profiles.analysis.durations import ABSENT
from profiles.analysis.totals import time_faults
from profiles.comparison.comparison import Comparison
from profiles.comparison.loading import ComparisonResult
from profiles.comparison.messages import letter, origin_of
from profiles.comparison.nodes import Nodes
from profiles.exports.originals import are_of_trace
from profiles.exports.provenance import title_of
from profiles.formats.chrome_trace.summary import TraceSummary
from profiles.formats.columns import MISSING, SIDES
from profiles.models import AttemptMeasurement, Profile
from profiles.presenters.attempt_messages import DISTURBED_RUN, disturbance_word
from profiles.presenters.described import means
from profiles.presenters.formatting import listed, shortened
from profiles.presenters.statistics import damage_of_trace, fault_notes
from profiles.selectors import plan_title
from tasks.models import TaskFile

_UNKNOWN_SHAPE = "[]"
#: most inputs that are listed by name
_MOST_NAMED = 4
_INPUT_TYPES = ("InputCallback", "Host2DeviceCopy")


@dataclass(frozen=True)
class Fact:
    """One fact about the runs."""

    name: Annotated[str, means("What, in the reader's words.")]
    values: Annotated[tuple[str, ...], means("One for each profile.")]
    differs: Annotated[bool, means("Whether they differ.")]


def compared_facts(compared: ComparisonResult, *, is_shared: bool = False) -> list[Fact]:
    """Return all known properties of the runs, whether they differ or not.

    is_shared: without those of the uploaded files and the arguments of scripts
    """
    columns = [
        _of_run(profile, is_shared=is_shared) | _of_graph(data, nodes) | _of_trace(profile, data)
        for profile, data, nodes in zip(
            compared.profiles, compared.data, compared.comparison.nodes, strict=True
        )
    ]
    names = dict.fromkeys(chain.from_iterable(columns))
    rows = {name: tuple(column.get(name) or ABSENT for column in columns) for name in names}
    return [
        Fact(name, values, len(set(values)) > 1)
        for name, values in rows.items()
        if set(values) != {ABSENT}
    ]


def warnings_of(compared: ComparisonResult) -> list[str]:
    """Return warnings that affect the interpretation of differences, as sentences."""
    warnings = _other_inputs(compared.comparison)
    for number, profile in enumerate(compared.profiles):
        disturbed = _disturbances(profile.measurement)
        if disturbed:
            warnings.append(
                str(DISTURBED_RUN["compared"]) % {"letter": letter(number), "causes": disturbed}
            )
    return [
        *_damage(compared),
        *warnings,
        *_other_steps(compared),
        *_single_samples(compared),
        *_unknown_scatter(compared),
    ]


def _damage(compared: ComparisonResult) -> list[str]:
    """Warn about what cannot be read of the files, so that it is in no figure."""
    titles = {"device": _("%(letter)s, device: %(note)s"), "host": _("%(letter)s, host: %(note)s")}
    warnings = []
    pairs = zip(compared.profiles, compared.data, strict=True)
    for number, (profile, data) in enumerate(pairs):
        notes = [
            (titles[side], fault_notes(time_faults(data.columns.times(side)))) for side in SIDES
        ]
        notes.append((_("%(letter)s: %(note)s"), damage_of_trace(data, profile)))
        warnings += [
            title % {"letter": letter(number), "note": note} for title, own in notes for note in own
        ]
    return warnings


def _other_steps(compared: ComparisonResult) -> list[str]:
    first, *others = steps_of_all(compared)
    return [
        _(
            "%(letter)s has a different number of training steps than the baseline: %(ours)s "
            "instead of %(theirs)s. Totals are those of all steps; compare the times of one step."
        )
        % {"letter": letter(number), "ours": steps, "theirs": first}
        for number, steps in enumerate(others, start=1)
        if first and steps and steps != first
    ]


def _single_samples(compared: ComparisonResult) -> list[str]:
    """Warn about runs with one sample per operator; the remedy of a trace is another."""
    traces, others = list[str](), list[str]()
    pairs = zip(compared.profiles, compared.data, strict=True)
    for number, (profile, data) in enumerate(pairs):
        if len(data.passes) < 2:
            (traces if trace_of(profile, data) else others).append(letter(number))
    warnings = []
    if others:
        text = ngettext(
            "%(letters)s has one sample of each operator, which cannot show whether a "
            "difference is more than noise. A run with the plan “standard” has five.",
            "%(letters)s have one sample of each operator, which cannot show whether a "
            "difference is more than noise. A run with the plan “standard” has five.",
            len(others),
        )
        warnings.append(text % {"letters": listed(others)})
    if traces:
        text = ngettext(
            "%(letters)s is a trace, which times each execution once, so it cannot show whether a "
            "difference is more than noise. Record the same program twice and compare the two "
            "traces: their differences are noise.",
            "%(letters)s are traces, which time each execution once, so they cannot show whether a "
            "difference is more than noise. Record the same program twice and compare the two "
            "traces: their differences are noise.",
            len(traces),
        )
        warnings.append(text % {"letters": listed(traces)})
    return warnings


def _unknown_scatter(compared: ComparisonResult) -> list[str]:
    """Warn about runs without a known scatter of equal runs, if this prevents a verdict."""
    totals = compared.comparison.device.totals
    others = [n for n, test in enumerate(totals, start=1) if test.code(0) == "unknown"]
    unknown = [
        compared.profiles[n]
        for n in ([0, *others] if others else [])
        if compared.evidence[n].scatter["device"] is None
    ]
    warnings = []
    if any(profile.attempt is None for profile in unknown):
        warnings.append(
            _(
                "No verdict: a result was imported from a file, and the run-to-run variance of "
                "the device that it was measured on is unknown."
            )
        )
    devices = {profile.attempt.worker.name for profile in unknown if profile.attempt}
    if devices:
        text = _(
            "The run-to-run variance of %(devices)s is not known yet, so differences of operators "
            "and of their totals get no verdict. The device measures this variance while it is "
            "idle. You can also run the same task there %(number)s times without disturbance, with "
            "the plan “standard”."
        )
        warnings.append(text % {"devices": listed(sorted(devices)), "number": LEAST_DOF + 1})
    return warnings


def input_shapes(nodes: Nodes) -> dict[str, str]:
    """Return {name: shape} of the model's inputs: `1,3,224,224`, or empty if unknown."""
    result = {}
    for x, kind in enumerate(nodes.kinds):
        if kind in _INPUT_TYPES and nodes.value_names[x] and nodes.consumers[x]:
            shape = nodes.value_shapes[x][0]
            if shape in (None, _UNKNOWN_SHAPE):
                shape = _shape_as_read(nodes, x)
            result[shortened(nodes.value_names[x][0])] = (shape or "").strip("[]")
    return result


def _shape_as_read(nodes: Nodes, x: int) -> str | None:
    """Return the shape of an input from its readers, the only place for one fed by a callback."""
    for reader, slot, _output in nodes.consumers[x]:
        shapes = nodes.read_shapes[reader] if nodes.rows[reader] != MISSING else None
        if not shapes:
            continue
        axes = msgspec.json.decode(shapes)
        if isinstance(axes, list) and slot < len(axes) and axes[slot]:
            return msgspec.json.encode(axes[slot]).decode()
    return None


def _other_inputs(comparison: Comparison) -> list[str]:
    first = input_shapes(comparison.nodes[0])
    warnings = []
    for number, nodes in enumerate(comparison.nodes[1:], start=1):
        shapes = input_shapes(nodes)
        if shapes != first:
            warnings.append(
                _(
                    "%(letter)s has different inputs than the baseline: %(ours)s instead of "
                    "%(theirs)s. Differences of times may be due to the inputs."
                )
                % {
                    "letter": letter(number),
                    "ours": _shapes_text(shapes) or ABSENT,
                    "theirs": _shapes_text(first) or ABSENT,
                }
            )
    return warnings


def _shapes_text(shapes: Mapping[str, str]) -> str:
    named = [f"{name} {{{shape}}}" for name, shape in sorted(shapes.items())]
    more = len(named) - _MOST_NAMED
    if more > 0:
        named[_MOST_NAMED:] = [_("%(number)s more") % {"number": more}]
    return listed(named)


def _of_run(profile: Profile, *, is_shared: bool) -> dict[str, str | None]:
    if profile.attempt is None:
        return {
            _("Model or file"): title_of(profile),
            _("Device"): origin_of(profile),
        }
    task = profile.attempt.task
    measurement = profile.measurement
    files = [] if is_shared else list(task.files.all())
    environment = profile.attempt.environment
    changed = [] if task.is_script else task.changed_options
    checksum = _("Program’s checksum (MD5)") if task.is_script else _("Model’s checksum (MD5)")
    model = next((file for file in files if file.kind == TaskFile.Kind.MODEL), None)
    return {
        _("Model or file"): title_of(profile),
        checksum: model.md5 if model else "",
        _("Device"): task.worker.name,
        _("Processor"): environment.get("cpu_model"),
        _("MegEngine version"): task.runtime_version,
        _("Agent"): environment.get("agent"),
        _("System and kernel"): environment.get("platform"),
        _("Disturbances"): _disturbances(measurement) or _("none known"),
        _("Arguments"): shlex.join(task.script["arguments"])
        if task.script and not is_shared
        else "",
        _("Options"): " ".join(changed) or _("defaults"),
        _("Measuring plan"): "" if task.is_script else plan_title(task),
        _("Data files"): listed(f"{f.name} ({f.md5[:8]})" for f in files if f.kind == "data"),
        _("Random seed"): "" if task.is_script else str(task.seed),
        _("Iterations without profiling"): str(measurement.iterations) if measurement else "",
    }


def _of_graph(data: ProfileData, nodes: Nodes) -> dict[str, str | None]:
    graph = data.graph
    comp_nodes = graph.variables.comp_nodes.values
    lanes = sorted({value.split('"')[1] if '"' in value else value for value in comp_nodes})
    return {
        _("Inputs"): _shapes_text(input_shapes(nodes)),
        _("Profiled passes"): str(len(data.passes)),
        _("Executed operators"): str(len(graph.execution_order())),
        _("Computing nodes"): ", ".join(lanes),
    }


def _of_trace(profile: Profile, data: ProfileData) -> dict[str, str | None]:
    steps = steps_of(profile, data)
    return {_("Training steps"): str(steps)} if steps else {}


def _disturbances(measurement: AttemptMeasurement | None) -> str:
    disturbances: list[dict[str, Any]] = measurement.disturbances if measurement else []
    words = listed(dict.fromkeys(disturbance_word(item["code"]) for item in disturbances))
    load = measurement.other_load.get("percent") if measurement and words else None
    if not isinstance(load, int | float):
        return words
    return _("%(causes)s (other processes: %(load)s %% of a core)") % {
        "causes": words,
        "load": f"{load:.0f}",
    }


#: phases that mark a step; the one called less often is counted
_PHASES = ("backward", "step")


def trace_of(profile: Profile, data: ProfileData) -> TraceSummary | None:
    """Return the summary of a trace; None if the operators do not come from one."""
    summary = data.summary("trace", TraceSummary)
    return summary if summary and are_of_trace(profile, data.passes) else None


def steps_of(profile: Profile, data: ProfileData) -> int | None:
    """Return the number of training steps of a trace: calls of the backward pass or the optimizer.

    If both are called, it is the smaller number. Gradients of several backward passes may be
    accumulated for one step. One pass may also be followed by several steps: of two optimizers, or
    of one with two parameter groups, for each of which MegEngine 1.13 writes a `step`. Networks
    that are trained in turn, as in a GAN, cannot be distinguished: the steps of each are counted.

    None without a trace, and for a trace that calls neither.
    """
    trace = trace_of(profile, data)
    calls = {phase.name: phase.count for phase in trace.phases} if trace else {}
    return min((calls[name] for name in _PHASES if calls.get(name)), default=None)


def steps_of_all(compared: ComparisonResult) -> list[int | None]:
    """Return `steps_of` for each profile."""
    pairs = zip(compared.profiles, compared.data, strict=True)
    return [steps_of(profile, data) for profile, data in pairs]
