"""`measurement.json`: everything that an attempt measured, raw, and the state of its device."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.protocol.plan import Plan


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class PassRecord(_Part):
    """One process. Times of load_and_run's own log, in milliseconds, in order.

    `kept` false: it only found out what the model's inputs are, or how many iterations the clean
    pass needs. `host_ms` is null where a version does not print it. `profile` is the artifact's
    name, empty without one. `start_s`: what the process did beside warm-ups and iterations
    (imports, load, compile, its end). A `script` has no times of iterations; its `profile` is a
    trace.
    """

    number: int = Field(ge=1)
    kind: Literal["inspect", "clean", "profiled", "dump", "script"]
    kept: bool = True
    argv: tuple[str, ...] = ()
    started_at: float = 0.0
    run_s: float = 0.0
    start_s: float | None = None
    exit_code: int | None = None
    load_ms: float | None = None
    prepare_ms: float | None = None
    warmup_ms: tuple[float, ...] = ()
    e2e_ms: tuple[float, ...] = ()
    host_ms: tuple[float | None, ...] = ()
    profile: str = ""


class Contamination(_Part):
    """Why the figures may be worse than they could be; `detail` names what was seen."""

    code: str = Field(max_length=40)
    detail: str = Field(default="", max_length=500)


class Measurement(_Part):
    """`device` holds snapshots: `before`, `during` (a list, outside timed parts), `after`."""

    format: Literal[1] = 1
    plan: Plan
    passes: tuple[PassRecord, ...] = Field(default=(), max_length=200)
    gate: dict[str, Any] = Field(default_factory=dict)
    device: dict[str, Any] = Field(default_factory=dict)
    contaminations: tuple[Contamination, ...] = Field(default=(), max_length=50)
    notes: tuple[str, ...] = Field(default=(), max_length=50)
