"""Factories of small profiles, measurements and attempts, and shared helpers."""

import dataclasses
import datetime
import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from django.core.management import call_command
from django.utils import timezone

from accounts.models import User
from agent.protocol.artifacts import arm_profile_name
from agent.protocol.measurement import Disturbance, Measurement, PassRecord
from agent.protocol.messages import Script
from agent.protocol.pairs import (
    OPERATORS_NAME,
    ArmOperators,
    ArmRecord,
    ArmVerdict,
    OperatorTimes,
    OutputDifference,
    PairedMeasurement,
    Pairing,
    PairRecord,
    Turn,
)
from agent.protocol.plan import Plan
from profiles.analysis.select import Query
from profiles.analysis.text import PrintOptions, report
from profiles.formats.columns import ProfileColumns
from profiles.models import AttemptMeasurement, Profile, RemovedObjects
from profiles.retention.deletion import sweep_removed_files
from profiles.services import build_attempt_profile
from profiles.tests.pages import ended_attempt, store_artifacts
from tasks.lifecycle.transitions import transition_if
from tasks.models import Attempt, Task, TaskFile
from tasks.states import Outcome, TaskState
from tasks.submission.pairing import PLAN
from tasks.submission.request import ArmRequest, PairingRequest
from tasks.tests.make import (
    data_file,
    finished_report,
    make_attempt,
    make_user,
    make_waiting_task,
    model_file,
    receive_report,
)
from tasks.tests.scripts import make_script_worker, program_file
from webprofile.storage import storage as object_store
from workers.models import HealthCheck, Worker

NODE = 'CompNode("cpu0:0" from "xpux:0")'


def profile_text(columns: ProfileColumns, top: int = 3, show_host: bool = False) -> str:
    """Return the output of `profile_analyze -t TOP [--show-host]`."""
    return report(columns, Query(), PrintOptions(top=top, show_host=show_host))


def make_profile(
    device: dict[str, Any],
    *,
    host: dict[str, Any] | None = None,
    footprint: dict[str, Any] | None = None,
    names: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return a profile whose operators are the keys of `device`.

    `device` and `host` map an operator's id to its self time in seconds or to times by comp node.
    """
    names = names or {}
    return {
        "profiler": {
            "device": {key: _nodes(value) for key, value in device.items()},
            "host": {key: _nodes(value) for key, value in (host or {}).items()},
            "opr_footprint": footprint or {},
        },
        "graph_exec": {
            "operator": {
                key: {
                    "name": names.get(key, f"op{key}"),
                    "type": "Elemwise",
                    "id": key,
                    "input": ["v"],
                    "output": ["v"],
                }
                for key in device
            },
            "var": {"v": {"mem_plan": {"layout": {"dtype": "Float32"}}}},
        },
    }


def to_json(profile: dict[str, Any]) -> bytes:
    """Return the profile as the bytes of a file."""
    return json.dumps(profile).encode()


def _nodes(value: Any) -> Any:
    if isinstance(value, float):
        return {NODE: {"start": 0.0, "kern": value, "end": value}}
    return value


#: ten iterations of 9.167 ms on average
LOG = "".join(
    f"[20 22:51:34 @:88] iter {number}/10: e2e={e2e_ms} ms (host=0.224 ms)\n"
    for number, e2e_ms in enumerate([9] * 9 + [10.67])
)


def finished_attempt(profile: bytes | None, log: str = LOG, owner=None) -> Attempt:
    """Return an attempt of a task in state processing whose files are in storage."""
    files = {} if profile is None else {"profile.json": profile}
    return ended_attempt(files | {"log.txt": log.encode()}, owner)


CLEAN = PassRecord(number=1, kind="clean", e2e_ms=(10.0, 12.0, 11.0), run_s=2.0, start_s=0.5,
                   load_ms=25.0, exit_code=0)  # fmt: skip


def profiled_pass(number: int, *times: float, profile: str = "") -> PassRecord:
    return PassRecord(
        number=number, kind="profiled", e2e_ms=times, run_s=1.0, exit_code=0, profile=profile
    )


def measurement_json(*passes: PassRecord, plan: Plan, **more) -> bytes:
    return Measurement(plan=plan, passes=passes, **more).model_dump_json().encode()


#: verdicts on arms against the baseline
FASTER = ArmVerdict(
    arm=1, verdict="faster", effect=-0.10, low=-0.12, high=-0.08, smallest=0.02, pairs=2
)
SLOWER = ArmVerdict(
    arm=1, verdict="slower", effect=0.10, low=0.08, high=0.12, smallest=0.02, pairs=2
)
SAME = ArmVerdict(
    arm=1, verdict="same", effect=0.001, low=-0.004, high=0.006, smallest=0.008, pairs=2
)
UNDECIDED = ArmVerdict(
    arm=1, verdict="not_enough", effect=0.02, low=-0.01, high=0.05, more_s=38, pairs=2
)


def make_pairing(*arms: ArmRequest, **limits: Any) -> PairingRequest:
    return PairingRequest(Pairing(**limits), arms or (ArmRequest(options={"fast_run": True}),))


def make_paired_task(*verdicts: ArmVerdict, owner: User | None = None, **more: Any) -> Task:
    """Return a succeeded paired comparison; see `finish_in_pairs`."""
    pairing = make_pairing(*[ArmRequest(options={"fast_run": True})] * len(verdicts))
    task = make_waiting_task(owner or make_user(), pairing=pairing)
    return finish_in_pairs(task, *verdicts, **more)


def operator_files(*arms: Mapping[str, float]) -> dict[str, bytes]:
    """Return the profile of each arm, and the times of its operators in 20 pairs.

    arms: the time of each operator in µs by its id; they scatter by 1 %, always in the same way
    """
    scatter = np.random.default_rng(7)
    rows = [
        scatter.normal(
            list(times.values()), 0.01 * np.array(list(times.values())), (20, len(times))
        )
        for times in arms
    ]
    times_of_all = OperatorTimes(
        pairs=tuple(range(20)),
        arms=tuple(
            ArmOperators(ids=tuple(times), us=tuple(map(tuple, us.round(2).tolist())))
            for times, us in zip(arms, rows, strict=True)
        ),
    )
    profiles = {
        arm_profile_name(arm): to_json(make_profile({key: us / 1e6 for key, us in times.items()}))
        for arm, times in enumerate(arms)
    }
    return {OPERATORS_NAME: times_of_all.model_dump_json().encode(), **profiles}


def finish_in_pairs(
    task: Task,
    *verdicts: ArmVerdict,
    cosine: float = 1.0,
    operators: Mapping[str, bytes] | None = None,
) -> Task:
    """End a waiting paired comparison with these verdicts and two pairs, one of them disturbed.

    cosine: similarity of the outputs of each arm to those of the baseline
    operators: files as of `operator_files`
    """
    output = OutputDifference(name="out", max_abs=0.5, max_rel=0.1, cosine=cosine, sqnr_db=30.0)
    baseline = ArmRecord(runtime="1.13.0", iterations=5, usual_ms=10.0)
    arms = [baseline, *[baseline.model_copy(update={"outputs": (output,)})] * len(verdicts)]
    turns = [Turn(arm=number, ms=10.0 * (1 + number / 10)) for number in range(len(arms))]
    pair = PairRecord(turns=tuple(turns + turns[::-1]))
    disturbed = pair.model_copy(update={"disturbances": (Disturbance(code="waited"),)})
    paired = PairedMeasurement(
        pairing=Pairing.model_validate(task.pairing),
        seed=7,
        arms=tuple(arms),
        pairs=(pair, disturbed),
        verdicts=tuple(
            verdict.model_copy(update={"arm": number})
            for number, verdict in enumerate(verdicts, start=1)
        ),
        measuring_s=12.5,
    )
    files = {
        "paired.json": paired.model_dump_json().encode(),
        "measurement.json": measurement_json(CLEAN, plan=PLAN),
        **(operators or {}),
    }
    attempt = make_attempt(task)
    store_artifacts(attempt, files)
    receive_report(attempt, finished_report(attempt))
    return process_attempt(attempt)


def profile_json(seconds: float) -> bytes:
    return to_json(make_profile({"0": seconds}))


STANDARD = Plan(preset="standard", clean=True, profiled=3)

CLEAN_ONLY = Plan(preset="custom", clean=True, profiled=0)


def assert_same(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if dataclasses.is_dataclass(left):
        for field in dataclasses.fields(left):
            assert_same(getattr(left, field.name), getattr(right, field.name))
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert left.tobytes() == right.tobytes()
    else:
        assert left == right


OUTPUT = b"step 0\nstep 1\nwarning: [20 22:51:34 @:88] iter 0/10: e2e=7.697 ms\n"


#: names of the files that a script may write
TIMELINE, MEMORY = "chrome_timeline.json", "memory_flow.svg"


def make_script_attempt(files: dict[str, bytes], owner=None, **task_fields) -> Attempt:
    """Return an attempt of a script that wrote these files and its output and exited with 0."""
    formats = tuple(name for name in (TIMELINE, MEMORY) if name in files) or (TIMELINE,)
    task_fields = {
        "worker": make_script_worker(),
        "script": Script(arguments=("--steps", "2"), formats=formats),
        "files": [program_file()],
    } | task_fields
    attempt = ended_attempt(files | {"log.txt": OUTPUT}, owner or make_user(), **task_fields)
    attempt.task.refresh_from_db()
    return attempt


def process_attempt(attempt: Attempt) -> Task:
    """Build the profile of an attempt and return its task in the new state."""
    build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    return attempt.task


def make_script_profile(files: dict[str, bytes], owner=None) -> Profile:
    attempt = make_script_attempt(files, owner)
    task = process_attempt(attempt)
    assert (task.status, task.reason) == ("succeeded", "")
    return Profile.objects.get(attempt=attempt)


def verify(*arguments: str) -> list[tuple[str, str]]:
    """Run `manage.py verify`, check its exit code, and return (promise, what) of each violation."""
    out = io.StringIO()
    try:
        call_command("verify", "--json", "--grace-hours", "0", *arguments, stdout=out)
        code = 0
    except SystemExit as end:
        code = end.code
    report = json.loads(out.getvalue())
    assert (code == 0) is report["holds"] is (report["broken"] == [])
    return [(breach["promise"], breach["what"]) for breach in report["broken"]]


def remove_expired_objects() -> None:
    """Remove scheduled objects as if all presigned URLs had expired."""
    RemovedObjects.objects.update(due_at=timezone.now())
    sweep_removed_files()


def put_files(task: Task) -> None:
    """Write an object for each file of a task and note its size and MD5 in the row."""
    for file in task.files.all():
        content = f"file {file.pk}".encode()
        object_store.write(file.object_key, content)
        md5 = hashlib.md5(content).hexdigest()
        TaskFile.objects.filter(pk=file.pk).update(size_bytes=len(content), md5=md5)


def make_measured_task(
    owner: User | None = None,
    worker: Worker | None = None,
    *,
    name: str = "net.mge",
    device_s: float | None = 0.01,
    median_ms: float | None = 12.0,
    **measured: Any,
) -> Task:
    """Return a task that succeeded with these figures, of which storage has no files.

    measured: fields of `AttemptMeasurement`
    """
    task = make_waiting_task(owner, worker, files=[model_file(name=name), data_file()])
    attempt = make_attempt(task)
    now = timezone.now()
    Attempt.objects.filter(pk=attempt.pk).update(
        started_at=now - datetime.timedelta(seconds=65), ended_at=now
    )
    Profile.objects.create(attempt=attempt, operators=3, device_total_s=device_s)
    AttemptMeasurement.objects.create(attempt=attempt, median_ms=median_ms, **measured)
    transition_if(task, TaskState.FINISHED, set(TaskState), outcome=Outcome.SUCCEEDED)
    task.refresh_from_db()
    return task


def finish_measured(task: Task, median_ms: float) -> None:
    """Let a task succeed with one clean pass, and a profiled one if its plan has any."""
    attempt, plan = make_attempt(task), Plan.model_validate(task.plan)
    passes = [CLEAN.model_copy(update={"e2e_ms": (median_ms,) * 20})]
    files = {"log.txt": LOG.encode()}
    if plan.profiled:
        passes.append(profiled_pass(2, median_ms, profile="profile.json"))
        files["profile.json"] = profile_json(0.01)
    files["measurement.json"] = measurement_json(*passes, plan=plan)
    store_artifacts(attempt, files)
    receive_report(attempt, finished_report(attempt))
    build_attempt_profile(attempt)
    task.refresh_from_db()
    assert task.outcome == Outcome.SUCCEEDED


def make_scatter(worker: Worker) -> None:
    """Have equal runs of a device differ by about 1 %."""
    for number in range(6):
        HealthCheck.objects.create(
            worker=worker,
            cause=HealthCheck.Cause.SCATTER,
            result=HealthCheck.Result.PASSED,
            samples={"latency": [0.01 + 0.0001 * (number % 2)]},
        )
