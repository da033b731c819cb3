"""The memory that tensors hold over time, as numbers that a template draws as SVG."""

from dataclasses import dataclass

from profiles.memory_flow.summary import MemoryFlowSummary
from profiles.shown.time_axis import Tick, time_axis

WIDTH, HEIGHT = 1_000.0, 200.0


@dataclass(frozen=True)
class MemoryDrawing:
    """path: the line in a box of WIDTH x HEIGHT, a step at each moment; area: down to the axis

    peak_x: where the peak begins
    """

    path: str
    area: str
    peak_x: float
    ticks: list[Tick]


def memory_drawing(found: MemoryFlowSummary) -> MemoryDrawing | None:
    """The curve up to the peak's height; None where nothing was ever held."""
    curve = found.curve
    length_s = found.end_s - found.begin_s
    if not curve.at_s or length_s <= 0 or found.peak_bytes <= 0:
        return None

    def x(at_s: float) -> float:
        return min(WIDTH, max(0.0, (at_s - found.begin_s) / length_s * WIDTH))

    path = ""
    for at_s, held in zip(curve.at_s, curve.held_bytes, strict=True):
        y = HEIGHT * (1 - held / found.peak_bytes)
        path += f"H{x(at_s):.2f}V{y:.2f}" if path else f"M{x(at_s):.2f} {y:.2f}"
    path += f"H{WIDTH:g}"
    return MemoryDrawing(
        path=path,
        area=f"{path}V{HEIGHT:g}H{x(curve.at_s[0]):.2f}z",
        peak_x=round(x(found.peak_s or found.begin_s), 2),
        ticks=time_axis(found.begin_s, found.end_s),
    )
