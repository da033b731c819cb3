"""Run two alternatives alternately and print a table that compares their times."""

import statistics
import time
from collections.abc import Callable, Sequence

from tabulate import tabulate

Step = Callable[[], tuple[float, ...]]


def in_turn(steps: tuple[Step, Step], pairs: int, settle_s: float) -> list[tuple[float, ...]]:
    """One row for each pair: its number, then what both steps measured.

    In turn: whoever always went first would always meet the quieter machine. The first pair warms
    caches up and is left out.
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
    """The rows with a ratio for each column in `ratios`: the second step's over the first's.

    The first of them is the one that the goal is about.
    """
    width = (len(rows[0]) - 1) // 2
    table = [(*row, *(row[column + width] / row[column] for column in ratios)) for row in rows]
    medians = [statistics.median(column) for column in list(zip(*table, strict=True))[1:]]
    text = tabulate([*table, ("median", *medians)], headers=headers, floatfmt=".3f")
    ratio = medians[len(rows[0]) - 1]
    return (
        f"{text}\nmedian ratio {ratio:.3f}, goal {goal:.2f}: {'met' if ratio <= goal else 'MISSED'}"
    )
