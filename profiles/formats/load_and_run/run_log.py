"""Parse the iteration summary and the warnings of a load_and_run log."""

import re
from dataclasses import dataclass

from agent.protocol.run_log import parse_log

#: warnings of load_and_run; the group is the message without the line prefix
_WARNING = re.compile(r"^\[[^\]\n]{0,300}\] ?\[WARN\] (.+)$", re.MULTILINE)
_MOST_WARNINGS, _LONGEST_WARNING = 20, 300
#: the log is untrusted, and the number must fit its database column
_MOST_ITERATIONS = 999_999_999


@dataclass(frozen=True)
class RunSummary:
    """Wall-clock time per iteration in ms, over `iterations` timed iterations."""

    iterations: int
    mean_ms: float
    min_ms: float
    max_ms: float


def parse_run_log(text: str) -> RunSummary | None:
    """Parse the summary of a run of any MegEngine version; None if the run did not reach it."""
    finished = parse_log(text).finished
    if finished is None or not finished.iterations or finished.iterations > _MOST_ITERATIONS:
        return None
    return RunSummary(finished.iterations, finished.avg_ms, finished.min_ms, finished.max_ms)


def parse_warnings(text: str) -> list[str]:
    """The distinct warnings of a run, such as missing inputs, which pages show to the user."""
    warnings = dict.fromkeys(line.strip()[:_LONGEST_WARNING] for line in _WARNING.findall(text))
    return list(warnings)[:_MOST_WARNINGS]
