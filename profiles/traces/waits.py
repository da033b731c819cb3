"""How long Python goes on waiting behind the event of a wait.

MegEngine 1.13 ends `TensorWaitProp` when the worker has had the copy of a value begun, and waits
for the copy itself without an event: until the device has computed all that it was given before
(imperative/src/impl, `Tensor::get_value`). It is known by this: Python does nothing at all until
the device has become idle. Of a wait behind which nothing follows on its thread nothing is known,
nor where several threads or processes hand over.
"""

import numpy as np
from numpy.typing import NDArray

from profiles.parsers.graph import Intervals
from profiles.traces.spans import Floats, Spans

_US_PER_S = 1e6


def still_waited_us(spans: Spans, waits: NDArray[np.intp], device: Intervals | None) -> Floats:
    """Return (w,) float64, us, for the spans `waits` of Python's lane.

    device: when kernels ran; None where it was not this lane alone that handed them over
    """
    if not len(waits) or device is None or not len(device.row):
        return np.zeros(len(waits))
    moments = np.sort(np.concatenate([spans.begin_us, spans.end_us]))
    ended = spans.end_us[waits]
    # behind its own end
    place = np.searchsorted(moments, ended, side="left") + 1
    follows = place < len(moments)
    goes_on = moments[np.minimum(place, len(moments) - 1)]
    order = np.argsort(device.start_s, kind="stable")
    starts_us = device.start_s[order] * _US_PER_S
    idle_us = np.maximum.accumulate(device.end_s[order]) * _US_PER_S
    # what starts before Python goes on was given before: nothing is handed over in between
    begun = np.searchsorted(starts_us, goes_on, side="left")
    idle = np.where(begun > 0, idle_us[np.maximum(begun, 1) - 1], -np.inf)
    waited = follows & (idle > ended) & (idle <= goes_on)
    return np.where(waited, idle - ended, 0.0)
