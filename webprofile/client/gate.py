"""Judge whether tasks, or the arms of a paired comparison, are slower than a baseline."""

from collections.abc import Mapping, Sequence

from webprofile.client.answers import (
    Compared,
    Comparison,
    Gate,
    Judged,
    PairedVerdict,
    Pairs,
    Total,
    TotalName,
)
from webprofile.client.batchfile.paired import GateResult, result_of_arm, worst_of
from webprofile.client.errors import ClientError

#: totals that can be judged, in order of preference: a latency is the median of many iterations in
#: several processes, while a device total has one iteration of each profiled pass
JUDGED: dict[TotalName, str] = {
    "latency": "median latency (profiler off)",
    "device": "sum of the operators' times on the device",
}


def judged(comparison: Comparison, tasks: Sequence[int], limit_percent: float | None) -> Gate:
    """Judge a comparison as `compare` does; return the total, its values, verdicts and results.

    limit_percent: as for --fail-above; None as for --gate verdict: any verdict "slower" fails, and
        a difference without a verdict is not enough evidence

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
            "paired": None,
            "result": _result(other, limit_percent),
        }
        for task, other in zip(tasks[1:], totals[key]["others"], strict=True)
    ]
    return {
        "number": key,
        "meaning": JUDGED[key],
        "unit": "s",
        "limit_percent": limit_percent,
        "paired_task": None,
        "baseline_task": tasks[0],
        "baseline_s": baseline_s,
        "others": others,
        "result": worst_of(other["result"] for other in others),
    }


def confirmed(gate: Gate, task: int, pairs: Pairs) -> Gate:
    """Return a gate that the paired run of the same tasks decides.

    task: number of the paired comparison
    """
    others: list[Judged] = [
        {**other, "paired": verdict, "result": _result_of_arm(verdict, pairs)}
        for other, verdict in zip(gate["others"], pairs["verdicts"], strict=True)
    ]
    return {**gate, "paired_task": task, "others": others, "result": result_of_pairs(pairs)}


def result_of_pairs(pairs: Pairs) -> GateResult:
    """Return `failed` if an arm is slower or its outputs differ, `passed` if all are decided."""
    return worst_of(_result_of_arm(verdict, pairs) for verdict in pairs["verdicts"])


def _result_of_arm(verdict: PairedVerdict, pairs: Pairs) -> GateResult:
    return result_of_arm(verdict["verdict"], differs=verdict["letter"] in pairs["differing"])


def _judged_key(totals: Mapping[TotalName, Total]) -> TotalName:
    """Return the first total that is known for all results."""
    known = [key for key in JUDGED if _is_known(totals.get(key))]
    if not known:
        raise ClientError("There are no times to compare.")
    return known[0]


def _result(other: Compared, limit_percent: float | None) -> GateResult:
    """Return the result of the gate; a difference that may be noise is not enough evidence."""
    if limit_percent is None:
        by_verdict: dict[str, GateResult] = {"slower": "failed", "faster": "passed"}
        return by_verdict.get(other["verdict"], "not enough evidence")
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
