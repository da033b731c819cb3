"""How far equal runs differ on a device, from the runs that it has made.

Runs are equal if the same files ran with the same options, inputs, plan and seed on the same
runtime of the same device, and nothing disturbed them. They tell how far runs of that task differ;
where they are too few (`scatter_of`), all groups of equal runs of the device tell it together.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from profiles.comparison.scatter import Scatter, logarithms, scatter_of
from profiles.models import AttemptMeasurement, Profile
from tasks.models import Attempt, Task, TaskFile
from tasks.states import Outcome

Figure = Literal["device", "host", "latency"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
#: the newest runs of a device that are looked at, and of one group among them
_MOST_RUNS, _MOST_EQUAL = 300, 20
#: passes below which a run is no sample of how far runs differ
_LEAST_PASSES = 4
#: the columns that equal runs are found and compared by: all of a measurement is much larger
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
    """What is known of a run apart from its own times.

    disturbed: something else used its device meanwhile
    scatter: how far equal runs differ in each figure; None where nothing tells it
    """

    disturbed: bool
    scatter: Mapping[Figure, Scatter | None]


UNKNOWN = Evidence(disturbed=False, scatter=dict.fromkeys(FIGURES))


def evidence_of(profiles: Sequence[Profile]) -> list[Evidence]:
    """Return what is known of each run; two queries for each device."""
    devices = {p.attempt.worker_id for p in profiles if p.attempt is not None}
    histories = {device: _History(device) for device in devices}
    return [
        UNKNOWN if p.attempt is None else histories[p.attempt.worker_id].evidence(p.attempt)
        for p in profiles
    ]


def measurement_of(profile: Profile) -> AttemptMeasurement | None:
    return getattr(profile.attempt, "measurement", None)


def clean_medians_s(measurement: AttemptMeasurement | None) -> list[float]:
    """The median iteration of each process without profiling, s: one sample for each process."""
    return [
        record["median_ms"] / 1000
        for record in (measurement.passes if measurement else ())
        if record["kind"] == "clean" and record["kept"] and record["median_ms"] is not None
    ]


class _History:
    """The newest undisturbed runs of a device, in groups of equal ones."""

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
    """For each run with enough passes the logarithms of these."""
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
    """What equal runs have in common, beside their device."""
    settings = {"plan": task.plan, "options": task.options, "inputs": task.inputs}
    contents = sorted((file.kind, file.input, file.option, file.md5) for file in files)
    return (
        task.runtime_version,
        json.dumps([settings, task.script, task.seed], sort_keys=True),
        *contents,
    )
