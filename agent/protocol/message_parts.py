"""Parts of messages: the device, its runtimes, files and their URLs, one class each.

Sizes are in bytes, points in time in seconds since the epoch (UTC).
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

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
#: W3C trace context, or empty (https://www.w3.org/TR/trace-context/#traceparent-header)
TraceParent = Annotated[str, Field(pattern=r"^(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})?$")]
MAX_PHASES = 64
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
    memory_bytes: int | None = Field(default=None, ge=0)
    driver: str = Field(default="", max_length=100)


class Facts(Frozen):
    """Hardware and system of the device, read once when the agent starts; and its labels."""

    hostname: str = Field(max_length=255)
    ip: str = Field(default="", max_length=45)
    platform: str = Field(max_length=200)
    machine: str = Field(max_length=40)
    cpu_model: str = Field(default="", max_length=200)
    cores: int = Field(ge=1)
    memory_bytes: int = Field(ge=0, le=2**63 - 1)
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
    measured_at: float = Field(ge=0, le=1e11, allow_inf_nan=False)


class RuntimeInfo(Frozen):
    """One MegEngine version on the device. `problem` is empty if the runtime is usable.

    `flags`: the options that its load_and_run supports, empty if it supports the whole table.
    `builds`: parts that it was built with (cuda, tensorrt, fast_run, json, jit, c_opr); cuda and
        tensorrt only if the device has a GPU.
    `libraries`: names of the C operator libraries that the device's owner configured. `roofs`: the
    peak performance of each device kind (CPU, GPU) that was measured.
    """

    version: str = Field(min_length=1, max_length=40)
    kind: Literal["wheel", "binary"]
    python: str = Field(default="", max_length=40)
    problem: str = Field(default="", max_length=500)
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
    size_bytes: int = Field(ge=0, le=2**63 - 1)
    md5: PartedMd5
    part_bytes: int = Field(default=0, ge=0, le=2**63 - 1)


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
    """The SHA-256 that the agent computed for a downloaded file of the order."""

    name: FileName
    sha256: Sha256


class FileOffer(Frozen):
    """A file that the agent wants to upload."""

    name: FileName
    size_bytes: int = Field(ge=0, le=2**63 - 1)
    md5: Md5


class Phase(Frozen):
    """A named time span of an attempt, by the device's clock; the server turns it into a span."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_ ]{0,39}$")
    started_at: float = Field(ge=0, le=1e11, allow_inf_nan=False)
    ended_at: float = Field(ge=0, le=1e11, allow_inf_nan=False)


class UploadTarget(Frozen):
    """The presigned URL for the PUT of one offered file.

    `refused` is the reason, in one line, why the file must not be uploaded. An empty `url` without
    a `refused` means that the file is already stored.
    """

    name: FileName
    url: str = Field(max_length=4000)
    headers: dict[str, str] = Field(default_factory=dict)
    refused: str = Field(default="", max_length=200)
