"""A task's Python program in place of a model: how it is called, and what is recorded of it."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from agent.protocol.contents import Frozen

#: what MegEngine's Profiler writes, and the artifact that an attempt keeps it as
TraceFormat = Literal["chrome_timeline.json", "memory_flow.svg"]
MAX_ARGUMENTS = 64
#: without control characters but tab and newline (of browsers CR and LF): no command line needs
#: them, and each takes six bytes of a frame
Argument = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$")]
#: path of a program within its zip: plain names, no way out of its folder
EntryPath = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_. -]{0,99}/){0,10}[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}\.py$"
    ),
]


class Script(Frozen):
    """`entry` names the program within a zip; None for a `.py` alone.

    `formats`: each is recorded in a run of its own, since MegEngine 1.13 crashes when one Profiler
    writes two. `sample_rate`: memory is counted every so many operators, 0 for never.
    `profile_device`: the device's times are recorded too. `time_limit_s`: what its user allows, of
    all runs together; 0 for what the site allows. The order's `timeout_s` has it already.
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
