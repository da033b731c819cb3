"""Lay out the speed of a device over time, with marks where its environment changed."""

from typing import Any

from django.utils.translation import gettext_lazy as _

from profiles.analysis.numbers import share
from profiles.device_history import SpeedHistory

#: size of the drawing, which is stretched to the width of the page, and of its margin
WIDTH, HEIGHT, _MARGIN = 1000, 160, 10
#: the drawing ends where only one reading in ten is farther away, but at least here
_LEAST_REACH = 0.05
#: readings in the table, newest first
_IN_TABLE = 50
_KINDS: dict[str, Any] = {
    "platform": _("System and kernel"),
    "driver": _("GPU driver"),
    "agent": _("Agent"),
    "runtime": _("First run with a MegEngine version"),
}


def speed_view(history: SpeedHistory) -> dict[str, Any]:
    """Return the template context of a device's speed; `plot` is None with too few readings."""
    usual = history.usual
    changes = [
        {
            "at": change.at,
            "place": change.place,
            "kind": str(_KINDS[change.kind]),
            "before": change.before,
            "after": change.after,
        }
        for change in history.changes
    ]
    rows = [
        {
            "at": reading.at,
            "before": share(reading.before),
            "after": share(reading.after),
            "is_disturbed": reading.is_disturbed,
            "is_repeated": reading.is_repeated,
        }
        for reading in reversed(history.readings)
    ]
    last = history.readings[-1] if history.readings else None
    return {
        "missing": history.missing,
        "now": share((last.after or last.before) if last else None),
        "low": share(usual.low if usual else None),
        "high": share(usual.high if usual else None),
        "changes": changes[::-1],
        "rows": rows[:_IN_TABLE],
        "plot": _plot(history, changes) if history.readings else None,
    }


def _plot(history: SpeedHistory, changes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the drawing: a dot for each reading, a line for each change."""
    usual = history.usual
    low, high = (usual.low, usual.high) if usual else (1.0, 1.0)
    shares = [
        (place, value, reading)
        for place, reading in enumerate(history.readings)
        for value in (reading.before, reading.after)
        if value is not None
    ]
    distances = sorted(abs(value - 1) for _place, value, _reading in shares)
    reach = 1.2 * max(
        distances[9 * len(distances) // 10], _LEAST_REACH, high - 1, 1 - low
    )  # a few disturbed readings must not flatten all others
    step = (WIDTH - 2 * _MARGIN) / len(history.readings)

    def y_of(value: float) -> float:
        part = max(-1.0, min((value - 1) / reach, 1.0))
        return float(round(HEIGHT / 2 - part * (HEIGHT / 2 - _MARGIN), 1))

    return {
        "width": WIDTH,
        "height": HEIGHT,
        "middle": HEIGHT / 2,
        "band_y": y_of(high),
        "band_height": round(max(y_of(low) - y_of(high), 1), 1),
        "top": share(1 + reach),
        "bottom": share(max(1 - reach, 0)),
        "dots": [
            {
                "x": round(_MARGIN + (place + 0.5) * step, 1),
                "y": y_of(value),
                "is_disturbed": reading.is_disturbed,
                "text": share(value),
            }
            for place, value, reading in shares
        ],
        "marks": [
            {
                "x": round(_MARGIN + change["place"] * step, 1),
                "text": f"{change['kind']}: {change['after']}",
            }
            for change in changes
        ],
    }
