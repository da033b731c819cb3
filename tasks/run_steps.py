"""What the page of a task shows until its result is there: steps, usual duration, first operators.

Latency and profiled passes are numbered, 1 to the number of the plan, as in the result and in the
log. The model's inputs and calibrations belong to the step in which they happen.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from agent.protocol.messages import EndReason
from agent.protocol.options import clean_passes_of, has_dump_pass
from agent.protocol.plan import Plan
from tasks.models import Attempt, Purpose, Task, TaskFile
from tasks.states import Outcome, Status, TaskState

StepState = Literal["done", "now", "ahead", "failed"]

#: attempts that are searched for runs like this one, and how many of those are used
_SEARCHED, _USED = 200, 20
#: fewest runs of other models for an estimate
_ENOUGH_OTHERS = 3

_TITLES: dict[str, Any] = {
    "queue": _("Queue"),
    "download": _("Download"),
    "inspect": _("Inspect model inputs"),
    "clean": _("Latency"),
    "profiled": pgettext_lazy("step", "Profile"),
    "dump": _("Dumps"),
    "pairs": _("Pairs"),
    "chrome_timeline.json": _("Timeline"),
    "memory_flow.svg": _("Memory flow"),
    "result": _("Result"),
}


@dataclass(frozen=True)
class Step:
    """One step. `passes` of it are counted, 0 if it is no pass; `done` of them have ended.

    is_open: how many passes there will be is not known, because a budget adds some
    """

    kind: str
    state: StepState
    passes: int = 0
    done: int = 0
    is_open: bool = False

    @property
    def title(self) -> str:
        if self.kind == "pairs" and self.done:
            text = ngettext("Pairs (%(count)s measured)", "Pairs (%(count)s measured)", self.done)
            return text % {"count": self.done}
        if self.kind not in ("clean", "profiled") or self.passes < 2:
            return step_title(self.kind)
        if self.state in ("now", "failed"):
            if self.is_open:
                return gettext("Latency pass %(number)s") % {"number": self.done + 1}
            return step_title(self.kind, self.done + 1, self.passes)
        if self.kind == "clean":
            text = ngettext("Latency (%(count)s pass)", "Latency (%(count)s passes)", self.passes)
        else:
            text = ngettext("Profile (%(count)s pass)", "Profile (%(count)s passes)", self.passes)
        return text % {"count": self.passes}


@dataclass(frozen=True)
class UsualRun:
    """How long runs like this one took on the device: median, s, of `runs` runs.

    is_same: they had the same model, plan and options; otherwise only the same plan
    """

    run_s: float
    runs: int
    is_same: bool


def step_title(kind: str, number: int = 1, count: int = 1) -> str:
    """Return the title of a step; latency or profiled pass `number` of `count` has its number."""
    numbers = {"number": number, "count": count}
    if kind == "clean" and count > 1:
        return gettext("Latency pass %(number)s of %(count)s") % numbers
    if kind == "profiled" and count > 1:
        return gettext("Profiled pass %(number)s of %(count)s") % numbers
    return str(_TITLES.get(kind, kind))


def run_steps(task: Task, attempt: Attempt | None) -> list[Step]:
    """Return the steps of a task; none while its files are uploaded."""
    if task.state == TaskState.INITIATED or task.submitted_at is None:
        return []
    passes = _passes(task, attempt)
    kinds = [("queue", 0), ("download", 0), *passes, ("result", 0)]
    position, done = _position(task, attempt, passes)
    state: StepState = "failed" if task.status in (Status.FAILED, Status.CANCELLED) else "now"
    has_budget = not task.is_script and not task.is_paired and bool(task.plan.get("budget_s"))
    return [
        Step(
            kind,
            "done" if place < position else "ahead" if place > position else state,
            count,
            done if place == position else 0,
            is_open=kind == "clean" and has_budget,
        )
        for place, (kind, count) in enumerate(kinds)
    ]


def _passes(task: Task, attempt: Attempt | None) -> list[tuple[str, int]]:
    """Return the kinds of passes in their order, each with its number of passes.

    Of a paired comparison this is about how many pairs fit into its budget, and one more than have
    been measured if these are as many.
    """
    if task.script is not None:
        return [(name, 1) for name in task.script.get("formats", ())]
    if task.is_paired:
        measured = attempt.passes_done if attempt is not None else 0
        return [("pairs", max(task.pairing["budget_s"] if task.pairing else 0, measured + 1))]
    counts = _planned(task)
    if attempt is not None and attempt.latency:
        # a budget adds passes
        added = attempt.latency["passes"] + attempt.latency["goes_on"]
        counts["clean"] = max(counts["clean"], added)
    return [(kind, count) for kind, count in counts.items() if count]


def _planned(task: Task) -> dict[str, int]:
    """Return the number of passes of each kind of a model's plan, without those of a budget."""
    plan = Plan.model_validate(task.plan)
    return {
        "clean": clean_passes_of(task.options, plan),
        "profiled": plan.profiled,
        "dump": int(has_dump_pass(task.options)),
    }


def _done(task: Task, attempt: Attempt) -> int:
    """Return how many passes have ended, since the start of their repetition if there is one."""
    if task.is_script or task.is_paired:
        return attempt.passes_done
    # the agent adds the passes of the first time to both of its numbers
    first_time = max(attempt.passes - sum(_planned(task).values()), 0)
    return max(attempt.passes_done - first_time, 0)


def _position(
    task: Task, attempt: Attempt | None, passes: Sequence[tuple[str, int]]
) -> tuple[int, int]:
    """Return the position of the current step, and how many of its passes have ended."""
    if task.outcome == Outcome.SUCCEEDED:
        return len(passes) + 3, 0
    if task.state == TaskState.WAITING or attempt is None:
        return 0, 0
    if attempt.started_at is None:
        return 1, 0
    left = _done(task, attempt)
    if attempt.end_reason == EndReason.EXITED and attempt.exit_code == 0:
        left = sum(count for _kind, count in passes)
    for place, (_kind, count) in enumerate(passes, start=2):
        if left < count:
            return place, left
        left -= count
    return len(passes) + 2, 0


def page_title(task: Task, attempt: Attempt | None) -> str:
    """Return the title of the page: the model, and while it runs the pass: `▶ 3/6 resnet50`."""
    name = task.title or PurePath(task.model_name).stem
    if task.state == TaskState.RUNNING and attempt is not None and not task.is_paired:
        count = sum(number for _kind, number in _passes(task, attempt))
        return f"▶ {min(_done(task, attempt) + 1, count)}/{count} {name}"
    return name


def usual_run(task: Task) -> UsualRun | None:
    """Return how long runs like this one took on its device; None without enough of them.

    Counted is the time from the start of the first process until all files were received. Without
    equal runs, others with the same plan count; of paired comparisons, which all have one plan,
    those with the same budget and number of arms.
    """
    model = task.model_file
    if model is None:
        return None
    rows = (
        Attempt.objects.filter(
            worker=task.worker_id,
            exit_code=0,
            enough_at=None,
            started_at__isnull=False,
            ended_at__isnull=False,
            task__purpose=Purpose.USER,
            task__kind=task.kind,
            task__files__kind=TaskFile.Kind.MODEL,
            task__files__arm=0,
            task__pairing__isnull=task.pairing is None,
        )
        .order_by("-ended_at")
        .values_list(
            "started_at", "ended_at", "task__plan", "task__options", "task__script",
            "task__pairing", "task__files__md5", "task__files__size_bytes",
        )[:_SEARCHED]
    )  # fmt: skip
    own = (task.plan, task.options, task.script, task.pairing, model.md5, model.size_bytes)
    extent = (task.plan, _extent(task.pairing))
    same, others = list[float](), list[float]()
    for begin, end, *about in rows:
        assert begin is not None
        assert end is not None
        run_s = (end - begin).total_seconds()
        if tuple(about) == own:
            same.append(run_s)
        elif (about[0], _extent(about[3])) == extent and not task.is_script:
            others.append(run_s)
    if same:
        return UsualRun(statistics.median(same[:_USED]), len(same[:_USED]), is_same=True)
    if len(others) >= _ENOUGH_OTHERS:
        return UsualRun(statistics.median(others[:_USED]), len(others[:_USED]), is_same=False)
    return None


def _extent(pairing: dict[str, Any] | None) -> tuple[int, int] | None:
    """Return the budget and the number of arms; None for a task that is not paired."""
    return None if pairing is None else (pairing["budget_s"], len(pairing["arms"]))


def first_operators(task: Task, attempt: Attempt | None) -> dict[str, Any] | None:
    """Return the operators of the first profiled pass for the template; None if there are none.

    Times are in seconds, `share` is of the time of all operators of this pass.
    """
    if attempt is None or not attempt.slowest or task.state == TaskState.WAITING:
        return None
    if task.outcome == Outcome.SUCCEEDED:
        return None
    slowest, total_us = attempt.slowest, attempt.slowest["total_us"]
    return {
        "passes": task.plan.get("profiled", 1),
        "operators": slowest["operators"],
        "total_s": total_us / 1e6,
        "rows": [
            {
                "name": name,
                "type": slowest["types"][place],
                "device_s": time_us / 1e6,
                "share": time_us / total_us if total_us else None,
            }
            for name, place, time_us in slowest["rows"]
        ],
    }


def latency_so_far(task: Task, attempt: Attempt | None) -> dict[str, Any] | None:
    """Return the latency of the clean passes so far for the template; None if there is none."""
    if attempt is None or not attempt.latency or not task.is_live:
        return None
    latency: dict[str, Any] = attempt.latency
    low, high = latency["low_ms"], latency["high_ms"]
    # an agent may report anything
    is_known = low is not None and high is not None and 0 < low <= high
    return latency | {"half_width": (high - low) / (high + low) if is_known else None}


def awaits_operators(task: Task, attempt: Attempt | None) -> bool:
    """Return whether the agent will report the slowest operators of this task."""
    is_measured = task.script is None and task.plan.get("profiled", 1) > 0
    is_ahead = task.state in (TaskState.WAITING, TaskState.ASSIGNED, TaskState.RUNNING)
    return is_measured and is_ahead and first_operators(task, attempt) is None
