"""What load_and_run 1.7 and later prints about its iterations.

Source of the format: MegEngine, lite/load_and_run/src/strategys/strategy_normal.cpp.
"""

import re
from dataclasses import dataclass

#: nine digits at most: the log is the model's to write, and the number goes into a column
_ITER = re.compile(r"iter \d+/(\d{1,9}): ")
_FINISHED = re.compile(
    r"finished test #\d+: time=\S+ ?ms avg_time=(\S+?) ?ms .*?min=(\S+?) ?ms max=(\S+?) ?ms"
)


#: load_and_run's own warnings, without the prefix of the line
_WARNING = re.compile(r"^\[[^\]]*\]\s?\[WARN\] (.+)$", re.MULTILINE)
_MOST_WARNINGS, _LONGEST_WARNING = 20, 300


@dataclass(frozen=True)
class RunSummary:
    """Wall time of an iteration in milliseconds, over `iterations` timed ones."""

    iterations: int
    mean_ms: float
    min_ms: float
    max_ms: float


def parse_run_log(text: str) -> RunSummary | None:
    """Read the line `=== finished test`; None if the run did not come that far."""
    finished = _FINISHED.search(text)
    timed = _ITER.search(text)
    if finished is None or timed is None:
        return None
    try:
        mean_ms, min_ms, max_ms = (float(group) for group in finished.groups())
    except ValueError:
        return None
    return RunSummary(int(timed.group(1)), mean_ms, min_ms, max_ms)


def parse_warnings(text: str) -> list[str]:
    """The warnings of a run, such as inputs that were not given: a reader must not miss them."""
    found = dict.fromkeys(line.strip()[:_LONGEST_WARNING] for line in _WARNING.findall(text))
    return list(found)[:_MOST_WARNINGS]
