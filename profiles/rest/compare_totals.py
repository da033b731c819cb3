"""Totals of a comparison as numbers."""

import math
from collections.abc import Sequence
from typing import Any

from profiles.analysis.comparison.confidence import Judgement
from profiles.comparisons.history import Figure
from profiles.comparisons.loading import Compared
from profiles.comparisons.request import SIDES
from profiles.comparisons.words import letter


def totals_of(compared: Compared) -> list[dict[str, Any]]:
    """Totals of both sides, and the median of iterations where any profile has some; s."""
    found = []
    for side in SIDES:
        numbers = compared.comparison.side(side)
        found.append(_totals(compared, side, numbers.total_s.tolist(), numbers.totals))
    if not all(map(math.isnan, compared.latency_s)):
        found.append(_totals(compared, "latency", compared.latency_s, compared.latency))
    return found


def _totals(
    compared: Compared, key: Figure, values: Sequence[float], judged: Sequence[Judgement]
) -> dict[str, Any]:
    return {
        "key": key,
        "baseline_s": values[0],
        "others": [
            {
                "letter": letter(number),
                "time_s": value,
                "difference_s": value - values[0],
                "verdict": test.code(0),
                "change": float(test.change[0]),
                "change_low": float(test.low[0]),
                "change_high": float(test.high[0]),
                "equal_runs_differ_by": math.expm1(compared.basis(number, key).allowance),
            }
            for number, (value, test) in enumerate(zip(values[1:], judged, strict=True), start=1)
        ],
    }
