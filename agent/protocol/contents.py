"""What messages hold: the device, its runtimes, files and their places, one class each.

Sizes are bytes, points in time seconds since the epoch (UTC).
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

#: hexadecimal MD5: what storage itself can check (Content-MD5, ETag); guards against accidents
Md5 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
#: as `Md5`, or of a file in parts (`agent.protocol.parts`)
PartedMd5 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}(-[1-9][0-9]{0,4})?$")]
#: hexadecimal SHA-256 of a file's content: what the agent's cache and the manifest go by
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
#: name and value of what a device's owner says of it; tasks may ask for devices by them
Labels = dict[
    Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")],
    Annotated[str, Field(min_length=1, max_length=100)],
]
MAX_LABELS = 32
#: W3C trace context, or empty (https://www.w3.org/TR/trace-context/#traceparent-header)
TraceParent = Annotated[str, Field(pattern=r"^(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})?$")]
MAX_PHASES = 64
#: of programs and files that anybody wrote; NUL, which databases do not hold, is replaced
Text = Annotated[str, AfterValidator(lambda text: text.replace("\x00", "\ufffd"))]
#: name of a file below the attempt's folder: no path, nothing that load_and_run would split at
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class Frozen(BaseModel):
    """Immutable; unknown fields are dropped so that a newer peer may add some.

    No number is nan or infinite: JSON has none, so what reads them would write null.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Gpu(Frozen):
    name: str = Field(max_length=200)
    memory_bytes: int | None = Field(default=None, ge=0)
    driver: str = Field(default="", max_length=100)


class Facts(Frozen):
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


class MeasuredRoofs(Frozen):
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


class RuntimeInfo(Frozen):
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


class InputFile(Frozen):
    """A file to fetch before the run. `input` is the variable it feeds, empty for the model.

    `option` is the option whose content it is (a cache), empty for model and data. `sha256` is what
    an agent found for this very object before; with it the file may come from the agent's cache.
    `part_bytes` is the size of the parts that `md5` was formed over, 0 for the MD5 of the whole.
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
    """An input variable that no file feeds: by numbers as load_and_run reads them, or at random.

    Without `literal` the values are random; `shape` None and `dtype` empty mean the model's own.
    """

    name: str = Field(min_length=1, max_length=300)
    literal: str = Field(default="", max_length=20_000)
    shape: tuple[Annotated[int, Field(ge=1, le=2**31 - 1)], ...] | None = Field(
        default=None, min_length=1, max_length=7
    )
    dtype: str = Field(default="", max_length=20)


class StoredFile(Frozen):
    """The SHA-256 that the agent found for a file of the order, by its name there."""

    name: FileName
    sha256: Sha256


class FileOffer(Frozen):
    """A file the agent wants to store."""

    name: FileName
    size_bytes: int = Field(ge=0, le=2**63 - 1)
    md5: Md5


class Phase(Frozen):
    """What an attempt did from when to when, by the device's clock; for traces."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_ ]{0,39}$")
    started_at: float = Field(ge=0, le=1e11, allow_inf_nan=False)
    ended_at: float = Field(ge=0, le=1e11, allow_inf_nan=False)


class UploadTarget(Frozen):
    """Where to PUT one offered file. An empty `url` means: stored already, unless it is `refused`.

    `refused` says in one line why the file must not be stored.
    """

    name: FileName
    url: str = Field(max_length=4000)
    headers: dict[str, str] = Field(default_factory=dict)
    refused: str = Field(default="", max_length=200)
