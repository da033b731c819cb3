"""Determine the usable runtimes of this device from the configuration."""

import contextlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from agent.config import RuntimeEntry
from agent.protocol.messages import Facts, MeasuredRoofs, RuntimeInfo
from agent.protocol.notes import Note
from agent.protocol.options import OPTIONS, Capabilities
from agent.runtimes.command import Style, arguments_for, command_for
from agent.runtimes.config_file import CheckRecord, peaks_in
from agent.runtimes.describe import RuntimeDescription, describe_binary, describe_wheel

#: builds that require a GPU
_FOR_GPUS = ("cuda", "tensorrt")


@dataclass(frozen=True)
class LocalRuntime:
    """A runtime of this device: its description for the server and its command.

    `command` lacks the arguments; it is empty if the runtime is unusable. `path` is the interpreter
    of a wheel, or the compiled binary.
    """

    info: RuntimeInfo
    command: tuple[str, ...]
    style: Style = "gflags"
    path: str = ""

    def capabilities(self, facts: Facts) -> Capabilities:
        """Return the capabilities that decide which options are available."""
        return Capabilities(
            kind=self.info.kind,
            flags=frozenset(self.info.flags),
            builds=frozenset(self.info.builds),
            libraries=frozenset(self.info.libraries),
            cpu_model=facts.cpu_model,
            run_cores=facts.run_cores,
        )

    @property
    def is_usable_wheel(self) -> bool:
        return bool(self.command) and self.info.kind == "wheel"

    @property
    def can_print_inputs(self) -> bool:
        """Whether load_and_run can print a model's inputs (`--model_info`, since 1.5)."""
        return not self.info.flags or "model_info" in self.info.flags

    def command_line(self, arguments: Sequence[str]) -> list[str]:
        """Return the whole command, in the syntax of this version."""
        return [*self.command, *arguments_for(self.style, arguments)]


def take_inventory(
    entries: Iterable[RuntimeEntry],
    libraries: Iterable[str] = (),
    checks: Mapping[str, CheckRecord] | None = None,
    *,
    has_gpu: bool = False,
) -> dict[str, LocalRuntime]:
    """Describe each configured runtime, by version. Starts interpreters, which takes seconds.

    `libraries` are the names of the configured C operator libraries. `checks` are the results of
    `agent runtime check` by version. Without a GPU, builds for GPUs are left out.
    """
    listed = tuple(sorted(libraries))
    runtimes = {entry.version: _describe(entry, listed, has_gpu=has_gpu) for entry in entries}
    return {
        version: _with_peaks(runtime, (checks or {}).get(version, {}))
        for version, runtime in runtimes.items()
    }


def describe_entry(entry: RuntimeEntry) -> tuple[RuntimeDescription, Note | None]:
    """Describe a configured runtime; return also the reason if it is unusable."""
    if entry.problem or not entry.path:
        configured = Note.of("configured", text=entry.problem) if entry.problem else None
        description = RuntimeDescription("", entry.kind, entry.path, problem=configured)
    else:
        description = (describe_wheel if entry.kind == "wheel" else describe_binary)(entry.path)
    # a result with the wrong version would be worse than none
    if description.problem or not description.version or description.version == entry.version:
        return description, description.problem
    versions = {"version": description.version, "configured": entry.version}
    return description, Note.of("version_differs", path=entry.path, **versions)


def _describe(entry: RuntimeEntry, libraries: tuple[str, ...], *, has_gpu: bool) -> LocalRuntime:
    description, problem = describe_entry(entry)
    if problem or not entry.path:
        info = RuntimeInfo(version=entry.version, kind=entry.kind, problem=problem)
        return LocalRuntime(info, ())
    info = RuntimeInfo(
        version=entry.version,
        kind=entry.kind,
        python=description.python[:40],
        # the wheel's load_and_run is ours: it supports our table, of which a later server has more
        flags=description.flags or tuple(OPTIONS),
        builds=tuple(build for build in description.builds if has_gpu or build not in _FOR_GPUS),
        libraries=libraries,
    )
    command = [*_line_buffering(description), *command_for(entry.kind, entry.path)]
    return LocalRuntime(info, tuple(command), description.style, entry.path)


def _with_peaks(runtime: LocalRuntime, check: CheckRecord) -> LocalRuntime:
    """Add the peak performance measured with this runtime; skip invalid records."""
    peaks = []
    for record in peaks_in(check, runtime.path) if runtime.path else []:
        with contextlib.suppress(ValidationError):
            peaks.append(MeasuredRoofs.model_validate(record))
    return replace(runtime, info=runtime.info.model_copy(update={"roofs": tuple(peaks[:4])}))


def _line_buffering(description: RuntimeDescription) -> list[str]:
    """Return a stdbuf command for versions up to 1.10.

    They log to stdout, and an abort would discard the buffered part of the log.
    """
    version = tuple(map(int, description.version.split(".")[:2]))
    stdbuf = shutil.which("stdbuf")
    return [stdbuf, "-oL"] if description.kind == "binary" and version < (1, 11) and stdbuf else []
