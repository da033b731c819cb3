"""The tables of the configuration file that belong to one part of the agent each."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class GateLimits(_Table):
    """`[gate]`: when the device is calm enough for a run. Without the table nothing is waited for.

    `max_load` is what others may use, in cores; `wait_s` how long a run waits for calm before it
    starts all the same; `cool_down_s` a rest between two attempts.
    """

    enabled: bool = True
    max_load: float = Field(default=0.5, gt=0)
    max_temperature_c: float = Field(default=85.0, gt=0)
    min_memory_bytes: int = Field(default=256 << 20, ge=0)
    wait_s: float = Field(default=30.0, ge=0, le=3600)
    cool_down_s: float = Field(default=0.0, ge=0, le=3600)


class MeasureTable(_Table):
    """`[measure]`: on which cores load_and_run runs."""

    cores: Literal["auto"] | list[int] = "auto"


class CacheTable(_Table):
    """`[cache]`: how much of the disk is kept for files that were downloaded before; 0: none."""

    size_bytes: int = Field(default=10 << 30, ge=0)


class RunLimits(_Table):
    """`[limits]`: what ends a run. 0 turns a limit off.

    `silence_s`: without output and without CPU time. `disk_bytes`: what it adds to its folder.
    `print_bytes`: what it prints. `processes`: how many it has at the same time.
    """

    silence_s: float = Field(default=60.0, ge=0)
    disk_bytes: int = Field(default=4 << 30, ge=0)
    print_bytes: int = Field(default=64 << 20, ge=0)
    processes: int = Field(default=256, ge=0)


class ScriptTable(_Table):
    """`[scripts]`: whether tasks may run programs here, which is more than to load a model."""

    allow: bool = False


class COprLibrary(_Table):
    """One `[[c_opr_lib]]`: a library of custom operators that a task may ask for by name."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")
    path: str = Field(min_length=1)
