"""Scatter of equal runs on a device, from the runs in the database.

Runs are equal if the same files ran with the same options, inputs, plan and seed on the same
runtime of the same device without disturbance. They determine the scatter of the task's runs. If
they are too few (`scatter_of`), it is the widest of what is known: of all groups of equal runs on
the device together, of the sample model that the device has run for this purpose
(`tasks.health_checks`), and of the few equal runs that there are.
"""

import datetime
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from django.db.models import Q
from numpy.typing import NDArray

from agent.statistics.ranks import differences
from agent.statistics.unpaired import Scatter, ScatterSource, logarithms, scatter_of
from profiles.models import AttemptMeasurement
from tasks.models import Attempt, Purpose, Task, TaskFile
from tasks.states import Outcome
from workers.models import HealthCheck

Figure = Literal["device", "host", "latency"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
#: how many of the newest runs of a device are used, and how many of one group
_MOST_RUNS, _MOST_EQUAL = 300, 20
#: fewest samples of a run that is used. A latency is the median of many iterations, and a plan may
#: have one clean pass; a profiled pass is the sum of one iteration
_LEAST_SAMPLES: Mapping[Figure, int] = {"device": 4, "host": 4, "latency": 1}
#: columns that are loaded to find and compare equal runs; a full measurement is much larger
_NEEDED = (
    "passes",
    "disturbances",
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


class RunKey(NamedTuple):
    """What equal runs on one device have in common; `plan` and `settings` are JSON."""

    version: str
    plan: str
    settings: str
    files: tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True)
class Evidence:
    """Data about a run other than its own times.

    disturbed: whether other load was on its device during the run
    scatter: scatter of equal runs for each figure; None if unknown
    """

    disturbed: bool
    scatter: Mapping[Figure, Scatter | None]


UNKNOWN = Evidence(disturbed=False, scatter=dict.fromkeys(FIGURES))


def evidence_of(
    attempts: Sequence[Attempt | None], *, before: datetime.datetime | None = None
) -> list[Evidence]:
    """Return the evidence of each run, with two queries per device.

    before: only runs of users that ended before this time count; None for all
    """
    devices = {attempt.worker_id for attempt in attempts if attempt is not None}
    histories = {device: _History(device, before) for device in devices}
    return [
        UNKNOWN if attempt is None else histories[attempt.worker_id].evidence(attempt)
        for attempt in attempts
    ]


def clean_medians_s(measurement: AttemptMeasurement | None) -> list[float]:
    """Return the median iteration time without profiling, s: one sample per process."""
    return [
        record["median_ms"] / 1000
        for record in (measurement.passes if measurement else ())
        if record["kind"] == "clean"
        and record["kept"]
        and record.get("used", True)
        and record["median_ms"] is not None
    ]


class _History:
    """The newest undisturbed runs of a device, grouped by equal runs."""

    def __init__(self, device: int, before: datetime.datetime | None) -> None:
        known = Q() if before is None else Q(attempt__ended_at__lt=before)
        runs = list(
            AttemptMeasurement.objects.filter(
                known,
                attempt__worker=device,
                attempt__task__outcome=Outcome.SUCCEEDED,
                attempt__task__purpose=Purpose.USER,
                # one that was ended early has fewer passes than its plan
                attempt__enough_at=None,
            )
            .select_related("attempt__task")
            .only(*_NEEDED)
            .order_by("-attempt__ended_at")[:_MOST_RUNS]
        )
        numbers = [run.attempt.task_id for run in runs]
        files: defaultdict[int, list[TaskFile]] = defaultdict(list)
        for file in TaskFile.objects.filter(task__in=numbers).only(*_NEEDED_OF_FILES).order_by():
            files[file.task_id].append(file)
        self.groups: defaultdict[RunKey, list[AttemptMeasurement]] = defaultdict(list)
        for run in runs:
            group = self.groups[run_key(run.attempt.task, files[run.attempt.task_id])]
            if not run.disturbances and len(group) < _MOST_EQUAL:
                group.append(run)
        self.of_device: dict[Figure, Scatter | None] = {}
        checks = HealthCheck.objects.filter(worker=device, cause=HealthCheck.Cause.SCATTER).exclude(
            samples={}
        )
        self.sample_runs = list(checks.values_list("environment", "samples")[:_MOST_EQUAL])

    def evidence(self, attempt: Attempt) -> Evidence:
        equal = self.groups.get(run_key(attempt.task, list(attempt.task.files.all())), [])
        measurement = getattr(attempt, "measurement", None)
        return Evidence(
            disturbed=measurement is not None and bool(measurement.disturbances),
            scatter={figure: self._scatter(equal, figure) for figure in FIGURES},
        )

    def _scatter(self, equal: Sequence[AttemptMeasurement], figure: Figure) -> Scatter | None:
        own = _logs(equal, figure)
        if (scatter := scatter_of([own])) is not None:
            return scatter
        widest = self._of_device(figure)
        if widest is None:
            return None
        return replace(widest, largest=max([widest.largest, *np.abs(differences(own))]))

    def _of_device(self, figure: Figure) -> Scatter | None:
        if figure not in self.of_device:
            groups = [_logs(group, figure) for group in self.groups.values()]
            # those of the newest environment: kernel, agent and runtime
            newest = self.sample_runs[0][0] if self.sample_runs else ""
            runs = [samples for environment, samples in self.sample_runs if environment == newest]
            sample = [_enough(run.get(figure, []), figure) for run in runs]
            known = (
                _from("device", scatter_of(groups)),
                _from("sample", scatter_of([[logs for logs in sample if logs is not None]])),
            )
            scatters = [scatter for scatter in known if scatter is not None]
            self.of_device[figure] = max(scatters, key=Scatter.allowance, default=None)
        return self.of_device[figure]


def _from(source: ScatterSource, scatter: Scatter | None) -> Scatter | None:
    return None if scatter is None else replace(scatter, source=source)


def _logs(runs: Iterable[AttemptMeasurement], figure: Figure) -> list[Floats]:
    """Return the logarithms of the samples of each run that has enough of them."""
    samples = (_enough(samples_of(run, figure), figure) for run in runs)
    return [logs for logs in samples if logs is not None]


def _enough(samples_s: Sequence[float | None], figure: Figure) -> Floats | None:
    """Return the logarithms of the known samples of a run; None if they are too few."""
    logs = logarithms(np.array(samples_s, dtype=np.float64))
    logs = logs[~np.isnan(logs)]
    return logs if len(logs) >= _LEAST_SAMPLES[figure] else None


def samples_of(run: AttemptMeasurement, figure: Figure) -> Sequence[float | None]:
    """Return one sample of a figure for each pass of a run, s; None for an unreadable pass."""
    if figure == "latency":
        return clean_medians_s(run)
    samples: list[float | None] = run.device_totals_s if figure == "device" else run.host_totals_s
    return samples


def run_key(task: Task, files: Iterable[TaskFile]) -> RunKey:
    """Return the key of a task's runs; `files` are the task's."""
    settings = {"options": task.options, "inputs": task.inputs}
    contents = sorted((file.kind, file.input, file.option, file.md5) for file in files)
    return RunKey(
        task.runtime_version,
        json.dumps(task.plan, sort_keys=True),
        json.dumps([settings, task.script, task.seed], sort_keys=True),
        tuple(contents),
    )
