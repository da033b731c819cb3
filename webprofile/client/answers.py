"""Types of the objects that `Site` returns.

They are decoded responses of the API, whose `/api/v1/docs/` explains every field; these types name
the fields that most programs need, and more are present. Units are in the names: `_s` seconds,
`_ms` milliseconds, `_bytes` bytes, `_percent` percent. A share is a ratio from 0 to 1, and a change
is (time - baseline) / baseline. None is an unknown value.
"""

from typing import Any, Literal, NotRequired, TypedDict

from webprofile.client.batchfile.paired import GateResult

SideName = Literal["device", "host"]
TotalName = Literal["device", "host", "latency"]


class Runtime(TypedDict):
    """A MegEngine version of a device; `problem` is empty if it can be used."""

    version: str
    problem: str


class Device(TypedDict):
    """A device; `condition` is for example `online`, `offline` or `busy`."""

    id: int
    name: str
    condition: str
    is_online: bool
    labels: dict[str, str]
    runtimes: list[Runtime]


class Preset(TypedDict):
    """A preset of options of load_and_run."""

    id: int
    name: str
    options: dict[str, Any]


class ShareLink(TypedDict):
    """A new link to a result. Only this answer has its address, `url`."""

    id: int
    url: str
    parts: list[str]
    expires_at: str


class Reason(TypedDict):
    """Why a task failed or was cancelled; `code` is stable, the texts are in the user's language.

    code, next_step: absent for a task that was deleted
    """

    code: NotRequired[str]
    title: str
    next_step: NotRequired[str]


class Task(TypedDict):
    """A task.

    status: `initiated`, `waiting`, `running`, `succeeded`, `failed` or `cancelled`; `unknown` if
        it was deleted while `Site.wait` waited: then it has only `id`, `status` and `reason`
    created_at, finished_at: ISO 8601 in UTC
    options, plan, script, pairing, files, attempts: not in lists of tasks; `script` is None for a
        model, `pairing` for a task that is not a paired comparison
    """

    id: int
    status: str
    reason: Reason | None
    title: str
    detail: str
    model_name: str
    worker_name: str
    runtime_version: str
    created_at: str
    finished_at: str | None
    options: NotRequired[dict[str, Any]]
    plan: NotRequired[dict[str, Any]]
    script: NotRequired[dict[str, Any] | None]
    pairing: NotRequired[dict[str, Any] | None]
    files: NotRequired[list[dict[str, Any]]]
    attempts: NotRequired[list[dict[str, Any]]]


class Planned(TypedDict):
    """A task that a submission would create; `number` begins with 1."""

    number: int
    model: str
    worker: str
    version: str
    option_set: str
    repeat: int
    plan: str


class Check(TypedDict):
    """Whether the result of `task` still holds.

    verdict: `none` if the result still holds, i.e. the latencies differ like those of equal runs;
        `slower` or `faster` if it no longer holds; other values if the evidence is insufficient
    """

    task: int
    verdict: str
    text: str


class Latency(TypedDict):
    """Times of the iterations without the profiler."""

    iterations: int
    median_ms: float | None
    mean_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    min_ms: float | None
    max_ms: float | None
    latency_notes: list[str]
    passes: list[dict[str, Any]]
    disturbances: list[dict[str, Any]]
    disturbed_text: str
    disturbance_notes: list[str]
    check: NotRequired[Check | None]


class Side(TypedDict):
    """Sum of the operators' times on one side, with its range over the profiled passes."""

    side: SideName
    total_s: float | None
    passes_s: list[float | None]
    lowest_s: float | None
    highest_s: float | None


class Statistics(TypedDict):
    """The totals of a result over its `passes` profiled passes."""

    passes: int
    sides: list[Side]
    latency: Latency | None


class Operator(TypedDict):
    """A row of the table of operators.

    self_s: time on the side of the table
    cumulative_share: share of this row and those above it
    """

    name: str | None
    type: str | None
    self_s: float | None
    share: float | None
    cumulative_share: float | None


class Group(TypedDict):
    """The sum of all operators of a type."""

    type: str
    operators: int
    time_s: float | None
    share: float | None


class OperatorTable(TypedDict):
    """The slowest operators or, by type, groups; the other list is empty.

    total: rows of the whole table
    said: the number of rows in words
    """

    side: SideName
    total: int
    totals: dict[str, float | None]
    said: str
    operators: list[Operator]
    groups: list[Group]


class Compared(TypedDict):
    """A total of one result, compared with the baseline.

    change_low, change_high: 95 % confidence interval of `change`
    equal_runs_differ_by: ratio up to which equal runs of the device differ
    verdict: `faster`, `slower`, or the cause of insufficient evidence; `none` if equal runs differ
        as much
    """

    letter: str
    time_s: float | None
    difference_s: float | None
    change: float | None
    change_low: float | None
    change_high: float | None
    equal_runs_differ_by: float | None
    equal_runs_are: str | None
    verdict: str
    verdict_text: str
    verdict_advice: str


class Total(TypedDict):
    """A total of all results; `latency` is the median time of an iteration."""

    key: TotalName
    baseline_s: float | None
    others: list[Compared]


class Comparison(TypedDict):
    """A comparison of results, the first of which is the baseline.

    total: rows of the whole comparison; `rows` starts with those that changed most
    """

    side: SideName
    profiles: list[dict[str, Any]]
    warnings: list[str]
    totals: list[Total]
    total: int
    rows: list[dict[str, Any]]


class PairedOutput(TypedDict):
    """How an output of an arm differs from that of the baseline; `text` is the same in words."""

    name: str
    max_abs: float | None
    max_rel: float | None
    cosine: float | None
    sqnr_db: float | None
    differs: bool
    text: str


class PairedArm(TypedDict):
    """An arm of a paired comparison; A is the baseline, which has no `outputs`."""

    letter: str
    model: str
    version: str
    options: dict[str, Any]
    usual_ms: float | None
    iterations: int
    outputs: list[PairedOutput]


class PairedVerdict(TypedDict):
    """The verdict on an arm; `sentence` is the same in words.

    effect, low, high: change against the baseline and its 95 % confidence interval
    smallest: the smallest effect that this number of pairs could have shown
    more_s: estimated further measuring time until a verdict, s
    """

    letter: str
    verdict: Literal["faster", "slower", "same", "not_enough"]
    effect: float | None
    low: float | None
    high: float | None
    smallest: float | None
    more_s: float | None
    pairs: int
    sentence: str


class PairedOperator(TypedDict):
    """An operator of an arm, or a group of fused ones, compared with the baseline.

    effect, low, high, q: change, its 95 % interval, and false discovery rate; None for an operator
        that an arm lacks
    """

    name: str
    type: str
    status: str
    rows: list[int]
    base_us: float | None
    other_us: float | None
    delta_us: float
    effect: float | None
    low: float | None
    high: float | None
    q: float | None
    differs: bool


class PairedOperators(TypedDict):
    """The operators of an arm.

    named: those that make it slower or faster
    share: share of the difference that they explain
    """

    letter: str
    pairs: int
    tested: int
    named: list[PairedOperator]
    share: float | None
    operators: list[PairedOperator]


class Pair(TypedDict):
    """One pair of processes; `changes` has one value for each arm except the baseline.

    disturbances: a pair with a disturbance does not count
    """

    changes: list[float | None]
    disturbances: list[dict[str, str]]


class Pairs(TypedDict):
    """The result of a paired comparison.

    verdicts: one for each arm except the baseline
    differing: letters of the arms whose outputs differ from those of the baseline
    operators: one for each arm except the baseline; empty if they could not be profiled
    pairs_to_verdict: number of pairs, from the first, until the verdicts; later ones are only for
        the operators
    seed: seed of the random order of turns
    """

    arms: list[PairedArm]
    verdicts: list[PairedVerdict]
    differing: list[str]
    operators: list[PairedOperators]
    pairs: list[Pair]
    pairs_to_verdict: int
    seed: int
    measuring_s: float


class Judged(TypedDict):
    """The judgement of one task; see `Compared`.

    paired: the verdict of the paired run, which decides the result; None without one
    """

    task: int
    letter: str
    time_s: float | None
    difference_s: float | None
    change_percent: float | None
    low_percent: float | None
    high_percent: float | None
    equal_runs_differ_by_percent: float | None
    equal_runs_are: str | None
    verdict: str
    verdict_text: str
    verdict_advice: str
    paired: PairedVerdict | None
    result: GateResult


class Gate(TypedDict):
    """Whether tasks are slower than the baseline by more than `limit_percent`.

    number: the total that is judged; `meaning` and `unit` describe it
    limit_percent: None if any slower task fails
    paired_task: the task that measured them in pairs; None if they were not
    result: the most severe of `others`
    """

    number: TotalName
    meaning: str
    unit: str
    limit_percent: float | None
    paired_task: int | None
    baseline_task: int
    baseline_s: float | None
    others: list[Judged]
    result: GateResult


class Artifact(TypedDict):
    """A file that an attempt left; `is_stored` is False if it was removed since."""

    name: str
    attempt: int
    size_bytes: int
    md5: str
    is_stored: bool
