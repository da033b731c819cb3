"""Attribute the time of training steps to their phases: forward, backward, optimizer."""

from collections import defaultdict
from typing import Annotated

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from profiles.formats.chrome_trace.lanes import Lane
from profiles.formats.chrome_trace.reader import NONE
from profiles.formats.chrome_trace.spans import in_rows
from profiles.presenters.described import means

FORWARD, _BACKWARD, _STEP, _CLEAR = "forward", "backward", "step", "clear_grad"
#: MegEngine's names for the phases of a training step; 1.13 omits the name of the class
_PHASES = {
    "GradManager.backward": _BACKWARD,
    "backward": _BACKWARD,
    "Optimizer.step": _STEP,
    "step": _STEP,
    "Optimizer.clear_grad": _CLEAR,
    "clear_grad": _CLEAR,
}
#: suffix of the spans that 1.13 records for each operator of a backward pass, such as
#: ReduceBackward or MatrixMulBackward
_OF_BACKWARD = "Backward"
#: functions of megengine.optimizer that are called between the backward pass and the optimizer
_CLIPS = frozenset({"clip_grad_norm", "clip_grad_value"})
#: Python waits for the device, in `Tensor.numpy()`, `.shape` and similar
WAIT = "TensorWaitProp"
#: spans of Python's lane that are not scopes
NO_SCOPES = frozenset({WAIT, "OpDispatch", "TensorGetProp", "Put", "Del"})
#: spans of the Profiler itself
START, STOP = "StartProfile", "StopProfile"
_S_PER_US = 1e-6


class PhaseRow(Struct, frozen=True):
    """One phase of training steps, all of its calls together."""

    name: Annotated[str, means("`forward`, `backward`, `step` or `clear_grad`.")]
    count: Annotated[int, means("Number of calls.")]
    host_s: Annotated[float, means("Time of Python's thread within modules and functions, s.")]
    device_s: Annotated[
        float, means("Device time of the kernels that it launched in that time, s.")
    ]


class Phases:
    """Sums the time of each phase; everything outside the other phases is the forward pass.

    Phases are usually top-level spans, but may be enclosed in scopes: the user's own
    `profiler.scope("train_step")`, or a function that raised, because 1.13 with with_scopes=True
    never ends a scope that is left by an exception, so that it encloses everything that follows.
    """

    def __init__(self) -> None:
        self._count: dict[str, int] = defaultdict(int)
        self._host_us: dict[str, float] = defaultdict(float)
        self._device_s: dict[str, float] = defaultdict(float)

    def add(self, lane: Lane, rows: NDArray[np.int32], took_s: NDArray[np.float64]) -> None:
        """Add a lane's spans.

        rows: (s,) row of the operator that each span dispatched, or NONE
        took_s: device time of each operator, s
        """
        spans, names = lane.spans, lane.texts.names
        phases: list[str] = []
        columns = (lane.code, spans.parent, spans.duration_us, _begins_phase(lane))
        for code, parent, length_us, begins in in_rows(*columns):
            name = names[code]
            enclosing_phase = phases[parent] if parent >= 0 else None
            if enclosing_phase is not None and not (enclosing_phase == FORWARD and begins):
                phases.append(enclosing_phase)
                continue
            if enclosing_phase is None and name in (WAIT, START, STOP):
                phases.append("")
                continue
            phase = _PHASES.get(name, FORWARD)
            phases.append(phase)
            self._count[phase] += name not in NO_SCOPES
            self._host_us[phase] += length_us
            if enclosing_phase is not None:
                self._host_us[enclosing_phase] -= length_us
        for span in np.flatnonzero(rows != NONE).tolist():
            self._device_s[phases[span]] += float(took_s[rows[span]])

    def rows(self) -> tuple[PhaseRow, ...]:
        """The phases that occur, in the order of a step."""
        order = (FORWARD, _BACKWARD, _STEP, _CLEAR)
        names = [name for name in order if name in self._count or name in self._device_s]
        return tuple(
            PhaseRow(
                name=name,
                count=self._count[name],
                # subtracting enclosed spans may give a negative value by rounding
                host_s=max(0.0, self._host_us[name]) * _S_PER_US,
                device_s=self._device_s[name],
            )
            for name in names
        )


def _begins_phase(lane: Lane) -> NDArray[np.bool_]:
    """(s,) which enclosed spans are phases of MegEngine rather than modules of the same name.

    A module is named after its attribute, so a network may have a module `step` (the cell of a
    recurrent network) or `backward` (of a bidirectional one). MegEngine's phases are recognised by
    their content and by their siblings in the same scope: a backward pass contains spans that end
    in Backward, and only MegEngine uses clear_grad. A scope that contains two of the three names,
    or only such names in a trace with a backward pass, is assumed not to be a module.
    """
    phase = _phase_codes(lane)
    parent = lane.spans.parent
    within = np.flatnonzero((phase > 0) & (parent >= 0))
    begins = np.zeros(len(parent), np.bool_)
    if not len(within):
        return begins
    parents, codes = parent[within], phase[within]
    backward, clear = (_CODES[name] for name in (_BACKWARD, _CLEAR))
    backward_passes = _holders(lane, [name.endswith(_OF_BACKWARD) for name in lane.texts.names])
    is_sure = (codes == clear) | ((codes == backward) & backward_passes[within])
    is_step_scope = np.zeros(len(parent), np.bool_)
    is_step_scope[parents[is_sure]] = True
    names = np.zeros(len(parent), np.uint8)
    np.bitwise_or.at(names, parents, np.left_shift(1, codes).astype(np.uint8))
    is_step_scope[parents[names[parents] & (names[parents] - 1) > 0]] = True
    if (phase == backward).any():
        passed_over = (NO_SCOPES - {"OpDispatch"}) | _CLIPS | _PHASES.keys()
        others = _holders(lane, [name not in passed_over for name in lane.texts.names])
        is_step_scope[parents[~others[parents]]] = True
    begins[within[is_step_scope[parents]]] = True
    return begins


_CODES = {name: code for code, name in enumerate((_BACKWARD, _STEP, _CLEAR), start=1)}


def _phase_codes(lane: Lane) -> NDArray[np.uint8]:
    """(s,) code of the phase that a span's name stands for, 0 for none."""
    codes = [_CODES[_PHASES[name]] if name in _PHASES else 0 for name in lane.texts.names]
    phases: NDArray[np.uint8] = np.array(codes, np.uint8)[lane.code]
    return phases


def _holders(lane: Lane, selected: list[bool]) -> NDArray[np.bool_]:
    """(s,) which spans directly enclose a span with one of the selected names."""
    parent = lane.spans.parent
    inner = np.array(selected, np.bool_)[lane.code] & (parent >= 0)
    is_holder = np.zeros(len(parent), np.bool_)
    is_holder[parent[inner]] = True
    return is_holder
