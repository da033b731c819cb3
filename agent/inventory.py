"""Determine the usable runtimes of this device from the configuration."""

import contextlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from agent.config import RuntimeEntry
from agent.protocol import Facts, MeasuredRoofs, RuntimeInfo
from agent.protocol.option_table import Capabilities
from agent.runtimes.command import Style, arguments_for, command_for
from agent.runtimes.config_file import Record, roofs_in
from agent.runtimes.describe import RuntimeDescription, describe_binary, describe_wheel

#: builds that require a GPU
_FOR_GPUS = ("cuda", "tensorrt")


@dataclass(frozen=True)
class Runtime:
    """A runtime as reported to the server, and its command, to which arguments are appended.

    `path` is the interpreter of a wheel, or the compiled binary.
    """

    info: RuntimeInfo
    command: tuple[str, ...]
    style: Style = "gflags"
    path: str = ""

    def capabilities(self, facts: Facts) -> Capabilities:
        """Return the capabilities that decide which options are available."""
        return Capabilities(
            kind=self.info.kind,
            version=self.info.version,
            flags=frozenset(self.info.flags),
            builds=frozenset(self.info.builds),
            libraries=frozenset(self.info.libraries),
            cpu_model=facts.cpu_model,
            cores=facts.cores,
        )

    @property
    def tells_inputs(self) -> bool:
        """Whether it can be asked what a model's inputs are: from 1.5 on."""
        return not self.info.flags or "model_info" in self.info.flags

    def command_line(self, arguments: Sequence[str]) -> list[str]:
        """The whole command, in the form that this version reads."""
        return [*self.command, *arguments_for(self.style, arguments)]


def take_inventory(
    entries: Iterable[RuntimeEntry],
    libraries: Iterable[str] = (),
    checks: Mapping[str, Record] | None = None,
    *,
    has_gpu: bool = False,
) -> dict[str, Runtime]:
    """Look at each configured runtime, by version. Starts interpreters: takes seconds.

    `libraries`: names of the C operator libraries that the configuration lists. `checks`: what
    `agent runtime check` found, by version. Without a GPU a build for one is worth nothing.
    """
    listed = tuple(sorted(libraries))
    runtimes = {entry.version: _look_at(entry, listed, has_gpu=has_gpu) for entry in entries}
    return {
        version: _with_roofs(runtime, (checks or {}).get(version, {}))
        for version, runtime in runtimes.items()
    }


def describe_entry(entry: RuntimeEntry) -> tuple[RuntimeDescription, str]:
    """Ask a configured runtime what it is; why it cannot be used, empty if it can."""
    if entry.problem or not entry.path:
        description = RuntimeDescription("", entry.kind, entry.path, problem=entry.problem)
    else:
        description = (describe_wheel if entry.kind == "wheel" else describe_binary)(entry.path)
    # a figure measured with another version than the reader is told would be worse than none
    if description.problem or not description.version or description.version == entry.version:
        return description, description.problem
    says = f"the configuration says {entry.version}: correct `version` there"
    return description, f"{entry.path} is MegEngine {description.version}, {says}"


def _look_at(entry: RuntimeEntry, libraries: tuple[str, ...], *, has_gpu: bool) -> Runtime:
    description, problem = describe_entry(entry)
    if problem or not entry.path:
        info = RuntimeInfo(version=entry.version, kind=entry.kind, problem=problem[:500])
        return Runtime(info, ())
    info = RuntimeInfo(
        version=entry.version,
        kind=entry.kind,
        python=description.python[:40],
        flags=description.flags,
        builds=tuple(build for build in description.builds if has_gpu or build not in _FOR_GPUS),
        libraries=libraries,
    )
    command = [*_line_by_line(description), *command_for(entry.kind, entry.path)]
    return Runtime(info, tuple(command), description.style, entry.path)


def _with_roofs(runtime: Runtime, check: Record) -> Runtime:
    """Add what was measured of this very runtime; what is no measurement is left out."""
    roofs = []
    for record in roofs_in(check, runtime.path) if runtime.path else []:
        with contextlib.suppress(ValidationError):
            roofs.append(MeasuredRoofs.model_validate(record))
    return replace(runtime, info=runtime.info.model_copy(update={"roofs": tuple(roofs[:4])}))


def _line_by_line(description: RuntimeDescription) -> list[str]:
    """Up to 1.10 the log goes to stdout, and what is still buffered is lost in an abort."""
    version = tuple(map(int, description.version.split(".")[:2]))
    stdbuf = shutil.which("stdbuf")
    return [stdbuf, "-oL"] if description.kind == "binary" and version < (1, 11) and stdbuf else []
