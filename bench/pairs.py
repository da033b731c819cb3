"""Run two alternatives alternately and compare their times in a table."""

import statistics
import time
from collections.abc import Callable, Sequence

from tabulate import tabulate

Step = Callable[[], tuple[float, ...]]


def in_turn(steps: tuple[Step, Step], pairs: int, settle_s: float) -> list[tuple[float, ...]]:
    """Run both steps `pairs` times and return rows of pair number and the figures of both steps.

    The order alternates, because the step that always runs first would always find the quieter
    machine. A first pair fills caches and is not counted.
    """
    rows = []
    for pair in range(pairs + 1):
        results = {}
        for number in (pair % 2, 1 - pair % 2):
            time.sleep(settle_s)
            results[number] = steps[number]()
        rows.append((float(pair), *results[0], *results[1]))
    return rows[1:]


def report(
    rows: Sequence[tuple[float, ...]], headers: Sequence[str], ratios: Sequence[int], goal: float
) -> str:
    """Return the rows as a table, with the ratio of the second step to the first.

    `ratios` are the columns of the first step that get a ratio. The goal is the upper limit of the
    median of the first ratio.
    """
    width = (len(rows[0]) - 1) // 2
    table = [(*row, *(row[column + width] / row[column] for column in ratios)) for row in rows]
    medians = [statistics.median(column) for column in list(zip(*table, strict=True))[1:]]
    text = tabulate([*table, ("median", *medians)], headers=headers, floatfmt=".3f")
    ratio = medians[len(rows[0]) - 1]
    return (
        f"{text}\nmedian ratio {ratio:.3f}, goal {goal:.2f}: {'met' if ratio <= goal else 'MISSED'}"
    )
