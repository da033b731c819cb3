"""The messages of the agent's socket, one class per message.

Agent messages state facts (past tense), server messages give orders (imperative). Sizes are in
bytes, points in time in seconds since the epoch (UTC), durations in seconds. A frame is one JSON
object in UTF-8. A frame of an agent has at most `MAX_FRAME_BYTES` bytes, whatever characters its
texts contain (`agent.link.outbox` enforces it). A frame of the server may be larger, because a
Start holds up to 65 URLs and the arguments of a script; `agent.link.session` sets the limit for
what an agent reads.
"""

from enum import IntEnum, StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, Field, TypeAdapter
from pydantic.types import UUID4

from agent.protocol.message_parts import (
    MAX_PHASES,
    Facts,
    FileOffer,
    Frozen,
    GivenInput,
    InputFile,
    Phase,
    RuntimeInfo,
    StoredFile,
    Text,
    TraceParent,
    UploadTarget,
)
from agent.protocol.plan import Plan
from agent.protocol.script import Script

PROTOCOL_VERSION = 1
#: largest frame that an agent may send
MAX_FRAME_BYTES = 64 * 1024
#: most files in one `attempt.uploads`: their presigned URLs must fit into a frame
MAX_FILES = 16
#: most passes of one attempt: those that a plan can have, and one for dumps
MOST_PASSES = 1000
#: `Hello.features`: the agent runs plans of several passes, and passes inputs and option files to
#: load_and_run
FEATURE_PLANS = "plans"
#: `Hello.features`: the agent can verify the checksum of a multipart upload
FEATURE_PARTS = "parts"
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


# -- agent to server ----------------------------------------------------------------------------


class Hello(Frozen):
    """First frame of a connection: the agent's version and features, and the attempts it holds."""

    type: Literal["hello"] = "hello"
    protocol: int = PROTOCOL_VERSION
    agent_version: str = Field(max_length=32)
    features: frozenset[Annotated[str, Field(max_length=40)]] = Field(
        default=frozenset(), max_length=50
    )
    facts: Facts
    runtimes: tuple[RuntimeInfo, ...] = Field(default=(), max_length=50)
    running: frozenset[UUID4] = frozenset()


class Heartbeat(Frozen):
    """Report that the agent is alive, and renew the leases of the attempts it holds."""

    type: Literal["heartbeat"] = "heartbeat"
    sent_at: float
    running: frozenset[UUID4] = frozenset()


class AttemptAccepted(Frozen):
    """The agent has stored the order on disk. Sent repeatedly until acknowledged."""

    type: Literal["attempt.accepted"] = "attempt.accepted"
    attempt: UUID4


class AttemptStarted(Frozen):
    """The load_and_run process is running; `download_s` is the time that the downloads took.

    If there are several passes, it is sent again after each of them, with the number of finished
    passes in `passes_done`. Passes that only inspect the model, or that are repeated, are not
    counted. `passes` is 0 if the agent does not count passes.
    """

    type: Literal["attempt.started"] = "attempt.started"
    attempt: UUID4
    at: float
    download_s: float = Field(default=0.0, ge=0)
    command: Text = Field(default="", max_length=8000)
    passes: int = Field(default=0, ge=0, le=MOST_PASSES)
    passes_done: int = Field(default=0, ge=0, le=MOST_PASSES)


class AttemptLog(Frozen):
    """A chunk of the log: `text` starts at byte `offset` of the log and is `size` bytes long.

    `seq` counts from 1 without gaps. The server drops a chunk that it has already received.
    """

    type: Literal["attempt.log"] = "attempt.log"
    attempt: UUID4
    seq: int = Field(ge=1, le=2**31 - 1)
    offset: int = Field(ge=0, le=2**63 - 1)
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
    process ran. `detail` is one line of details known to the agent only (a file name, a limit).
    `cause` is a code from `agent.protocol.inputs` if `reason` is `input_wrong`. `command` holds
    one command line for each kind of pass, separated by newlines. `received` lists the downloaded
    files of the order. `log_end` is the end of the output before a failure, since log chunks may
    be lost in transit. `phases` are in chronological order, at most `MAX_PHASES` of them.
    """

    type: Literal["attempt.finished"] = "attempt.finished"
    attempt: UUID4
    at: float
    reason: EndReason
    exit_code: int | None = Field(default=None, ge=-(2**31), le=2**31 - 1)
    detail: Text = Field(default="", max_length=1000)
    cause: str = Field(default="", max_length=40)
    run_s: float | None = Field(default=None, ge=0)
    command: Text = Field(default="", max_length=8000)
    log_end: Text = Field(default="", max_length=LOG_END_CHARACTERS)
    files: tuple[FileOffer, ...] = Field(default=(), max_length=128)
    received: tuple[StoredFile, ...] = Field(default=(), max_length=128)
    phases: tuple[Phase, ...] = Field(default=(), max_length=MAX_PHASES)


# -- server to agent ----------------------------------------------------------------------------


class Welcome(Frozen):
    """Answer to Hello; sets the heartbeat interval. `agent_version` is what the server offers."""

    type: Literal["welcome"] = "welcome"
    protocol: int = PROTOCOL_VERSION
    worker: str
    server_time: float
    heartbeat_s: float = Field(gt=0)
    features: frozenset[str] = frozenset()
    agent_version: str = Field(default="", max_length=32)


class Start(Frozen):
    """Order to run an attempt. Sent after every connect until accepted; starting is idempotent.

    `options` maps names of load_and_run's options to values (`agent.protocol.options`); it is never
    a command line. `inputs` are the input variables that are not read from a file. If `fill` is
    true, inputs of the model without any source get random values. `seed` seeds all random values.
    `timeout_s` covers all passes together.

    If `script` is set, `model` is the program (a `.py` file or a zip): the agent runs it under
    MegEngine's Profiler, always in a sandbox, with the files of `data` in the same folder; `plan`,
    `options`, `inputs` and `fill` are then ignored. `task` is the id of the attempt's task and
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
    options: dict[str, bool | int | float | str] = Field(default_factory=dict)
    script: Script | None = None
    timeout_s: float = Field(gt=0)
    grace_s: float = Field(default=5.0, ge=0)
    task: int | None = Field(default=None, ge=1)
    traceparent: TraceParent = ""


class Cancel(Frozen):
    """Order to cancel an attempt: SIGTERM, then SIGKILL after the grace period.

    An agent that does not hold the attempt reports it as finished.
    """

    type: Literal["cancel"] = "cancel"
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
ServerMessage = Annotated[Welcome | Start | Cancel | Ack | Uploads, Field(discriminator="type")]

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
