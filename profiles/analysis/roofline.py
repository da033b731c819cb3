"""Roofline model: the FLOP/s of each operator against its arithmetic intensity.

Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.cumulative import sound_rows
from profiles.analysis.dtypes import first_dtype
from profiles.formats.columns import MISSING, ProfileColumns
from profiles.formats.load_and_run.graph import Index

Floats = NDArray[np.float64]

#: dtypes of a profile -> dtype whose peak performance bounds them
ROOF_OF: Mapping[str, str] = {
    "Float32": "Float32",
    "Float16": "Float16",
    "QuantizedS8": "QuantizedS8",
    "Int8": "QuantizedS8",
    "Quantized8Asymm": "QuantizedS8",
}
#: shorter times may be off by more than a tenth, because the clock of a CPU has a resolution of 1
#: µs
SURE_S = 10e-6


@dataclass(frozen=True)
class Roofs:
    """Peak performance of the hardware, as measured on it.

    peak_flops: FLOP/s by dtype, `Float32`; a multiply-add counts as 2
    copy_bytes_s: bytes/s of a copy, counting each byte read and each byte written
    source: how it was measured, in English
    """

    peak_flops: Mapping[str, float]
    copy_bytes_s: float
    source: str


@dataclass(frozen=True, eq=False)
class Roofline:
    """n operators as points, in row order.

    rows: (n,) int32, rows of `ProfileColumns`
    intensity: (n,) float64, FLO/byte = computation / memory
    flops: (n,) float64, FLOP/s = computation / self time
    time_s: (n,) float64, self time on the device, s
    best_flops, best_bytes_s: the largest FLOP/s and bytes/s of the points with a time of at least
        SURE_S, or of all points if there is none; 0 without points
    no_time, no_computation, no_memory: timed operators that are not points, by the first reason
        that applies: a self time that is not positive and finite, unknown FLOPs, unknown bytes
    """

    rows: Index
    intensity: Floats
    flops: Floats
    time_s: Floats
    best_flops: float
    best_bytes_s: float
    no_time: int
    no_computation: int
    no_memory: int


def roofline(columns: ProfileColumns) -> Roofline:
    """Return the points of all operators with known time, FLOPs and bytes."""
    times = columns.device
    sound, odd = sound_rows(times)
    timed = sound[times.end_s[sound] > 0]
    computing = timed[_positive(columns.computation.values[timed])]
    rows = computing[_positive(columns.memory.values[computing])]
    time_s = times.end_s[rows]
    computation, memory = columns.computation.values[rows], columns.memory.values[rows]
    with np.errstate(over="ignore"):
        intensity, flops, bytes_s = computation / memory, computation / time_s, memory / time_s
    drawable = np.isfinite(flops) & np.isfinite(bytes_s) & (intensity > 0)
    sure = drawable & (time_s >= SURE_S)
    best = sure if sure.any() else drawable
    return Roofline(
        rows=rows[drawable].astype(np.int32),
        intensity=intensity[drawable],
        flops=flops[drawable],
        time_s=time_s[drawable],
        best_flops=float(flops[best].max(initial=0.0)),
        best_bytes_s=float(bytes_s[best].max(initial=0.0)),
        no_time=odd + len(sound) - len(timed) + int((~drawable).sum()),
        no_computation=len(timed) - len(computing),
        no_memory=len(computing) - len(rows),
    )


def roof_shares(columns: ProfileColumns, roofs: Roofs) -> tuple[Floats, NDArray[np.int8]]:
    """Return the share of the roof that each operator reaches, and what bounds it.

    share: (n,) float64, the shortest time that the hardware permits / self time; nan if unknown, or
        for a time below SURE_S
    bound: (n,) int8, 0 for FLOP/s, 1 for bytes/s, 2 for the cost of starting it, which limits times
        below SURE_S; -1 if unknown
    """
    points = roofline(columns)
    size, rows = len(columns), points.rows
    peaks = {
        name: roofs.peak_flops.get(ROOF_OF.get(first_dtype(name), ""))
        for name in columns.in_dtypes.values
    }
    usual = roofs.peak_flops.get("Float32", math.nan)
    by_code = np.array([peak or usual for peak in peaks.values()] + [usual])
    peak = by_code[columns.in_dtypes.codes[rows]]
    compute_s = columns.computation.values[rows] / peak
    memory_s = columns.memory.values[rows] / roofs.copy_bytes_s
    limit_s = np.fmax(compute_s, memory_s)
    is_short = points.time_s < SURE_S
    share, bound = np.full(size, math.nan), np.full(size, -1, np.int8)
    share[rows] = np.where(is_short, math.nan, limit_s / points.time_s)
    bound[rows] = np.where(is_short, 2, np.where(compute_s >= memory_s, 0, 1))
    return share, bound


def peaks_in_use(points: Roofline, columns: ProfileColumns, roofs: Roofs) -> dict[str, float]:
    """Return the peak performance, FLOP/s, of the dtypes used by the points, highest first.

    If none of their dtypes was measured, it is that of Float32; if Float32 was not measured either,
    all of them.
    """
    codes = set(columns.in_dtypes.codes[points.rows].tolist()) - {MISSING}
    used = {ROOF_OF.get(first_dtype(columns.in_dtypes.values[code]), "") for code in codes}
    measured = roofs.peak_flops.keys()
    kept = (used & measured) or ({"Float32"} & measured) or measured
    return dict(sorted(((name, roofs.peak_flops[name]) for name in kept), key=lambda it: -it[1]))


def _positive(values: Floats) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        return np.isfinite(values) & (values > 0)
