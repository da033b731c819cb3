"""The messages of the agent's socket, one class per message.

Agent messages state facts (past tense), server messages give orders (imperative). Sizes are in
bytes, points in time in seconds since the epoch (UTC), durations in seconds. A frame is one JSON
object in UTF-8. A frame of an agent has at most `MAX_FRAME_BYTES` bytes, whatever characters its
texts contain (`agent.link.outbox` enforces it). A frame of the server may be larger, because a
Start contains up to 65 URLs and the arguments of a script; `agent.link.session` sets the limit for
frames that an agent reads.
"""

from enum import IntEnum, StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from pydantic.types import UUID4

from agent.protocol.notes import Note
from agent.protocol.numbers import Integer, LimitedMilliseconds, Moment, Number, Seconds, Size
from agent.protocol.pairs import MOST_ARMS, ArmVerdict, Pairing
from agent.protocol.plan import MOST_CLEAN, Plan

PROTOCOL_VERSION = 1
#: largest frame that an agent may send
MAX_FRAME_BYTES = 64 * 1024
#: most files in one `attempt.uploads`: their presigned URLs must fit into a frame
MAX_FILES = 16
#: most attempts that an agent reports to hold
MAX_RUNNING = 100
#: most passes of one attempt: those that a plan can have, and one for dumps
MOST_PASSES = 1000
#: most operators that are sent before the profile, and the largest frame with them in bytes
MOST_SLOWEST = 50
SLOWEST_FRAME_BYTES = 4_000
#: `Hello.features`: the agent can end a run early and keep its result (`Enough`)
FEATURE_ENOUGH = "enough"
#: `Hello.features`: the device's owner allows scripts, and the agent has a sandbox for them
FEATURE_SCRIPTS = "scripts"


class CloseCode(IntEnum):
    """Why the server closed the socket."""

    BAD_FRAME = 4400
    UNKNOWN_TOKEN = 4401
    REVOKED_TOKEN = 4403
    REPLACED = 4409
    TOO_OLD = 4426
    TOO_MUCH = 4429


#: `AttemptFinished.cause`: a file has another MD5 than announced, also when downloaded again
CAUSE_DIGEST = "digest_differs"
#: most characters of the log in an `attempt.finished`
LOG_END_CHARACTERS = 4000


class EndReason(StrEnum):
    """Why an attempt ended, as the agent observed it; the server maps it to a user message."""

    EXITED = "exited"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    REFUSED = "refused"
    DOWNLOAD_FAILED = "download_failed"
    UPLOAD_FAILED = "upload_failed"
    NO_RUNTIME = "no_runtime"
    NO_PROFILE = "no_profile"
    AGENT_RESTARTED = "agent_restarted"
    AGENT_ERROR = "agent_error"
    INPUT_WRONG = "input_wrong"
    SILENT = "silent"
    OUTPUT_TOO_LARGE = "output_too_large"
    LOG_TOO_LONG = "log_too_long"
    TOO_MANY_PROCESSES = "too_many_processes"
    OUT_OF_MEMORY = "out_of_memory"
    NOTHING_TIMED = "nothing_timed"
    NO_SANDBOX = "no_sandbox"
    FILE_MISSING = "file_missing"
    #: by a signal that neither the agent nor the kernel's out-of-memory killer sent
    KILLED = "killed"


# -- parts of messages --------------------------------------------------------------------------

#: hexadecimal MD5, which object storage can verify (Content-MD5, ETag); detects corruption only
Md5 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
#: an `Md5`, or the checksum of a multipart upload (`agent.protocol.multipart`)
PartedMd5 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}(-[1-9][0-9]{0,4})?$")]
#: hexadecimal SHA-256 of a file's content, used by the agent's cache and the manifest
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
#: labels that the device's owner sets (name -> value); a task's target may select devices by them
Labels = dict[
    Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")],
    Annotated[str, Field(min_length=1, max_length=100)],
]
MAX_LABELS = 32
#: most cores that an agent lists
MAX_CORES = 4096
#: W3C trace context, or empty (https://www.w3.org/TR/trace-context/#traceparent-header)
TraceParent = Annotated[str, Field(pattern=r"^(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})?$")]
MAX_PHASES = 64
MAX_RECEIVED = 128
#: most notes in `AttemptFinished`
MAX_NOTES = 20
#: untrusted text from programs and files; NUL is replaced because PostgreSQL cannot store it
Text = Annotated[str, AfterValidator(lambda text: text.replace("\x00", "\ufffd"))]
#: name of a file in the attempt's folder: no path, and no separator of load_and_run's `--input`
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class Frozen(BaseModel):
    """Base of all messages: immutable, and unknown fields are dropped so that peers may add some.

    NaN and infinity are rejected because JSON cannot represent them.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Gpu(Frozen):
    name: str = Field(max_length=200)
    memory_bytes: Size | None = None
    driver: str = Field(default="", max_length=100)


class Facts(Frozen):
    """Hardware and system of the device, read once when the agent starts; and its labels.

    `run_cores` are the numbers of the cores that runs may use; empty if they are unknown, or too
    many for a frame.
    """

    hostname: str = Field(max_length=255)
    ip: str = Field(default="", max_length=45)
    platform: str = Field(max_length=200)
    machine: str = Field(max_length=40)
    cpu_model: str = Field(default="", max_length=200)
    cores: int = Field(ge=1, le=1_000_000)
    run_cores: tuple[Size, ...] = Field(default=(), max_length=MAX_CORES)
    memory_bytes: Size
    gpus: tuple[Gpu, ...] = Field(default=(), max_length=64)
    labels: Labels = Field(default_factory=dict, max_length=MAX_LABELS)


#: FLOP/s or bytes/s; the limit is far above any device and fits into JSON and database columns
_Speed = Annotated[float, Field(gt=0, le=1e21, allow_inf_nan=False)]


class MeasuredRoofs(Frozen):
    """Peak performance of a device with a runtime, measured by `agent runtime check`.

    `peak_flops`: FLOP/s per dtype, named as in profiles (`Float32`); a multiply-add counts as 2.
    `copy_bytes_s`: bytes read plus bytes written per second. `measured_at`: seconds since the
    epoch.
    """

    device: Annotated[str, Field(min_length=1, max_length=20)]
    peak_flops: dict[Annotated[str, Field(max_length=40)], _Speed] = Field(
        default_factory=dict, max_length=16
    )
    copy_bytes_s: _Speed
    measured_at: Moment


class RuntimeInfo(Frozen):
    """One MegEngine version on the device. `problem` is None if the runtime is usable.

    `flags`: the options that its load_and_run supports, for a wheel those of the agent's table; the
        server refuses others at the submission. Empty if they are unknown.
    `builds`: parts that it was built with (cuda, tensorrt, fast_run, json, jit, c_opr); cuda and
        tensorrt only if the device has a GPU.
    `libraries`: names of the C operator libraries that the device's owner configured. `roofs`: the
    peak performance of each device kind (CPU, GPU) that was measured.
    """

    version: str = Field(min_length=1, max_length=40)
    kind: Literal["wheel", "binary"]
    python: str = Field(default="", max_length=40)
    problem: Note | None = None
    flags: tuple[Annotated[str, Field(max_length=60)], ...] = Field(default=(), max_length=200)
    builds: tuple[Annotated[str, Field(max_length=40)], ...] = Field(default=(), max_length=20)
    libraries: tuple[Annotated[str, Field(max_length=40)], ...] = Field(default=(), max_length=50)
    roofs: tuple[MeasuredRoofs, ...] = Field(default=(), max_length=4)


class InputFile(Frozen):
    """A file to download before the run. `input` is the variable it feeds, empty for the model.

    `option` is the option that the file belongs to (a cache), empty for model and data. `sha256` is
    the digest that an agent reported for this object before; it allows the agent to use its cache.
    `part_bytes` is the part size that `md5` was computed with, 0 for an MD5 of the whole file.
    """

    name: FileName
    input: str = Field(default="", max_length=300)
    option: str = Field(default="", max_length=60)
    sha256: Sha256 | None = None
    url: str = Field(max_length=4000)
    size_bytes: Size
    md5: PartedMd5
    part_bytes: Size = 0


class GivenInput(Frozen):
    """An input variable without a file: literal numbers in load_and_run's syntax, or random ones.

    The values are random if `literal` is empty. `shape` None and an empty `dtype` stand for the
    shape and dtype of the model's input.
    """

    name: str = Field(min_length=1, max_length=300)
    literal: str = Field(default="", max_length=20_000)
    shape: tuple[Annotated[int, Field(ge=1, le=2**31 - 1)], ...] | None = Field(
        default=None, min_length=1, max_length=7
    )
    dtype: str = Field(default="", max_length=20)


class StoredFile(Frozen):
    """The SHA-256 that the agent computed for a downloaded file of the order.

    `arm` is the arm of a paired comparison that the file was downloaded for; 0 is the baseline.
    """

    name: FileName
    sha256: Sha256
    arm: int = Field(default=0, ge=0, lt=MOST_ARMS)


class FileOffer(Frozen):
    """A file that the agent wants to upload."""

    name: FileName
    size_bytes: Size
    md5: Md5


class Phase(Frozen):
    """A named time span of an attempt, by the device's clock; the server turns it into a span."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_ ]{0,39}$")
    started_at: Moment
    ended_at: Moment


#: a duration in microseconds, at most 31 years
Microseconds = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]


class SlowestOperators(Frozen):
    """The slowest operators of the first profiled pass, slowest first.

    `rows`: name, position of the type in `types`, and self time on the device in microseconds, as
    in the table of the result. Long names are cut in the middle. `operators` is the number of all
    operators with a time on the device, and `total_us` the sum of their times.
    """

    operators: int = Field(ge=1, le=2**31 - 1)
    total_us: Microseconds
    types: tuple[Annotated[Text, Field(max_length=100)], ...] = Field(max_length=MOST_SLOWEST)
    rows: tuple[
        tuple[
            Annotated[Text, Field(max_length=300)],
            Annotated[int, Field(ge=0, lt=MOST_SLOWEST)],
            Microseconds,
        ],
        ...,
    ] = Field(min_length=1, max_length=MOST_SLOWEST)

    @model_validator(mode="after")
    def _fits_together(self) -> "SlowestOperators":
        if any(place >= len(self.types) for _, place, _ in self.rows):
            raise ValueError("rows: a type is missing")
        if self.operators < len(self.rows):
            raise ValueError("operators: fewer than rows")
        return self


class LatencySoFar(Frozen):
    """The latency of the clean passes so far.

    `passes` of them have ended, `used` of which count (the others were disturbed). `median_ms` is
    the median of their iterations, `low_ms` and `high_ms` its 95 % interval; None if they are
    too few. `goes_on`: another clean pass follows.
    """

    passes: int = Field(ge=1, le=MOST_CLEAN)
    used: int = Field(ge=1, le=MOST_CLEAN)
    median_ms: LimitedMilliseconds
    low_ms: LimitedMilliseconds | None = None
    high_ms: LimitedMilliseconds | None = None
    goes_on: bool = False


class UploadTarget(Frozen):
    """The presigned URL for the PUT of one offered file.

    `refused` is the reason why the file must not be uploaded. An empty `url` without a `refused`
    means that the file is already stored.
    """

    name: FileName
    url: str = Field(max_length=4000)
    headers: dict[str, str] = Field(default_factory=dict)
    refused: Note | None = None


#: output formats of MegEngine's Profiler, and the names of the artifacts
TraceFormat = Literal["chrome_timeline.json", "memory_flow.svg"]
MAX_ARGUMENTS = 64
#: no control characters except tab and newline (browsers send CR and LF): command lines do not
#: need them, and each takes six bytes in a frame
Argument = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$")]
#: path of a program inside its zip: plain names only, so that it cannot leave the folder
EntryPath = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_. -]{0,99}/){0,10}[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}\.py$"
    ),
]


class Script(Frozen):
    """How a script is run. `entry` is the program's path inside a zip, None for a single `.py`.

    `formats`: the traces to record, each in a separate run, because MegEngine 1.13 crashes if one
    Profiler writes two formats. `sample_rate`: memory usage is sampled every `sample_rate`
    operators, 0 for never. `profile_device`: whether device times are recorded as well.
    `time_limit_s`: the user's limit for all runs together, 0 for the site's limit; the order's
    `timeout_s` already includes it.
    """

    entry: EntryPath | None = None
    arguments: tuple[Argument, ...] = Field(default=(), max_length=MAX_ARGUMENTS)
    formats: tuple[TraceFormat, ...] = Field(
        default=("chrome_timeline.json",), min_length=1, max_length=2
    )
    sample_rate: int = Field(default=0, ge=0, le=1_000_000)
    profile_device: bool = True
    time_limit_s: int = Field(default=0, ge=0, le=2**31 - 1)

    @model_validator(mode="after")
    def _each_once(self) -> "Script":
        if len(set(self.formats)) != len(self.formats):
            raise ValueError("formats: each at most once")
        return self


# -- agent to server ----------------------------------------------------------------------------


class Hello(Frozen):
    """First frame of a connection: the agent's version and features, and the attempts it holds."""

    type: Literal["hello"] = "hello"
    protocol: Size = PROTOCOL_VERSION
    agent_version: str = Field(max_length=32)
    features: frozenset[Annotated[str, Field(max_length=40)]] = Field(
        default=frozenset(), max_length=50
    )
    facts: Facts
    runtimes: tuple[RuntimeInfo, ...] = Field(default=(), max_length=50)
    running: frozenset[UUID4] = Field(default=frozenset(), max_length=MAX_RUNNING)


class Heartbeat(Frozen):
    """Report that the agent is alive, and renew the leases of the attempts it holds."""

    type: Literal["heartbeat"] = "heartbeat"
    sent_at: Moment
    running: frozenset[UUID4] = Field(default=frozenset(), max_length=MAX_RUNNING)


class AttemptAccepted(Frozen):
    """The agent has stored the order on disk. Sent repeatedly until acknowledged."""

    type: Literal["attempt.accepted"] = "attempt.accepted"
    attempt: UUID4


class AttemptStarted(Frozen):
    """The load_and_run process is running; `download_s` is the time that the downloads took.

    It is sent again after each pass, with the number of passes that have succeeded in `passes_done`
    and without `command`. Passes that only inspect the model, and clean ones that were too short,
    are not counted. If all passes are run again, `passes` and `passes_done` include those of the
    first time. After the first profiled pass it has the `slowest` operators, in a frame of at most
    `SLOWEST_FRAME_BYTES`; the server ignores them for a script. After each clean pass it has the
    `latency` so far. Of a paired comparison it has the `verdicts` so far, and `passes_done` is the
    number of pairs.
    """

    type: Literal["attempt.started"] = "attempt.started"
    attempt: UUID4
    at: Moment
    download_s: Seconds = 0.0
    command: Text = Field(default="", max_length=8000)
    passes: int = Field(default=0, ge=0, le=MOST_PASSES)
    passes_done: int = Field(default=0, ge=0, le=MOST_PASSES)
    slowest: SlowestOperators | None = None
    latency: LatencySoFar | None = None
    verdicts: tuple[ArmVerdict, ...] = Field(default=(), max_length=MOST_ARMS)


class AttemptLog(Frozen):
    """A chunk of the log: `text` starts at byte `offset` of the log and is `size` bytes long.

    `seq` counts from 1 without gaps. The server drops a chunk that it has already received.
    """

    type: Literal["attempt.log"] = "attempt.log"
    attempt: UUID4
    seq: int = Field(ge=1, le=2**31 - 1)
    offset: Size
    size: int = Field(ge=0, le=2**31 - 1)
    text: str = Field(max_length=16 * 1024)


class AttemptUploads(Frozen):
    """Request for upload URLs for these files; answered by Uploads."""

    type: Literal["attempt.uploads"] = "attempt.uploads"
    attempt: UUID4
    files: tuple[FileOffer, ...] = Field(max_length=MAX_FILES)


class AttemptFinished(Frozen):
    """The attempt has ended. Sent repeatedly until acknowledged, also after an agent restart.

    `exit_code` is the value that a shell shows (128 + signal number for a signal), None if no
    process ran. `notes` explain the end as far as only the agent knows it (a file, a limit).
    `detail` is one line of another program: an exception, or the name of a signal. `cause` is a
    code from `agent.protocol.inputs` if `reason` is `input_wrong`, and may be `CAUSE_DIGEST` if it
    is `download_failed`. `command` contains one command line for each kind of pass, separated by
    newlines. `received` lists the first `MAX_RECEIVED` downloaded files of the order. `log_end` is
    the end of the output before a failure, since log chunks may be lost in transit. `phases` are in
    chronological order, at most `MAX_PHASES` of them. `host_memory_bytes` and `gpu_memory_bytes`
    are the peak memory (`PassRecord`), the largest of the kept passes without that of dumps; None
    if it is unknown.
    """

    type: Literal["attempt.finished"] = "attempt.finished"
    attempt: UUID4
    at: Moment
    reason: EndReason
    exit_code: int | None = Field(default=None, ge=-(2**31), le=2**31 - 1)
    notes: tuple[Note, ...] = Field(default=(), max_length=MAX_NOTES)
    detail: Text = Field(default="", max_length=1000)
    cause: str = Field(default="", max_length=40)
    run_s: Seconds | None = None
    command: Text = Field(default="", max_length=8000)
    log_end: Text = Field(default="", max_length=LOG_END_CHARACTERS)
    files: tuple[FileOffer, ...] = Field(default=(), max_length=128)
    received: tuple[StoredFile, ...] = Field(default=(), max_length=MAX_RECEIVED)
    phases: tuple[Phase, ...] = Field(default=(), max_length=MAX_PHASES)
    host_memory_bytes: Size | None = None
    gpu_memory_bytes: Size | None = None


# -- server to agent ----------------------------------------------------------------------------


class Welcome(Frozen):
    """Answer to Hello; sets the heartbeat interval. `agent_version` is that on the server."""

    type: Literal["welcome"] = "welcome"
    protocol: Size = PROTOCOL_VERSION
    worker: str
    server_time: Moment
    heartbeat_s: float = Field(gt=0, le=1e9)
    features: frozenset[str] = frozenset()
    agent_version: str = Field(default="", max_length=32)


class ComparedArm(Frozen):
    """An arm of a paired comparison after the first, with the fields of `Start` that it replaces.

    Its files are in a separate folder, so they may have the same names as those of another arm.
    """

    runtime: str
    model: InputFile
    data: tuple[InputFile, ...] = Field(default=(), max_length=64)
    inputs: tuple[GivenInput, ...] = Field(default=(), max_length=64)
    options: dict[str, bool | Integer | Number | str] = Field(default_factory=dict)


class Start(Frozen):
    """Order to run an attempt. Sent after every connect until accepted; starting is idempotent.

    `options` maps names of load_and_run's options to values (`agent.protocol.options`); it is never
    a command line. `inputs` are the input variables that are not read from a file. If `fill` is
    true, inputs of the model without any source get random values. `seed` seeds all random values.
    `timeout_s` covers all passes together.

    If `script` is set, `model` is the program (a `.py` file or a zip): the agent runs it under
    MegEngine's Profiler, always in a sandbox, with the files of `data` in the same folder; `plan`,
    `options`, `inputs` and `fill` are then ignored.

    If `pairing` is set, the order's own model is the first arm of a paired comparison, and `arms`
    are the others. `task` is the id of the attempt's task and
    `traceparent` its trace context; the agent uses both in its log only.
    """

    type: Literal["start"] = "start"
    attempt: UUID4
    runtime: str
    model: InputFile
    data: tuple[InputFile, ...] = Field(default=(), max_length=64)
    inputs: tuple[GivenInput, ...] = Field(default=(), max_length=64)
    fill: bool = True
    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    plan: Plan = Field(default_factory=Plan)
    options: dict[str, bool | Integer | Number | str] = Field(default_factory=dict)
    script: Script | None = None
    pairing: Pairing | None = None
    arms: tuple[ComparedArm, ...] = Field(default=(), max_length=MOST_ARMS - 1)
    timeout_s: float = Field(gt=0, le=1e9)
    grace_s: Seconds = 5.0
    task: Size | None = None
    traceparent: TraceParent = ""


class Cancel(Frozen):
    """Order to cancel an attempt: SIGTERM, then SIGKILL after the grace period.

    An agent that does not hold the attempt reports it as finished.
    """

    type: Literal["cancel"] = "cancel"
    attempt: UUID4


class Enough(Frozen):
    """Order to end a run after its current pass or pair, and to keep all of them as its result.

    It is repeated until the attempt has ended. An agent that has measured nothing yet ends the run
    after its first pass or pair; one that does not hold the attempt ignores the order.
    """

    type: Literal["enough"] = "enough"
    attempt: UUID4


class Ack(Frozen):
    """The server has stored the message named by `of`; the agent need not repeat it."""

    type: Literal["ack"] = "ack"
    of: Literal["attempt.accepted", "attempt.finished"]
    attempt: UUID4


class Uploads(Frozen):
    """Answer to attempt.uploads with one upload target per offered file."""

    type: Literal["uploads"] = "uploads"
    attempt: UUID4
    targets: tuple[UploadTarget, ...] = Field(max_length=MAX_FILES)


AgentMessage = Annotated[
    Hello
    | Heartbeat
    | AttemptAccepted
    | AttemptStarted
    | AttemptLog
    | AttemptUploads
    | AttemptFinished,
    Field(discriminator="type"),
]
ServerMessage = Annotated[
    Welcome | Start | Cancel | Enough | Ack | Uploads, Field(discriminator="type")
]

_agent: TypeAdapter[AgentMessage] = TypeAdapter(AgentMessage)
_server: TypeAdapter[ServerMessage] = TypeAdapter(ServerMessage)


def encode(message: BaseModel) -> str:
    """Serialize a message as a frame."""
    return message.model_dump_json()


def decode_agent(text: str) -> AgentMessage:
    """Parse a frame sent by an agent. Raises pydantic.ValidationError."""
    return _agent.validate_json(text)


def decode_server(text: str) -> ServerMessage:
    """Parse a frame sent by the server. Raises pydantic.ValidationError."""
    return _server.validate_json(text)
