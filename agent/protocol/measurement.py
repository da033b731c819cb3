"""Schema of `measurement.json`: the raw measurements of an attempt and the state of its device."""

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.protocol.notes import Note
from agent.protocol.numbers import (
    LimitedCount,
    LimitedInteger,
    LimitedJson,
    LimitedMilliseconds,
    LimitedNumber,
)
from agent.protocol.plan import Plan

#: a pass is disturbed if its threads waited for a core for longer, summed, in percent of its
#: duration; the trials are in docs/decisions/judged-by-waiting.md
WAITED_PERCENT = 5.0
#: fewest undisturbed passes of a kind of which figures are computed; they must be over half of all
_LEAST_UNDISTURBED: Mapping[str, int] = {"clean": 2, "profiled": 3}


class _MeasurementModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Disturbance(_MeasurementModel):
    """A disturbance that may have slowed down a run or a pass; `details` are the observations."""

    code: str = Field(max_length=40)
    details: tuple[Note, ...] = Field(default=(), max_length=10)


class OtherLoad(_MeasurementModel):
    """Load of other processes during the run, mean and highest, in percent of one core.

    It explains disturbances, but is not one itself. `processes` are the busiest: `make (70 %)`.
    """

    percent: LimitedNumber
    most_percent: LimitedNumber
    processes: tuple[str, ...] = Field(default=(), max_length=5)


class PassRecord(_MeasurementModel):
    """One pass, i.e. one process. Times in milliseconds come from load_and_run's log, in order.

    `kept` is false for a pass that only determined the model's inputs, or the number of iterations
    that clean passes need. `host_ms` is null if the version does not print it. `profile` is the
    name of the artifact, empty if there is none. `start_s` is the run time outside warm-up and
    iterations (imports, loading, compilation, exit), null for a pre-started process, which had
    imported MegEngine before. A `script` pass has no iteration times; its `profile` is a trace.

    `waited_ms` is the time for which threads were ready to run and waited for a core, summed over
    all threads, within `watched_ms`: for a wheel, the iterations that determine the figure of the
    pass (the faster half of the timed iterations, or the last one, which the profile is of); for a
    compiled binary, the whole process. `whole_waited_ms` and `whole_ms` are the same of all timed
    iterations, null for a binary. All are null if the kernel does not count it. `switches` are
    involuntary context switches in all timed iterations. `disturbances` are the disturbances of
    this pass.

    `host_memory_bytes` is the peak of the resident memory of all processes of the pass, start-up
    included; shared pages count once per process. `memory_method`: `exit` if it was also read at
    the end of the processes, `samples` if only until the last sample. `gpu_memory_bytes` is the
    largest sample of NVML's values for these processes on all GPUs. Null if unknown.
    """

    number: LimitedCount
    kind: Literal["inspect", "clean", "profiled", "dump", "script"]
    kept: bool = True
    argv: tuple[str, ...] = ()
    started_at: LimitedNumber = 0.0
    run_s: LimitedNumber = 0.0
    start_s: LimitedNumber | None = None
    exit_code: LimitedInteger | None = None
    load_ms: LimitedMilliseconds | None = None
    prepare_ms: LimitedMilliseconds | None = None
    warmup_ms: tuple[LimitedMilliseconds, ...] = ()
    e2e_ms: tuple[LimitedMilliseconds, ...] = ()
    host_ms: tuple[LimitedMilliseconds | None, ...] = ()
    profile: str = ""
    waited_ms: LimitedMilliseconds | None = None
    watched_ms: LimitedMilliseconds | None = None
    whole_waited_ms: LimitedMilliseconds | None = None
    whole_ms: LimitedMilliseconds | None = None
    switches: LimitedInteger | None = None
    host_memory_bytes: LimitedInteger | None = None
    memory_method: str = Field(default="", max_length=20)
    gpu_memory_bytes: LimitedInteger | None = None
    disturbances: tuple[Disturbance, ...] = Field(default=(), max_length=10)


class CanaryReading(_MeasurementModel):
    """Times of the device's canary: a matrix product, a copy, and a series of small operators.

    `share` is the speed as a share of the device's usual one, None as long as that is not known.
    """

    gemm_ms: LimitedMilliseconds
    copy_ms: LimitedMilliseconds
    small_ms: LimitedMilliseconds
    share: LimitedNumber | None = None


class Canary(_MeasurementModel):
    """The readings before and after the passes of an attempt (`agent.device.canary`).

    `low` and `high` are the band of 99 % of the device's shares before the attempt. `waited_s` is
    the pause after a first reading outside of it. `repeated`: the device was outside of it after
    the passes, so they were run again; the records and `after` are those of the repetition, unless
    it failed or ended early.
    """

    before: CanaryReading
    after: CanaryReading | None = None
    low: LimitedNumber | None = None
    high: LimitedNumber | None = None
    waited_s: LimitedNumber = 0.0
    repeated: bool = False


class Measurement(_MeasurementModel):
    """The root object of `measurement.json`.

    `device` contains snapshots of the device: `before`, `during` (a list, taken while nothing is
    timed) and `after`. `disturbances` are disturbances of the whole run; each pass has its own.
    """

    format: Literal[1] = 1
    plan: Plan
    passes: tuple[PassRecord, ...] = Field(default=(), max_length=200)
    gate: LimitedJson = Field(default_factory=dict)
    device: LimitedJson = Field(default_factory=dict)
    disturbances: tuple[Disturbance, ...] = Field(default=(), max_length=50)
    other_load: OtherLoad | None = None
    canary: Canary | None = None
    notes: tuple[Note, ...] = Field(default=(), max_length=50)


def used_records(passes: Iterable[PassRecord]) -> list[PassRecord]:
    """Return the kept passes of which figures are computed, in their order.

    Disturbed clean and profiled passes are excluded if enough passes of their kind are undisturbed.
    """
    kept = [record for record in passes if record.kept]
    used = []
    for record in kept:
        least = _LEAST_UNDISTURBED.get(record.kind)
        of_kind = [other for other in kept if other.kind == record.kind]
        calm = sum(not other.disturbances for other in of_kind)
        if least is None or not record.disturbances or calm < least or 2 * calm <= len(of_kind):
            used.append(record)
    return used
