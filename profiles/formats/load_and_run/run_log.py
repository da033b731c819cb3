"""What the log of a run says about its iterations, and what it warns of."""

import re
from dataclasses import dataclass

from agent.protocol.run_log import parse_log

#: load_and_run's own warnings, without the prefix of the line
_WARNING = re.compile(r"^\[[^\]\n]{0,300}\] ?\[WARN\] (.+)$", re.MULTILINE)
_MOST_WARNINGS, _LONGEST_WARNING = 20, 300
#: the log is the model's to write, and the number goes into a column
_MOST_ITERATIONS = 999_999_999


@dataclass(frozen=True)
class RunSummary:
    """Wall time of an iteration in milliseconds, over `iterations` timed ones."""

    iterations: int
    mean_ms: float
    min_ms: float
    max_ms: float


def parse_run_log(text: str) -> RunSummary | None:
    """Read the summary of a run of any version; None if the run did not come that far."""
    finished = parse_log(text).finished
    if finished is None or not finished.iterations or finished.iterations > _MOST_ITERATIONS:
        return None
    return RunSummary(finished.iterations, finished.avg_ms, finished.min_ms, finished.max_ms)


def parse_warnings(text: str) -> list[str]:
    """The warnings of a run, such as inputs that were not given: a reader must not miss them."""
    found = dict.fromkeys(line.strip()[:_LONGEST_WARNING] for line in _WARNING.findall(text))
    return list(found)[:_MOST_WARNINGS]
