"""Which part of a page comes from which file of an import, and detection of unrelated files.

Only the user claims that files belong to one run. If their content shows that they cannot, the page
displays a warning; in doubt, it displays nothing.
"""

from dataclasses import dataclass
from pathlib import PurePath

from django.utils.translation import gettext as _

from profiles.analysis.data import ProfileData
from profiles.exports.originals import Original, originals_of, own_names
from profiles.formats.chrome_trace.summary import TraceSummary
from profiles.formats.memory_flow.summary import MemoryFlowSummary, tag_of
from profiles.formats.static_memory.summary import StaticMemory, rows_of
from profiles.models import OpenedFile, Profile
from profiles.presenters.formatting import isolated

#: minimum number of names for a meaningful comparison
_MIN_NAMES = 10
#: minimum share of common names, of the shorter list; runs of one program share all, runs of two
#: programs a third (measured)
_MIN_SHARED = 0.5


@dataclass(frozen=True)
class Source:
    """A file, its kind, and what the page shows of it, as text."""

    name: str
    kind: str
    shows: str


def sources_of(data: ProfileData, profile: Profile) -> list[Source]:
    """Return the files of which the page of an import is made, if they are of several kinds."""
    if profile.upload is None:
        return []
    used = [
        original
        for original in originals_of(profile)
        if _stored_name(original) not in _left_out(data)
    ]
    if len({original.kind for original in used}) < 2:
        return []
    names, kinds = own_names(profile), dict(OpenedFile.Kind.choices)
    return [
        Source(
            names.get(_stored_name(original), original.name),
            str(kinds.get(original.kind, original.kind)),
            _shows(original.kind, is_lead=_stored_name(original) in data.passes),
        )
        for original in used
    ]


def mismatches(data: ProfileData, profile: Profile) -> list[str]:
    """Return reasons why the files of an import cannot belong to one run, in sentences."""
    if profile.upload is None:
        return []
    files = _Files(data, profile)
    warnings = (_missing_backward_pass(files), _other_tensors(files), _other_plan(files))
    return [warning for warning in warnings if warning]


class _Files:
    """The data of a run, with the name of the file of each kind."""

    def __init__(self, data: ProfileData, profile: Profile) -> None:
        self.data = data
        names = own_names(profile)
        used = [
            original
            for original in originals_of(profile)
            if _stored_name(original) not in _left_out(data)
        ]
        #: the file with the operators, and the first file of each kind
        self.lead = next(
            (original for original in used if _stored_name(original) in data.passes[:1]), None
        )
        self._names = {
            original.kind: names.get(_stored_name(original), original.name)
            for original in reversed(used)
        }

    def name(self, kind: str) -> str:
        return isolated(self._names.get(kind, ""))


def _missing_backward_pass(files: _Files) -> str:
    """Return a warning if the trace has a backward pass and the profile has none; else empty."""
    data = files.data
    trace = data.summary("trace", TraceSummary)
    if trace is None or files.lead is None or files.lead.kind != "profile":
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
        "“%(trace)s” has a backward pass, and “%(profile)s” has no operator of one. Totals and "
        "operators are not those of the training step."
    ) % {"trace": files.name("trace"), "profile": files.name("profile")}


def _other_tensors(files: _Files) -> str:
    """Return a warning if trace and memory flow share too few names of tensors; else empty."""
    data = files.data
    flow = data.summary("memory_flow", MemoryFlowSummary)
    if files.lead is None or files.lead.kind != "trace" or flow is None:
        return ""
    if flow.tensors_left_out or flow.beyond:
        return ""
    made = {tag_of(name) for name in data.columns.names}
    held = {tag_of(tensor.name) for tensor in flow.tensors} - {""}
    least = min(len(made), len(held))
    if least < _MIN_NAMES or len(made & held) >= _MIN_SHARED * least:
        return ""
    return _(
        "“%(trace)s” and “%(flow)s” have few names of tensors in common: they look like those of "
        "two programs."
    ) % {"trace": files.name("trace"), "flow": files.name("memory_flow")}


def _other_plan(files: _Files) -> str:
    """Return a warning if the memory plan has no operator of the table; else empty."""
    data = files.data
    plan = data.summary("static_memory", StaticMemory)
    if files.lead is None or files.lead.kind != "profile" or plan is None:
        return ""
    makers = sum(1 for operator in plan.operators if operator.makes)
    if makers < _MIN_NAMES or rows_of(plan, data):
        return ""
    return _("No operator of the memory plan “%(plan)s” is one of “%(profile)s”.") % {
        "plan": files.name("static_memory"),
        "profile": files.name("profile"),
    }


def _shows(kind: str, *, is_lead: bool) -> str:
    if kind == "trace" and is_lead:
        return _("training step, totals, operators and pictures")
    return {
        "profile": _("totals, operators, pictures and graph"),
        "trace": _("training step: phases, modules, waits, counters, timeline"),
        "memory_flow": _("memory over time"),
        "static_memory": _("static memory"),
        "graph": _("names of tensors in the static memory"),
    }.get(kind, "")


def _left_out(data: ProfileData) -> set[str]:
    return {file.name for file in data.left_out}


def _stored_name(file: Original) -> str:
    """Return the name of the file in `ProfileData`."""
    return PurePath(file.key).name
