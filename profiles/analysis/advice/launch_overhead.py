"""Rules for time spent on issuing operators instead of computing them."""

import numpy as np

from profiles.analysis.advice.context import MEASURABLE_S, NOTICEABLE_S, Floats, RuleContext
from profiles.analysis.advice.finding import Finding
from profiles.analysis.advice.memory import dynamic_shapes
from profiles.formats.load_and_run.graph import Intervals

#: the dispatch of a kernel costs 1 to 5 us on a processor
TINY_S = 10e-6
TINY_COUNT = 100
TINY_SHARE = 0.3

IDLE_SHARE = 0.1
WAIT_SHARE = 0.1
#: share of the device's span during which the host is busy, so that the device waits for it
HOST_BUSY = 0.9

#: host time to issue an operator / its device time
ISSUING_SHARE = 0.6
#: share of the device total; a single interruption of a thread costs less
SLOW_SHARE = 0.05
#: share of operators whose device time lies within their host time, from which both are one thread
SAME_THREAD = 0.9
_CLOCK_S = 1e-6

#: options that replay recorded kernels. Measured: 4.1 ms without and 0.6 ms with it on the
#: deep_loop model, 1.9 ms and 0.5 ms on the LSTM. Not available while profiling.
_REPLAY = ("record_comp_seq",)


def _replay(context: RuleContext) -> tuple[str, ...]:
    """Return the options that replay kernels; none where they fail or do not exist."""
    is_impossible = context.is_training or context.facts.of_trace or dynamic_shapes(context)
    return () if is_impossible else _REPLAY


def tiny_operators(context: RuleContext) -> Finding | None:
    """At least 100 operators below 10 us make up 30 % of the device time.

    Most of this time is the launch of kernels. At most all of it is saved, if the operators are
    replayed or fused. On a GPU, the launch is not part of an operator's device time; `host_bound`
    applies there.
    """
    tiny = ~context.glue & (context.device_s > 0) & (context.device_s < TINY_S)
    if not context.on_cpu or not context.is_measurable or tiny.sum() < TINY_COUNT:
        return None
    return context.saving("tiny_operators", tiny, share=TINY_SHARE, options=_replay(context))


def waiting(context: RuleContext) -> Finding | None:
    """Python waits for values of the device for a tenth of the recorded time.

    Meanwhile it issues no operators, so the device is idle after the value is computed.
    """
    waits = context.facts.waits
    if waits is None or not waits.share >= WAIT_SHARE or not context.is_measurable:
        return None
    return Finding(
        rule="waiting",
        severity="note",
        params={"count": waits.count, "share": min(waits.share, 1.0)},
    )


def host_bound(context: RuleContext) -> Finding | None:
    """The device is idle for a tenth of its span while the host issues operators all the time.

    The rule does not apply to several comp nodes, because they also wait for each other.
    """
    device, host = context.device, context.host
    idle_s = device.span_s - device.busy_s
    if device.count != 1 or device.span_s < MEASURABLE_S or idle_s < NOTICEABLE_S:
        return None
    if idle_s < IDLE_SHARE * device.span_s or host.busy_s < HOST_BUSY * device.span_s:
        return None
    issued = np.flatnonzero(~context.glue & (context.host_s > 0))
    return Finding(
        rule="host_bound",
        severity="gain",
        rows=context.slowest_first(issued, by=context.host_s),
        saves_s=idle_s,
        estimate="idle",
        params={
            "idle": idle_s / device.span_s,
            "host": min(host.busy_s / device.span_s, 1.0),
        },
        options=() if context.is_training else (*_replay(context), "batch_size"),
    )


def slow_to_issue(context: RuleContext) -> Finding | None:
    """The host takes most of the time of an operator of 100 us or more to issue its kernels.

    Recurrent layers issue several kernels per step. The rule does not apply if host and device are
    one thread, because the host time then includes the device time, nor to a traced training step,
    for the same reason. Kernels of a graph with value-dependent shapes cannot be replayed.
    """
    device_s, host_s = context.device_s, context.host_s
    if context.is_training or dynamic_shapes(context):
        return None
    slow = ~context.glue & (device_s >= MEASURABLE_S) & (host_s >= ISSUING_SHARE * device_s)
    if context.device.count != 1 or not slow.any() or is_one_thread(context):
        return None
    saves_s = float(np.minimum(host_s, device_s)[slow].sum())
    if context.share(saves_s) < SLOW_SHARE:
        return None
    return Finding(
        rule="slow_to_issue",
        severity="gain",
        rows=context.slowest_first(np.flatnonzero(slow)),
        saves_s=saves_s,
        estimate="issuing",
        params={"count": int(slow.sum()), "host": saves_s / context.sum_s(slow)},
        options=_REPLAY,
    )


def is_one_thread(context: RuleContext) -> bool:
    """Whether the thread that issues operators also computes them (`cpu_default`).

    The two clocks have different origins, so this looks for a shift with which nearly every
    operator's device time lies within its host time. An operator that another thread computes
    returns from the host call before it ends.
    """
    issued, computed = _times(context, context.graph.host), _times(context, context.graph.device)
    both = ~np.isnan(issued[0]) & ~np.isnan(computed[0])
    if not both.any():
        return False
    low = (issued[0] - computed[0])[both] - _CLOCK_S
    high = (issued[1] - computed[1])[both] + _CLOCK_S
    possible = low <= high
    low, high = np.sort(low[possible]), np.sort(high[possible])
    # at each operator's minimum shift, count the operators whose range of valid shifts contains it
    fitting = np.arange(1, len(low) + 1) - np.searchsorted(high, low, side="left")
    return bool(fitting.max(initial=0) >= SAME_THREAD * both.sum())


def _times(context: RuleContext, intervals: Intervals) -> tuple[Floats, Floats]:
    """Return (n,) start and end of each row's last interval, s; nan without one."""
    start = np.full(len(context.device_s), np.nan)
    end = start.copy()
    start[intervals.row], end[intervals.row] = intervals.start_s, intervals.end_s
    return start, end
