"""Which part of a page comes from which file of an opened run, and files that are not of one run.

Nothing but a user's word says that files are of one run. Where their content shows that they
cannot be, the page says so; where it cannot be told, it says nothing.
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
from profiles.presenters.isolating import isolated

#: fewer names than these say nothing of what they have in common
_NAMES_LEAST = 10
#: of the shorter list; runs of one program share all of them, two programs a third (measured)
_NAMES_SHARED = 0.5


@dataclass(frozen=True)
class Source:
    """A file, of which kind it is, and what the page shows of it, in the reader's words."""

    name: str
    kind: str
    shows: str


def sources_of(data: ProfileData, profile: Profile) -> list[Source]:
    """The files that the page of an opened run is made of, if they are of several kinds."""
    if profile.upload is None:
        return []
    used = [each for each in originals_of(profile) if _stored(each) not in _left_out(data)]
    if len({each.kind for each in used}) < 2:
        return []
    names, kinds = own_names(profile), dict(OpenedFile.Kind.choices)
    return [
        Source(
            names.get(_stored(each), each.name),
            str(kinds.get(each.kind, each.kind)),
            _shows(each.kind, is_lead=_stored(each) in data.passes),
        )
        for each in used
    ]


def mismatches(data: ProfileData, profile: Profile) -> list[str]:
    """Why the files of an opened run cannot be of one run, in sentences; empty if they may be."""
    if profile.upload is None:
        return []
    files = _Files(data, profile)
    found = (_trained_here_alone(files), _other_tensors(files), _other_plan(files))
    return [each for each in found if each]


class _Files:
    """The data of a run with the name of the file that each kind of them is of."""

    def __init__(self, data: ProfileData, profile: Profile) -> None:
        self.data = data
        names = own_names(profile)
        used = [each for each in originals_of(profile) if _stored(each) not in _left_out(data)]
        #: the file of the operators, and the first one of each kind
        self.lead = next((each for each in used if _stored(each) in data.passes[:1]), None)
        self._names = {each.kind: names.get(_stored(each), each.name) for each in reversed(used)}

    def name(self, kind: str) -> str:
        return isolated(self._names.get(kind, ""))


def _trained_here_alone(files: _Files) -> str:
    """A profile of a network without any backward pass beside a trace that has one."""
    data = files.data
    trace = data.summary("trace", TraceSummary)
    if trace is None or files.lead is None or files.lead.kind != "profile":
        return ""
    phases = {phase.name for phase in trace.phases}
    types = set(data.columns.types.values)
    # what has no convolution may go backward without an operator whose type says so
    is_inference = any(each.startswith("Conv") for each in types) and not any(
        "Backward" in each for each in types
    )
    if "backward" not in phases or not is_inference:
        return ""
    return _(
        "“%(trace)s” has a backward pass, and “%(profile)s” has no operator of one. Totals and "
        "operators are not those of the training step."
    ) % {"trace": files.name("trace"), "profile": files.name("profile")}


def _other_tensors(files: _Files) -> str:
    """A trace whose tensors have hardly a name in common with those of the memory flow."""
    data = files.data
    flow = data.summary("memory_flow", MemoryFlowSummary)
    if files.lead is None or files.lead.kind != "trace" or flow is None:
        return ""
    if flow.tensors_left_out or flow.beyond:
        return ""
    made = {tag_of(name) for name in data.columns.names}
    held = {tag_of(each.name) for each in flow.tensors} - {""}
    least = min(len(made), len(held))
    if least < _NAMES_LEAST or len(made & held) >= _NAMES_SHARED * least:
        return ""
    return _(
        "“%(trace)s” and “%(flow)s” have few names of tensors in common: they look like those of "
        "two programs."
    ) % {"trace": files.name("trace"), "flow": files.name("memory_flow")}


def _other_plan(files: _Files) -> str:
    """A memory plan none of whose operators is in the table."""
    data = files.data
    plan = data.summary("static_memory", StaticMemory)
    if files.lead is None or files.lead.kind != "profile" or plan is None:
        return ""
    told = sum(1 for each in plan.operators if each.makes)
    if told < _NAMES_LEAST or rows_of(plan, data):
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
    return {each.name for each in data.left_out}


def _stored(file: Original) -> str:
    """What the file is called in `ProfileData`."""
    return PurePath(file.key).name
