"""Which part of a page comes from which file of an import, and detection of unrelated files.

Only the user claims that files belong to one run. If their content shows that they cannot, the page
displays a warning; in doubt, it displays nothing.
"""

from collections.abc import Mapping

from django.utils.translation import gettext as _

from profiles.analysis.data import ProfileData
from profiles.exports.originals import Original, originals_of, own_names
from profiles.formats.chrome_trace.summary import TraceSummary
from profiles.formats.memory_flow.summary import MemoryFlowSummary, tag_of
from profiles.formats.static_memory.summary import StaticMemory, rows_by_step
from profiles.models import OpenedFile, Profile
from profiles.presenters.formatting import isolated

#: minimum number of names for a meaningful comparison
_MIN_NAMES = 10
#: minimum share of common names, of the shorter list; runs of one program share all, runs of two
#: programs a third (measured)
_MIN_SHARED = 0.5


def sources_of(data: ProfileData, profile: Profile) -> list[dict[str, str]]:
    """Return the files of which the page of an import is made, if they are of several kinds.

    Each has its name, its kind, and what the page `shows` of it.
    """
    used = _used_files(data, profile) if profile.upload else []
    if len({file.kind for file in used}) < 2:
        return []
    names, kinds = own_names(profile), dict(OpenedFile.Kind.choices)
    return [
        {
            "name": names.get(file.stored_name, file.name),
            "kind": str(kinds.get(file.kind, file.kind)),
            "shows": _shows(file.kind, is_lead=file.stored_name in data.passes),
        }
        for file in used
    ]


def mismatches(data: ProfileData, profile: Profile) -> list[str]:
    """Return reasons why the files of an import cannot belong to one run, in sentences."""
    if profile.upload is None:
        return []
    used, own = _used_files(data, profile), own_names(profile)
    # kind of the file with the operators
    lead = next((file.kind for file in used if file.stored_name in data.passes[:1]), "")
    # the first file of each kind
    names = dict.fromkeys(OpenedFile.Kind.values, isolated("")) | {
        file.kind: isolated(own.get(file.stored_name, file.name)) for file in reversed(used)
    }
    warnings = []
    if lead == "profile":
        warnings = [_missing_backward_pass(data, names), _other_plan(data, names)]
    elif lead == "trace":
        warnings = [_other_tensors(data, names)]
    return [warning for warning in warnings if warning]


def _used_files(data: ProfileData, profile: Profile) -> list[Original]:
    left_out = {file.name for file in data.left_out}
    return [file for file in originals_of(profile) if file.stored_name not in left_out]


def _missing_backward_pass(data: ProfileData, names: Mapping[str, str]) -> str:
    """Return a warning if the trace has a backward pass and the profile has none; else empty."""
    trace = data.summary("trace", TraceSummary)
    if trace is None:
        return ""
    phases = {phase.name for phase in trace.phases}
    types = set(data.columns.types.values)
    # without convolutions, a backward pass may have no operator whose type shows it
    is_inference = any(type_.startswith("Conv") for type_ in types) and not any(
        "Backward" in type_ for type_ in types
    )
    if "backward" not in phases or not is_inference:
        return ""
    return _(
        "“%(trace)s” has a backward pass, but “%(profile)s” has no backward operators, so "
        "totals and operators are not those of the training step."
    ) % {"trace": names["trace"], "profile": names["profile"]}


def _other_tensors(data: ProfileData, names: Mapping[str, str]) -> str:
    """Return a warning if trace and memory flow share too few names of tensors; else empty."""
    flow = data.summary("memory_flow", MemoryFlowSummary)
    if flow is None or flow.tensors_left_out or flow.beyond:
        return ""
    made = {tag_of(name) for name in data.columns.names}
    held = {tag_of(tensor.name) for tensor in flow.tensors} - {""}
    least = min(len(made), len(held))
    if least < _MIN_NAMES or len(made & held) >= _MIN_SHARED * least:
        return ""
    return _(
        "“%(trace)s” and “%(flow)s” have few tensor names in common: they are probably from "
        "different programs."
    ) % {"trace": names["trace"], "flow": names["memory_flow"]}


def _other_plan(data: ProfileData, names: Mapping[str, str]) -> str:
    """Return a warning if the memory plan has no operator of the table; else empty."""
    plan = data.summary("static_memory", StaticMemory)
    if plan is None:
        return ""
    makers = sum(1 for operator in plan.operators if operator.makes)
    if makers < _MIN_NAMES or rows_by_step(plan, data):
        return ""
    return _("No operator of the memory plan “%(plan)s” occurs in “%(profile)s”.") % {
        "plan": names["static_memory"],
        "profile": names["profile"],
    }


def _shows(kind: str, *, is_lead: bool) -> str:
    if kind == "trace" and is_lead:
        return _("training step, totals, operators and charts")
    return {
        "profile": _("totals, operators, charts and graph"),
        "trace": _("training step: phases, modules, waits, counters, timeline"),
        "memory_flow": _("memory over time"),
        "static_memory": _("static memory"),
        "graph": _("names of tensors in the static memory"),
    }.get(kind, "")
