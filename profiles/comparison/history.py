"""Scatter of equal runs on a device, from the runs in the database.

Runs are equal if the same files ran with the same options, inputs, plan and seed on the same
runtime of the same device without disturbance. They determine the scatter of the task's runs; if
they are too few (`scatter_of`), all groups of equal runs on the device are used together.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from profiles.comparison.confidence import Scatter, logarithms, scatter_of
from profiles.models import AttemptMeasurement, Profile
from tasks.models import Attempt, Task, TaskFile
from tasks.states import Outcome

Figure = Literal["device", "host", "latency"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
#: how many of the newest runs of a device are used, and how many of one group
_MOST_RUNS, _MOST_EQUAL = 300, 20
#: fewest passes of a run that is used
_LEAST_PASSES = 4
#: columns that are loaded to find and compare equal runs; a full measurement is much larger
_NEEDED = (
    "passes",
    "contaminations",
    "device_totals_s",
    "host_totals_s",
    "attempt__task__runtime_version",
    "attempt__task__plan",
    "attempt__task__options",
    "attempt__task__inputs",
    "attempt__task__script",
    "attempt__task__seed",
)
_NEEDED_OF_FILES = ("task", "kind", "input", "option", "md5")

Floats = NDArray[np.float64]
_Key = tuple[Any, ...]


@dataclass(frozen=True)
class Evidence:
    """Data about a run other than its own times.

    disturbed: whether other load was on its device during the run
    scatter: scatter of equal runs for each figure; None if unknown
    """

    disturbed: bool
    scatter: Mapping[Figure, Scatter | None]


UNKNOWN = Evidence(disturbed=False, scatter=dict.fromkeys(FIGURES))


def evidence_of(profiles: Sequence[Profile]) -> list[Evidence]:
    """Return the evidence of each run, with two queries per device."""
    devices = {p.attempt.worker_id for p in profiles if p.attempt is not None}
    histories = {device: _History(device) for device in devices}
    return [
        UNKNOWN if p.attempt is None else histories[p.attempt.worker_id].evidence(p.attempt)
        for p in profiles
    ]


def clean_medians_s(measurement: AttemptMeasurement | None) -> list[float]:
    """Return the median iteration without profiling of each process, s: one sample per process."""
    return [
        record["median_ms"] / 1000
        for record in (measurement.passes if measurement else ())
        if record["kind"] == "clean" and record["kept"] and record["median_ms"] is not None
    ]


class _History:
    """The newest undisturbed runs of a device, grouped by equal runs."""

    def __init__(self, device: int) -> None:
        runs = list(
            AttemptMeasurement.objects.filter(
                attempt__worker=device, attempt__task__outcome=Outcome.SUCCEEDED
            )
            .select_related("attempt__task")
            .only(*_NEEDED)
            .order_by("-attempt__ended_at")[:_MOST_RUNS]
        )
        numbers = [run.attempt.task_id for run in runs]
        files: defaultdict[int, list[TaskFile]] = defaultdict(list)
        for file in TaskFile.objects.filter(task__in=numbers).only(*_NEEDED_OF_FILES).order_by():
            files[file.task_id].append(file)
        self.groups: defaultdict[_Key, list[AttemptMeasurement]] = defaultdict(list)
        for run in runs:
            group = self.groups[_key(run.attempt.task, files[run.attempt.task_id])]
            if not run.contaminations and len(group) < _MOST_EQUAL:
                group.append(run)
        self.of_device: dict[Figure, Scatter | None] = {}

    def evidence(self, attempt: Attempt) -> Evidence:
        equal = self.groups.get(_key(attempt.task, list(attempt.task.files.all())), [])
        measurement = getattr(attempt, "measurement", None)
        return Evidence(
            disturbed=measurement is not None and bool(measurement.contaminations),
            scatter={
                figure: scatter_of([_logs(equal, figure)]) or self._of_device(figure)
                for figure in FIGURES
            },
        )

    def _of_device(self, figure: Figure) -> Scatter | None:
        if figure not in self.of_device:
            groups = [_logs(group, figure) for group in self.groups.values()]
            self.of_device[figure] = scatter_of(groups)
        return self.of_device[figure]


def _logs(runs: Iterable[AttemptMeasurement], figure: Figure) -> list[Floats]:
    """Return the logarithms of the passes of each run that has enough of them."""
    samples = []
    for run in runs:
        logs = logarithms(np.array(_samples(run, figure), dtype=np.float64))
        logs = logs[~np.isnan(logs)]
        if len(logs) >= _LEAST_PASSES:
            samples.append(logs)
    return samples


def _samples(run: AttemptMeasurement, figure: Figure) -> Sequence[float | None]:
    if figure == "latency":
        return clean_medians_s(run)
    samples: list[float | None] = run.device_totals_s if figure == "device" else run.host_totals_s
    return samples


def _key(task: Task, files: Iterable[TaskFile]) -> _Key:
    """Return the key that equal runs on one device have in common."""
    settings = {"plan": task.plan, "options": task.options, "inputs": task.inputs}
    contents = sorted((file.kind, file.input, file.option, file.md5) for file in files)
    return (
        task.runtime_version,
        json.dumps([settings, task.script, task.seed], sort_keys=True),
        *contents,
    )
