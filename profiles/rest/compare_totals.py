"""Totals of a comparison as numbers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from profiles.analysis.comparison.confidence import VERDICTS, Judgement
from profiles.analysis.comparison.latency import judge_latency
from profiles.comparisons.loading import Compared
from profiles.comparisons.request import SIDES
from profiles.comparisons.words import letter


def totals_of(compared: Compared) -> list[dict[str, Any]]:
    """Totals of both sides, and the median of iterations where any profile has some; s."""
    found = []
    for side in SIDES:
        numbers = compared.comparison.side(side)
        found.append(_totals(side, numbers.total_s.tolist(), numbers.totals))
    if any(compared.clean_ms):
        first, *others = compared.clean_ms
        medians = [
            float(np.median(each)) / 1000 if each else math.nan for each in compared.clean_ms
        ]
        found.append(_totals("latency", medians, [judge_latency(first, each) for each in others]))
    return found


def _totals(key: str, values: Sequence[float], judged: Sequence[Judgement]) -> dict[str, Any]:
    return {
        "key": key,
        "baseline_s": values[0],
        "others": [
            {
                "letter": letter(number),
                "time_s": value,
                "difference_s": value - values[0],
                "verdict": VERDICTS[int(test.verdict[0])],
                "low_s": float(test.low_s[0]),
                "high_s": float(test.high_s[0]),
                "p": float(test.p[0]),
                "p_adjusted": float(test.q[0]),
            }
            for number, (value, test) in enumerate(zip(values[1:], judged, strict=True), start=1)
        ],
    }
