"""Script tasks: how a Python program is called, and which traces of it are recorded."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from agent.protocol.message_parts import Frozen

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

    `formats`: the traces to record, each in a run of its own, because MegEngine 1.13 crashes if one
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
