"""Offer the result of an equal task instead of a new run, and judge a quick check of a result."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.timesince import timesince
from django.utils.translation import gettext, gettext_lazy

from accounts.models import User
from agent.protocol.plan import Plan
from profiles.analysis.durations import duration
from profiles.analysis.numbers import share
from profiles.comparison.history import RunKey, run_key
from profiles.comparison.loading import judge_latency
from profiles.comparison.messages import verdict_words
from profiles.device_history import speeds_since
from profiles.models import AttemptMeasurement
from profiles.presenters.formatting import listed
from tasks.lifecycle.attempts import environments
from tasks.models import Attempt, Purpose, Task, TaskFile, TaskKind
from tasks.states import Outcome
from tasks.submission.creation import task_rows
from tasks.submission.plans import CHECK
from tasks.submission.request import TaskRequest
from tasks.submission.validation import Admitted
from webprofile.sentences import sentences

#: newest runs of the model on the device among which an equal one is searched
_SEARCHED = 100
#: parts of `Attempt.environment`
_ENVIRONMENT = {
    "agent": gettext_lazy("Agent"),
    "platform": gettext_lazy("System and kernel"),
    "cpu_model": gettext_lazy("Processor"),
    "driver": gettext_lazy("GPU driver"),
}
#: what a check found, by the verdict on the latency
_CHECK_TEXTS = {
    "none": gettext_lazy(
        "Check of task #%(id)s: latency %(change)s. Equal runs on this device differ by just as "
        "much, so the result of the task still holds."
    ),
    "faster": gettext_lazy(
        "Check of task #%(id)s: latency %(change)s. The run was faster by more than the "
        "difference between equal runs, so the earlier result no longer holds; measure again."
    ),
    "slower": gettext_lazy(
        "Check of task #%(id)s: latency %(change)s. The run was slower by more than the "
        "difference between equal runs, so the earlier result no longer holds; measure again."
    ),
    "disturbed": gettext_lazy(
        "Check of task #%(id)s: latency %(change)s, but this run was disturbed. Check again."
    ),
    "origin": gettext_lazy(
        "Check of task #%(id)s: latency %(change)s, but the run of the task itself was disturbed. "
        "Measure again."
    ),
    "unknown": gettext_lazy(
        "Check of task #%(id)s: latency %(change)s. It is not known yet how much equal runs "
        "differ on this device."
    ),
}


@dataclass(frozen=True)
class EarlierResult:
    """The result of an equal task of the same owner.

    latency_ms: median of an iteration without the profiler, None without a clean pass
    device_s: median of the device totals of its profiled passes, None without them
    speed_then, speed_now: speed of the device in its run and in the newest one, as shares of its
        usual speed; None if it is not known
    changed: keys of `_ENVIRONMENT`: what has changed on the device since
    may_check: whether it has a latency and its files are still stored, so that it can be checked
        without an upload
    """

    task: int
    finished_at: datetime
    latency_ms: float | None
    device_s: float | None
    speed_then: float | None
    speed_now: float | None
    changed: list[str]
    may_check: bool

    @property
    def text(self) -> str:
        """What is offered, in the user's language."""
        is_new = timezone.now() - self.finished_at < timedelta(minutes=1)
        age = gettext("less than a minute") if is_new else timesince(self.finished_at, depth=1)
        values = {"id": self.task, "age": age}
        if self.latency_ms is not None:
            values["time"] = duration(self.latency_ms / 1000)
            text = gettext(
                "The same measurement was made %(age)s ago by task #%(id)s: median latency "
                "%(time)s."
            )
        else:
            values["time"] = duration(self.device_s)
            text = gettext(
                "The same measurement was made %(age)s ago by task #%(id)s: device time %(time)s."
            )
        return text % values

    @property
    def drift(self) -> str:
        """What is known of the device since then, in the user's language."""
        speed = gettext("It is not known whether the device is still as fast as it was then.")
        if self.speed_now is not None:
            speed = gettext(
                "The device had %(then)s of its usual speed then, and %(now)s in its last run."
            ) % {"then": share(self.speed_then), "now": share(self.speed_now)}
        if not self.changed:
            return speed
        names = listed(str(_ENVIRONMENT[name]) for name in self.changed)
        change = gettext("Changed on the device since then: %(names)s.") % {"names": names}
        return sentences([speed, change])


def earlier_of_request(
    owner: User, request: TaskRequest, admitted: Admitted | None
) -> EarlierResult | None:
    """Return the newest result of the owner's that equals what a request would measure.

    None for a refused request, and if the checksum of a file is not known.
    """
    if admitted is None or request.pairing is not None or request.script is not None:
        return None
    task, files = task_rows(owner, request, admitted)
    return earlier_of_task(task, files)


def earlier_of_task(task: Task, files: Sequence[TaskFile]) -> EarlierResult | None:
    """As `earlier_of_request`, for a task (which may be unsaved) and its files.

    Only results of the same owner count: users may see no others, and an administrator, who sees
    all, could be deceived by a file of another user with a forged MD5.
    """
    models = [file for file in files if file.kind == TaskFile.Kind.MODEL]
    if task.kind != TaskKind.MODEL or task.is_paired or len(models) != 1:
        return None
    if not all(file.md5 for file in files):
        return None
    same_model = TaskFile.objects.filter(
        kind=TaskFile.Kind.MODEL, md5=models[0].md5, size_bytes=models[0].size_bytes
    )
    runs = (
        AttemptMeasurement.objects.filter(
            attempt__task__owner=task.owner_id,
            attempt__task__in=same_model.order_by().values("task"),
            attempt__task__purpose=Purpose.USER,
            attempt__task__outcome=Outcome.SUCCEEDED,
            attempt__task__pairing__isnull=True,
            attempt__worker=task.worker_id,
            # a run that was ended early has fewer passes than its plan
            attempt__enough_at=None,
        )
        .select_related("attempt__task", "attempt__worker")
        .prefetch_related("attempt__task__files")
        .order_by("-attempt__task_id")[:_SEARCHED]
    )
    key = run_key(task, files)
    for run in runs:
        if not run.disturbances and run_key(run.attempt.task, run.attempt.task.files.all()) == key:
            return _result(run)
    return None


def _result(run: AttemptMeasurement) -> EarlierResult | None:
    task, profile = run.attempt.task, getattr(run.attempt, "profile", None)
    device_s = profile.device_total_s if profile is not None else None
    if task.finished_at is None or (run.median_ms is None and device_s is None):
        return None
    then, now = speeds_since(run)
    return EarlierResult(
        task=task.pk,
        finished_at=task.finished_at,
        latency_ms=run.median_ms,
        device_s=device_s,
        speed_then=then,
        speed_now=now,
        changed=_changed(run.attempt),
        may_check=task.may_copy and run.median_ms is not None,
    )


def _changed(attempt: Attempt) -> list[str]:
    before, (now,) = attempt.environment, environments().get(pk=attempt.worker_id)
    return [name for name in _ENVIRONMENT if name in before and before[name] != now.get(name)]


def check_view(task: Task) -> dict[str, Any] | None:
    """Return the verdict of a quick check on the task that it repeats; None for other tasks."""
    origin = task.copied_from
    if origin is None or origin.worker_id != task.worker_id:
        return None
    if Plan.model_validate(task.plan) != CHECK or _key(task) != _key(origin):
        return None
    runs = {
        run.attempt.task_id: run
        for run in AttemptMeasurement.objects.filter(attempt__task__in=[task, origin])
        .select_related("attempt__task")
        .prefetch_related("attempt__task__files")
    }
    if task.pk not in runs or origin.pk not in runs:
        return None
    words = verdict_words(judge_latency(runs[origin.pk], runs[task.pk]), 0)
    if not words["change"]:
        return None
    figures = f"{words['change']} %" + (f" ({words['interval']} %)" if words["interval"] else "")
    is_origin = words["code"] == "disturbed" and runs[origin.pk].disturbances
    text = _CHECK_TEXTS.get("origin" if is_origin else words["code"], _CHECK_TEXTS["unknown"])
    return {"text": text % {"id": origin.pk, "change": figures}, "origin": origin, **words}


def _key(task: Task) -> RunKey:
    """The key of a task's runs, whatever their plan."""
    return run_key(task, task.files.all())._replace(plan="")
