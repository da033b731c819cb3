"""Every message that crosses the agent's socket, one class each.

Agent messages state facts (past tense), server messages give orders (imperative). Sizes are bytes,
points in time are seconds since the epoch (UTC), durations are seconds. A frame is one JSON object
in UTF-8. An agent's has at most `MAX_FRAME_BYTES` bytes, whatever characters its texts hold
(`agent.link.outbox`). A server's may have more: a Start holds up to 65 addresses and a script's
arguments. `agent.link.session` says how much an agent reads.
"""

from enum import IntEnum, StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, Field, TypeAdapter
from pydantic.types import UUID4

from agent.protocol.contents import (
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
#: of what an agent sends
MAX_FRAME_BYTES = 64 * 1024
#: files of one question for places: their presigned addresses must fit into a frame
MAX_FILES = 16
#: of one attempt: what a plan may ask for, and a pass for dumps
MOST_PASSES = 1000
#: in `Hello.features` of an agent that runs plans of several passes, and gives inputs and files of
#: options to a run
FEATURE_PLANS = "plans"
#: of one that can check a file that came into storage in parts
FEATURE_PARTS = "parts"
#: of one whose owner lets it run scripts, and which has a sandbox for them
FEATURE_SCRIPTS = "scripts"


class CloseCode(IntEnum):
    """Why the server closed the socket."""

    BAD_FRAME = 4400
    UNKNOWN_TOKEN = 4401
    REVOKED_TOKEN = 4403
    REPLACED = 4409
    TOO_OLD = 4426
    TOO_MUCH = 4429


#: of a log, in the frame that tells of a failure
LOG_END_CHARACTERS = 4000


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
    #: by a stranger's signal: not by us, and not by a kernel that had no memory left
    KILLED = "killed"


# -- agent to server ----------------------------------------------------------------------------


class Hello(Frozen):
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


class Heartbeat(Frozen):
    """I am alive and hold these attempts: renews their leases."""

    type: Literal["heartbeat"] = "heartbeat"
    sent_at: float
    running: frozenset[UUID4] = frozenset()


class AttemptAccepted(Frozen):
    """The order is on disk. Repeated until acknowledged."""

    type: Literal["attempt.accepted"] = "attempt.accepted"
    attempt: UUID4


class AttemptStarted(Frozen):
    """The load_and_run process runs; `download_s` is the time its files took to arrive.

    Sent again when one of several passes has ended: `passes_done` of `passes` have then, without
    those that only looked at the model or were repeated. `passes` is 0 from an agent that does not
    count them.
    """

    type: Literal["attempt.started"] = "attempt.started"
    attempt: UUID4
    at: float
    download_s: float = Field(default=0.0, ge=0)
    command: Text = Field(default="", max_length=8000)
    passes: int = Field(default=0, ge=0, le=MOST_PASSES)
    passes_done: int = Field(default=0, ge=0, le=MOST_PASSES)


class AttemptLog(Frozen):
    """A piece of the log: `text` starts `offset` bytes after the log's begin, is `size` bytes long.

    `seq` counts from 1 without gaps; a repeated chunk is dropped by the server.
    """

    type: Literal["attempt.log"] = "attempt.log"
    attempt: UUID4
    seq: int = Field(ge=1, le=2**31 - 1)
    offset: int = Field(ge=0, le=2**63 - 1)
    size: int = Field(ge=0, le=2**31 - 1)
    text: str = Field(max_length=16 * 1024)


class AttemptUploads(Frozen):
    """I have these files; where may I put them?"""

    type: Literal["attempt.uploads"] = "attempt.uploads"
    attempt: UUID4
    files: tuple[FileOffer, ...] = Field(max_length=MAX_FILES)


class AttemptFinished(Frozen):
    """The end of an attempt. Repeated until acknowledged, also after a restart of the agent.

    `exit_code` is what a shell would show (128 + number for a signal); None if no process ran.
    `detail` says in one line what the agent itself can tell (a file's name, a limit); `cause` is
    its code where `reason` is `input_wrong` (`agent.protocol.inputs`). `command` holds the command
    lines of all kinds of passes, one each. `received` are the files of the order as they arrived.
    `log_end` is what was printed last before a failure: pieces of the log may be lost on their way.
    `phases` in their order; what is beyond `MAX_PHASES` is left out.
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
    """Answer to hello: the server chooses the intervals. `agent_version` is what it serves."""

    type: Literal["welcome"] = "welcome"
    protocol: int = PROTOCOL_VERSION
    worker: str
    server_time: float
    heartbeat_s: float = Field(gt=0)
    features: frozenset[str] = frozenset()
    agent_version: str = Field(default="", max_length=32)


class Start(Frozen):
    """Run this. Sent again after every connect until it was accepted; starting is idempotent.

    `options` are load_and_run's options by name (`agent.protocol.options`), never a command line.
    `inputs` are those that no file feeds; with `fill`, inputs of the model that nothing feeds at
    all get random values. `seed` is that of all random values. `timeout_s` is for all passes.
    With `script`, `model` is the program, a `.py` or a zip: it is run under the Profiler, always in
    a sandbox, with `data` beside it; `plan`, `options`, `inputs` and `fill` mean nothing then.
    `task` is the attempt's, and `traceparent` what it is a part of, both for the agent's log.
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
    """End this attempt: TERM, after its grace KILL. For an unknown attempt: report it finished."""

    type: Literal["cancel"] = "cancel"
    attempt: UUID4


class Ack(Frozen):
    """The server has stored what `of` says; the agent may forget it."""

    type: Literal["ack"] = "ack"
    of: Literal["attempt.accepted", "attempt.finished"]
    attempt: UUID4


class Uploads(Frozen):
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
