"""Phases of training steps: which time was the backward pass, the optimizer, or neither."""

from collections import defaultdict
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from profiles.formats.chrome_trace.lanes import Lane
from profiles.formats.chrome_trace.reader import NONE
from profiles.formats.chrome_trace.spans import in_rows

FORWARD, _BACKWARD, _STEP, _CLEAR = "forward", "backward", "step", "clear_grad"
#: what MegEngine calls the phases of a training step; 1.13 drops the name of the class
_PHASES = {
    "GradManager.backward": _BACKWARD,
    "backward": _BACKWARD,
    "Optimizer.step": _STEP,
    "step": _STEP,
    "Optimizer.clear_grad": _CLEAR,
    "clear_grad": _CLEAR,
}
#: within a backward pass 1.13 has a span for each operator: ReduceBackward, MatrixMulBackward
_OF_BACKWARD = "Backward"
#: of megengine.optimizer, called between the backward pass and the optimizer
_CLIPS = frozenset({"clip_grad_norm", "clip_grad_value"})
#: Python waits for the device: `Tensor.numpy()`, `.shape` and the like
WAIT = "TensorWaitProp"
#: of Python's lane, and no scopes
NO_SCOPES = frozenset({WAIT, "OpDispatch", "TensorGetProp", "Put", "Del"})
#: the Profiler itself
START, STOP = "StartProfile", "StopProfile"
_S_PER_US = 1e-6


class PhaseRow(Struct, frozen=True):
    """One phase of training steps, all of its calls together."""

    name: Annotated[str, Meta(description="`forward`, `backward`, `step` or `clear_grad`.")]
    count: Annotated[int, Meta(description="Calls.")]
    host_s: Annotated[
        float,
        Meta(description="Time of Python's thread within modules and functions, s."),
    ]
    device_s: Annotated[
        float,
        Meta(description="Time of the kernels that it handed over meanwhile, s."),
    ]


class Phases:
    """The phases of training steps; what is none of them is the forward pass.

    A phase is mostly no part of anything, but it may stand within scopes: the user's own
    `profiler.scope("train_step")`, or a function that raised: with_scopes=True of 1.13 ends no
    scope that is left by an exception, so all that follows lies within it.
    """

    def __init__(self) -> None:
        self._count: dict[str, int] = defaultdict(int)
        self._host_us: dict[str, float] = defaultdict(float)
        self._device_s: dict[str, float] = defaultdict(float)

    def add(self, lane: Lane, rows: NDArray[np.int32], took_s: NDArray[np.float64]) -> None:
        """Count a lane's spans; rows: (s,) the operator that each dispatched; took_s: of those."""
        spans, names = lane.spans, lane.texts.names
        phases: list[str] = []
        columns = (lane.code, spans.parent, spans.duration_us, _begins_phase(lane))
        for code, parent, length_us, begins in in_rows(*columns):
            name = names[code]
            around = phases[parent] if parent >= 0 else None
            if around is not None and not (around == FORWARD and begins):
                phases.append(around)
                continue
            if around is None and name in (WAIT, START, STOP):
                phases.append("")
                continue
            phase = _PHASES.get(name, FORWARD)
            phases.append(phase)
            self._count[phase] += name not in NO_SCOPES
            self._host_us[phase] += length_us
            if around is not None:
                self._host_us[around] -= length_us
        for span in np.flatnonzero(rows != NONE).tolist():
            self._device_s[phases[span]] += float(took_s[rows[span]])

    def rows(self) -> tuple[PhaseRow, ...]:
        """The phases that there are, in the order of a step."""
        order = (FORWARD, _BACKWARD, _STEP, _CLEAR)
        found = [name for name in order if name in self._count or name in self._device_s]
        return tuple(
            PhaseRow(
                name=name,
                count=self._count[name],
                # what lies within and was taken off may leave less than nothing by rounding
                host_s=max(0.0, self._host_us[name]) * _S_PER_US,
                device_s=self._device_s[name],
            )
            for name in found
        )


def _begins_phase(lane: Lane) -> NDArray[np.bool_]:
    """(s,) which spans within others are the phase that their name says, and no module so called.

    A module is called as its attribute, so a network may have a `step` (a cell of a recurrent one)
    or a `backward` (of a bidirectional one). MegEngine's own are told by what they hold and by
    what stands beside them within the same scope: a backward pass holds spans that end in
    Backward, nothing else is called clear_grad, and a module that has two of the three names, or a
    scope of these alone in a trace with a backward pass, is not to be expected.
    """
    phase = _phase_codes(lane)
    parent = lane.spans.parent
    within = np.flatnonzero((phase > 0) & (parent >= 0))
    found = np.zeros(len(parent), np.bool_)
    if not len(within):
        return found
    around, said = parent[within], phase[within]
    backward, clear = (_CODES[name] for name in (_BACKWARD, _CLEAR))
    passes = _holders(lane, [name.endswith(_OF_BACKWARD) for name in lane.texts.names])
    is_sure = (said == clear) | ((said == backward) & passes[within])
    beside = np.zeros(len(parent), np.bool_)
    beside[around[is_sure]] = True
    names = np.zeros(len(parent), np.uint8)
    np.bitwise_or.at(names, around, np.left_shift(1, said).astype(np.uint8))
    beside[around[names[around] & (names[around] - 1) > 0]] = True
    if (phase == backward).any():
        passed_over = (NO_SCOPES - {"OpDispatch"}) | _CLIPS | _PHASES.keys()
        others = _holders(lane, [name not in passed_over for name in lane.texts.names])
        beside[around[~others[around]]] = True
    found[within[beside[around]]] = True
    return found


_CODES = {name: code for code, name in enumerate((_BACKWARD, _STEP, _CLEAR), start=1)}


def _phase_codes(lane: Lane) -> NDArray[np.uint8]:
    """(s,) which phase a span is called as, 0 for none."""
    codes = [_CODES[_PHASES[name]] if name in _PHASES else 0 for name in lane.texts.names]
    found: NDArray[np.uint8] = np.array(codes, np.uint8)[lane.code]
    return found


def _holders(lane: Lane, wanted: list[bool]) -> NDArray[np.bool_]:
    """(s,) which spans have one of the wanted names directly within them."""
    parent = lane.spans.parent
    inner = np.array(wanted, np.bool_)[lane.code] & (parent >= 0)
    found = np.zeros(len(parent), np.bool_)
    found[parent[inner]] = True
    return found
