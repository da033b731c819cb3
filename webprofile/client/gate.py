"""Judge whether tasks are slower than a baseline by more than a limit."""

from collections.abc import Mapping, Sequence

from webprofile.client.answers import (
    Compared,
    Comparison,
    Gate,
    GateResult,
    Judged,
    Total,
    TotalName,
)
from webprofile.client.errors import ClientError

#: totals that --fail-above can judge, in order of preference: the device total has several samples
JUDGED: dict[TotalName, str] = {
    "device": "sum of the operators' times on the device",
    "latency": "median latency (profiler off)",
}
#: results of the gate, the most severe first
RESULTS: tuple[GateResult, ...] = ("failed", "not enough evidence", "passed")


def judged(comparison: Comparison, tasks: Sequence[int], limit_percent: float) -> Gate:
    """Judge a comparison as --fail-above does; return the total, its values, verdicts and results.

    Times are in s, changes and their confidence interval in percent. Raises ClientError if no total
    is known for all results.
    """
    totals = {total["key"]: total for total in comparison["totals"]}
    key = _judged_key(totals)
    baseline_s = totals[key]["baseline_s"]
    others: list[Judged] = [
        {
            "task": task,
            "letter": other["letter"],
            "time_s": other["time_s"],
            "difference_s": other["difference_s"],
            "change_percent": _percent(other["change"]),
            "low_percent": _percent(other["change_low"]),
            "high_percent": _percent(other["change_high"]),
            "equal_runs_differ_by_percent": _percent(other["equal_runs_differ_by"]),
            "equal_runs_are": other["equal_runs_are"],
            "verdict": other["verdict"],
            "verdict_text": other["verdict_text"],
            "verdict_advice": other["verdict_advice"],
            "result": _result(other, limit_percent),
        }
        for task, other in zip(tasks[1:], totals[key]["others"], strict=True)
    ]
    results = {other["result"] for other in others}
    return {
        "number": key,
        "meaning": JUDGED[key],
        "unit": "s",
        "limit_percent": limit_percent,
        "baseline_task": tasks[0],
        "baseline_s": baseline_s,
        "others": others,
        "result": next(result for result in RESULTS if result in results),
    }


def _judged_key(totals: Mapping[TotalName, Total]) -> TotalName:
    """Return the first total that is known for all results."""
    known = [key for key in JUDGED if _is_known(totals.get(key))]
    if not known:
        raise ClientError("There are no times to compare.")
    return known[0]


def _result(other: Compared, limit_percent: float) -> GateResult:
    """Return the result of the gate; a difference that may be noise is not enough evidence."""
    is_above = other["change"] is not None and 100 * other["change"] > limit_percent
    if other["verdict"] in ("faster", "slower"):
        return "failed" if is_above else "passed"
    return "passed" if other["verdict"] == "none" and not is_above else "not enough evidence"


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * ratio


def _is_known(total: Total | None) -> bool:
    if total is None or not total["baseline_s"]:
        return False
    return all(other["time_s"] is not None for other in total["others"])
