"""Every message that crosses the agent's socket, one class each.

Agent messages state facts (past tense), server messages give orders (imperative). Sizes are bytes,
points in time are seconds since the epoch (UTC), durations are seconds. A frame is one JSON object
of at most `MAX_FRAME_BYTES` bytes of UTF-8.
"""

from enum import IntEnum, StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.types import UUID4

from agent.protocol.plan import Plan

PROTOCOL_VERSION = 1
MAX_FRAME_BYTES = 64 * 1024
#: files of one question for places: their presigned addresses must fit into a frame
MAX_FILES = 16
#: in `Hello.features` of an agent that runs plans of several passes, and gives inputs and files of
#: options to a run
FEATURE_PLANS = "plans"

#: hexadecimal MD5: what storage itself can check (Content-MD5, ETag); guards against accidents
Md5 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
#: hexadecimal SHA-256 of a file's content: what the agent's cache and the manifest go by
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
#: name and value of what a device's owner says of it; tasks may ask for devices by them
Labels = dict[
    Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")],
    Annotated[str, Field(min_length=1, max_length=100)],
]
MAX_LABELS = 32
#: name of a file below the attempt's folder: no path, nothing that load_and_run would split at
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class CloseCode(IntEnum):
    """Why the server closed the socket."""

    BAD_FRAME = 4400
    UNKNOWN_TOKEN = 4401
    REVOKED_TOKEN = 4403
    REPLACED = 4409
    TOO_OLD = 4426


class EndReason(StrEnum):
    """Why an attempt ended, as the agent saw it; the server turns it into the reader's words."""

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


class _Message(BaseModel):
    """Immutable; unknown fields are dropped so that a newer peer may add some."""

    model_config = ConfigDict(frozen=True, extra="ignore")


# -- parts --------------------------------------------------------------------------------------


class Gpu(_Message):
    name: str = Field(max_length=200)
    memory_bytes: int | None = Field(default=None, ge=0)
    driver: str = Field(default="", max_length=100)


class Facts(_Message):
    """What the device is; read once at the agent's start. `labels` are its owner's own words."""

    hostname: str = Field(max_length=255)
    ip: str = Field(default="", max_length=45)
    platform: str = Field(max_length=200)
    machine: str = Field(max_length=40)
    cpu_model: str = Field(default="", max_length=200)
    cores: int = Field(ge=1)
    memory_bytes: int = Field(ge=0, le=2**63 - 1)
    gpus: tuple[Gpu, ...] = Field(default=(), max_length=64)
    labels: Labels = Field(default_factory=dict, max_length=MAX_LABELS)


#: FLOP/s, bytes/s: far above what any device does, and a number that JSON and columns hold
_Speed = Annotated[float, Field(gt=0, le=1e21, allow_inf_nan=False)]


class MeasuredRoofs(_Message):
    """What a device reached at best with a runtime, by `agent runtime check`.

    `peak_flops`: FLOP/s by dtype as profiles name it (`Float32`), a multiply-add counts as 2.
    `copy_bytes_s`: each byte read and each byte written counts. `measured_at`: seconds since the
    epoch.
    """

    device: Annotated[str, Field(min_length=1, max_length=20)]
    peak_flops: dict[Annotated[str, Field(max_length=40)], _Speed] = Field(
        default_factory=dict, max_length=16
    )
    copy_bytes_s: _Speed
    measured_at: float = Field(ge=0, le=1e11, allow_inf_nan=False)


class RuntimeInfo(_Message):
    """One MegEngine version on the device. `problem` is empty if it can be used.

    `flags`: the options that its load_and_run knows, empty if all of the table. `builds`: what it
    was built with and the device has (cuda, tensorrt, opencl). `libraries`: names of C operator
    libraries that the device's owner lists. `roofs`: one for each kind of device that was measured.
    """

    version: str = Field(min_length=1, max_length=40)
    kind: Literal["wheel", "binary"]
    python: str = Field(default="", max_length=40)
    problem: str = Field(default="", max_length=500)
    flags: tuple[Annotated[str, Field(max_length=60)], ...] = Field(default=(), max_length=200)
    builds: tuple[Annotated[str, Field(max_length=40)], ...] = Field(default=(), max_length=20)
    libraries: tuple[Annotated[str, Field(max_length=40)], ...] = Field(default=(), max_length=50)
    roofs: tuple[MeasuredRoofs, ...] = Field(default=(), max_length=4)


class InputFile(_Message):
    """A file to fetch before the run. `input` is the variable it feeds, empty for the model.

    `option` is the option whose content it is (a cache), empty for model and data. `sha256` is what
    an agent found for this very object before; with it the file may come from the agent's cache.
    """

    name: FileName
    input: str = Field(default="", max_length=300)
    option: str = Field(default="", max_length=60)
    sha256: Sha256 | None = None
    url: str = Field(max_length=4000)
    size_bytes: int = Field(ge=0, le=2**63 - 1)
    md5: Md5


class GivenInput(_Message):
    """An input variable that no file feeds: by numbers as load_and_run reads them, or at random.

    Without `literal` the values are random; `shape` None and `dtype` empty mean the model's own.
    """

    name: str = Field(min_length=1, max_length=300)
    literal: str = Field(default="", max_length=20_000)
    shape: tuple[Annotated[int, Field(ge=1, le=2**31 - 1)], ...] | None = Field(
        default=None, min_length=1, max_length=7
    )
    dtype: str = Field(default="", max_length=20)


class StoredFile(_Message):
    """The SHA-256 that the agent found for a file of the order, by its name there."""

    name: FileName
    sha256: Sha256


class FileOffer(_Message):
    """A file the agent wants to store."""

    name: FileName
    size_bytes: int = Field(ge=0, le=2**63 - 1)
    md5: Md5


class UploadTarget(_Message):
    """Where to PUT one offered file. An empty `url` means: stored already, unless it is `refused`.

    `refused` says in one line why the file must not be stored.
    """

    name: FileName
    url: str = Field(max_length=4000)
    headers: dict[str, str] = Field(default_factory=dict)
    refused: str = Field(default="", max_length=200)


# -- agent to server ----------------------------------------------------------------------------


class Hello(_Message):
    """First frame of a connection: who I am, what I can do, which attempts I hold."""

    type: Literal["hello"] = "hello"
    protocol: int = PROTOCOL_VERSION
    agent_version: str = Field(max_length=32)
    features: frozenset[Annotated[str, Field(max_length=40)]] = Field(
        default=frozenset(), max_length=50
    )
    facts: Facts
    runtimes: tuple[RuntimeInfo, ...] = Field(default=(), max_length=50)
    running: frozenset[UUID4] = frozenset()


class Heartbeat(_Message):
    """I am alive and hold these attempts: renews their leases."""

    type: Literal["heartbeat"] = "heartbeat"
    sent_at: float
    running: frozenset[UUID4] = frozenset()


class AttemptAccepted(_Message):
    """The order is on disk. Repeated until acknowledged."""

    type: Literal["attempt.accepted"] = "attempt.accepted"
    attempt: UUID4


class AttemptStarted(_Message):
    """The load_and_run process runs; `download_s` is the time its files took to arrive."""

    type: Literal["attempt.started"] = "attempt.started"
    attempt: UUID4
    at: float
    download_s: float = Field(default=0.0, ge=0)
    command: str = Field(default="", max_length=8000)


class AttemptLog(_Message):
    """A piece of the log: `text` starts `offset` bytes after the log's begin, is `size` bytes long.

    `seq` counts from 1 without gaps; a repeated chunk is dropped by the server.
    """

    type: Literal["attempt.log"] = "attempt.log"
    attempt: UUID4
    seq: int = Field(ge=1, le=2**31 - 1)
    offset: int = Field(ge=0, le=2**63 - 1)
    size: int = Field(ge=0, le=2**31 - 1)
    text: str = Field(max_length=16 * 1024)


class AttemptUploads(_Message):
    """I have these files; where may I put them?"""

    type: Literal["attempt.uploads"] = "attempt.uploads"
    attempt: UUID4
    files: tuple[FileOffer, ...] = Field(max_length=MAX_FILES)


class AttemptFinished(_Message):
    """The end of an attempt. Repeated until acknowledged, also after a restart of the agent.

    `exit_code` is what a shell would show (128 + number for a signal); None if no process ran.
    `detail` says in one line what the agent itself can tell (a file's name, a limit); `cause` is
    its code where `reason` is `input_wrong` (`agent.inputs.problems`). `command` holds the command
    lines of all kinds of passes, one each. `received` are the files of the order as they arrived.
    """

    type: Literal["attempt.finished"] = "attempt.finished"
    attempt: UUID4
    at: float
    reason: EndReason
    exit_code: int | None = Field(default=None, ge=-(2**31), le=2**31 - 1)
    detail: str = Field(default="", max_length=1000)
    cause: str = Field(default="", max_length=40)
    run_s: float | None = Field(default=None, ge=0)
    command: str = Field(default="", max_length=8000)
    files: tuple[FileOffer, ...] = Field(default=(), max_length=128)
    received: tuple[StoredFile, ...] = Field(default=(), max_length=128)


# -- server to agent ----------------------------------------------------------------------------


class Welcome(_Message):
    """Answer to hello: the server chooses the intervals. `agent_version` is what it serves."""

    type: Literal["welcome"] = "welcome"
    protocol: int = PROTOCOL_VERSION
    worker: str
    server_time: float
    heartbeat_s: float = Field(gt=0)
    features: frozenset[str] = frozenset()
    agent_version: str = Field(default="", max_length=32)


class Start(_Message):
    """Run this. Sent again after every connect until it was accepted; starting is idempotent.

    `options` are load_and_run's options by name (`agent.protocol.options`), never a command line.
    `inputs` are those that no file feeds; with `fill`, inputs of the model that nothing feeds at
    all get random values. `seed` is that of all random values. `timeout_s` is for all passes.
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
    options: dict[str, bool | int | float | str] = Field(default_factory=dict)
    timeout_s: float = Field(gt=0)
    grace_s: float = Field(default=5.0, ge=0)


class Cancel(_Message):
    """End this attempt: TERM, after its grace KILL. For an unknown attempt: report it finished."""

    type: Literal["cancel"] = "cancel"
    attempt: UUID4


class Ack(_Message):
    """The server has stored what `of` says; the agent may forget it."""

    type: Literal["ack"] = "ack"
    of: Literal["attempt.accepted", "attempt.finished"]
    attempt: UUID4


class Uploads(_Message):
    """Answer to attempt.uploads, one target for each offered file."""

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
ServerMessage = Annotated[Welcome | Start | Cancel | Ack | Uploads, Field(discriminator="type")]

_agent: TypeAdapter[AgentMessage] = TypeAdapter(AgentMessage)
_server: TypeAdapter[ServerMessage] = TypeAdapter(ServerMessage)


def encode(message: BaseModel) -> str:
    """Turn a message into a frame."""
    return message.model_dump_json()


def decode_agent(text: str) -> AgentMessage:
    """Parse a frame sent by an agent. Raises pydantic.ValidationError."""
    return _agent.validate_json(text)


def decode_server(text: str) -> ServerMessage:
    """Parse a frame sent by the server. Raises pydantic.ValidationError."""
    return _server.validate_json(text)
