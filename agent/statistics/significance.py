"""Student's t, and the false discovery rate of many tests."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def student_p(t: Floats, dof: int) -> Floats:
    """Return the two-sided p of Student's t, to about 1e-15; dof: an integer from 1."""
    angle = np.arctan(np.abs(t) / math.sqrt(dof))
    square = np.cos(angle) ** 2
    first = 2 if dof % 2 else 1
    term, total = np.ones_like(square), np.zeros_like(square)
    for k in range(first, dof, 2):
        total += term
        term = term * square * k / (k + 1)
    inside = np.sin(angle) * total
    if dof % 2:
        inside = 2 / math.pi * (angle + np.cos(angle) * inside)
    return np.asarray(np.clip(1 - inside, 0.0, 1.0))


@lru_cache(maxsize=256)
def student_quantile(p: float, dof: int) -> float:
    """Return the t that has this two-sided p, at most 1e4."""
    low, high = 0.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(np.array([middle]), dof)[0] > p else (low, middle)
    return high


def benjamini_hochberg(p: Floats) -> Floats:
    """Return p adjusted by Benjamini and Hochberg; nan stays nan and is not counted."""
    result = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    ratios = p[order] * len(order) / np.arange(1, len(order) + 1)
    result[order] = np.minimum(np.minimum.accumulate(ratios[::-1])[::-1], 1.0)
    return result
