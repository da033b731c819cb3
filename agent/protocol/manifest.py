"""Schema of `manifest.json`: everything needed to reproduce an attempt."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.protocol.option_table import Value
from agent.protocol.plan import Plan
from agent.protocol.script import Script


class _ManifestModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class FileRecord(_ManifestModel):
    """A file that the device downloaded, with the input variable or option that it was used for."""

    name: str
    input: str = ""
    option: str = ""
    size_bytes: int
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class InputRecord(_ManifestModel):
    """The array that was passed as one input variable, and where its values come from."""

    name: str
    source: Literal["file", "literal", "random"]
    dtype: str = ""
    shape: tuple[int, ...] = ()
    sha256: str = ""


class Manifest(_ManifestModel):
    format: Literal[1] = 1
    attempt: str
    agent_version: str
    protocol: int
    written_at: float
    files: tuple[FileRecord, ...] = ()
    inputs: tuple[InputRecord, ...] = ()
    seed: int = 0
    options: dict[str, Value] = Field(default_factory=dict)
    plan: Plan
    script: Script | None = None
    commands: tuple[str, ...] = ()
    runtime: dict[str, Any] = Field(default_factory=dict)
    host: dict[str, Any] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    limits: dict[str, Any] = Field(default_factory=dict)
    sandbox: str = ""
