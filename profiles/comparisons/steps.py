"""Training steps of traces that are compared: sums of a trace are sums over all of its steps."""

from profiles.analysis.data import ProfileData
from profiles.comparisons.loading import Compared
from profiles.models import Profile
from profiles.originals import are_of_trace
from profiles.traces.summary import TraceSummary, decode_summary

#: what tells a step, whichever was called less often
_PHASES = ("backward", "step")


def trace_of(profile: Profile, data: ProfileData) -> TraceSummary | None:
    """What a trace says beside its operators; None where the operators are not those of one."""
    if "trace" not in data.beside or not are_of_trace(profile, data.passes):
        return None
    return decode_summary(data.beside["trace"])


def steps_of(profile: Profile, data: ProfileData) -> int | None:
    """How many training steps a trace has: calls of the backward pass or of the optimizer.

    The smaller number of the two, where both are called. Gradients of several backward passes may
    be added up for one step, and one pass may be followed by several steps: of two optimizers, or
    of one with two groups of parameters, for each of which MegEngine 1.13 writes a `step`. Where
    two networks are trained in turn, as in a GAN, nothing tells that: each has its steps.

    None for what is no trace, and for one that calls neither.
    """
    found = trace_of(profile, data)
    calls = {phase.name: phase.count for phase in found.phases} if found else {}
    return min((calls[name] for name in _PHASES if calls.get(name)), default=None)


def steps_of_all(compared: Compared) -> list[int | None]:
    """For each profile, as `steps_of`."""
    pairs = zip(compared.profiles, compared.data, strict=True)
    return [steps_of(profile, data) for profile, data in pairs]
