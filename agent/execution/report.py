"""Write `measurement.json` and `manifest.json` of an attempt."""

import contextlib
import logging
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from agent import __version__
from agent.device.canary import CanaryChecks
from agent.device.cores import CoresUnavailable, available_cores
from agent.device.observe import Observer
from agent.device.process_table import read_text
from agent.device.settings import Machine, read_settings
from agent.execution.measure import PassResults
from agent.execution.runner import Limits
from agent.execution.sandbox import Sandbox
from agent.execution.script_sandbox import ClosedSandbox
from agent.inventory import LocalRuntime
from agent.link.cache import sha256_of
from agent.protocol.artifacts import MANIFEST_NAME, MEASUREMENT_NAME
from agent.protocol.measurement import Measurement
from agent.protocol.messages import (
    MAX_PHASES,
    PROTOCOL_VERSION,
    Facts,
    Frozen,
    Phase,
    Script,
    Sha256,
    Start,
    StoredFile,
)
from agent.protocol.notes import Note
from agent.protocol.options import Value
from agent.protocol.pairs import ARM_NAMES, Pairing
from agent.protocol.plan import Plan
from agent.tune import TuneError, read_tuning

log = logging.getLogger(__name__)

#: environment variables that affect the speed of a model or the choice of libraries
_ENVIRONMENT = ("LD_LIBRARY_PATH", "CUDA_", "MGB_", "MGE_", "OMP_", "MKL_", "LANG")


class FileRecord(Frozen):
    """A file that the device downloaded, with the input variable or option that it was used for."""

    name: str
    input: str = ""
    option: str = ""
    size_bytes: int
    sha256: Sha256


class InputRecord(Frozen):
    """The array that was passed as one input variable, and where its values come from."""

    name: str
    source: Literal["file", "literal", "random"]
    dtype: str = ""
    shape: tuple[int, ...] = ()
    sha256: str = ""


class ArmManifest(Frozen):
    """Fields of an arm of a paired comparison, which replace those of `Manifest`."""

    name: str
    files: tuple[FileRecord, ...] = ()
    inputs: tuple[InputRecord, ...] = ()
    options: dict[str, Value] = Field(default_factory=dict)
    runtime: dict[str, Any] = Field(default_factory=dict)


class SettingRecord(Frozen):
    """A setting of the kernel; `former` is its value before `agent tune`, empty if not tuned."""

    name: str
    value: str
    former: str = ""


class Manifest(Frozen):
    """The root object of `manifest.json`: everything needed to reproduce an attempt.

    For a paired comparison it describes the baseline, and `arms` the others.
    """

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
    pairing: Pairing | None = None
    arms: tuple[ArmManifest, ...] = ()
    script: Script | None = None
    commands: tuple[str, ...] = ()
    runtime: dict[str, Any] = Field(default_factory=dict)
    host: dict[str, Any] = Field(default_factory=dict)
    settings: tuple[SettingRecord, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    limits: dict[str, Any] = Field(default_factory=dict)
    sandbox: str = ""


@dataclass
class Report:
    """The data of both files, collected during the attempt and written after any end of it.

    For a paired comparison it describes the baseline, and `arms` are the reports of the others.
    """

    order: Start
    facts: Facts
    runtime: LocalRuntime
    limits: Limits
    sandbox: Sandbox
    #: the spool, in which `agent tune` stores the former settings of the kernel
    spool: Path
    options: dict[str, Value] = field(default_factory=dict)
    received: tuple[StoredFile, ...] = ()
    inputs: tuple[InputRecord, ...] = ()
    notes: tuple[Note, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    passes: PassResults = field(default_factory=PassResults)
    observer: Observer | None = None
    canary: CanaryChecks | None = None
    #: begin and duration of the download; the duration is None if it failed
    begun_at: float = 0.0
    download_s: float | None = None
    arm: int = 0
    arms: list["Report"] = field(default_factory=list)

    def add_arm(self, order: Start, runtime: LocalRuntime, options: dict[str, Value]) -> "Report":
        """Return the report of a further arm of a paired comparison, which this one includes."""
        number = len(self.arms) + 1
        arm = replace(self, order=order, runtime=runtime, options=options, arm=number, arms=[])
        self.arms.append(arm)
        return arm

    def phases(self) -> tuple[Phase, ...]:
        """Return the finished phases: the download and the passes."""
        phases = []
        if self.download_s is not None:
            phases.append(_phase("download", self.begun_at, self.download_s))
        phases += [
            _phase(f"pass {record.kind}", record.started_at, record.run_s)
            for record in self.passes.records
        ]
        # one is left for the upload
        return tuple(phases[: MAX_PHASES - 1])

    def write(self, folder: Path) -> None:
        """Write both files. Hashes the runtime's program: call it in a thread.

        A write error, such as a full disk, is logged, and no partial file is left behind.
        """
        texts = {
            MEASUREMENT_NAME: self.measurement().model_dump_json(),
            MANIFEST_NAME: self.manifest().model_dump_json(indent=1) + "\n",
        }
        for name, text in texts.items():
            try:
                (folder / name).write_text(text, encoding="utf-8")
            except OSError as exc:
                # the end of the attempt is still reported
                log.warning("report_not_written cause=%r", exc.strerror)
                (folder / name).unlink(missing_ok=True)
                return

    def measurement(self) -> Measurement:
        observer = self.observer
        observation = observer.observation if observer else None
        return Measurement(
            plan=self.order.plan,
            passes=tuple(self.passes.records),
            gate=observer.gate.to_json() if observer else {},
            device=observation.to_json() if observation else {},
            disturbances=(
                *(observation.disturbances if observation else ()),
                *(self.canary.disturbances() if self.canary else ()),
            ),
            other_load=observation.other_load if observation else None,
            canary=self.canary.record if self.canary else None,
            notes=(*self._input_notes(), *self.passes.notes)[:50],
        )

    def _input_notes(self) -> Iterator[Note]:
        """Yield the notes about inputs; those that only some arms have name their arm."""
        reports = (self, *self.arms)
        for report in reports:
            for note in report.notes:
                if any(note not in other.notes for other in reports):
                    yield Note.of("of_arm", arm=ARM_NAMES[report.arm], note=note)
                elif report is self:
                    yield note

    def manifest(self) -> Manifest:
        order, cores = self.order, self.limits.cores
        # this process may itself be bound, to the cores that runs do not use
        machine = Machine(configured=tuple(cores), available=available_cores().union(cores))
        return Manifest(
            attempt=str(order.attempt),
            agent_version=__version__,
            protocol=PROTOCOL_VERSION,
            written_at=time.time(),
            files=self._files(),
            inputs=self.inputs,
            seed=order.seed,
            options=self.options,
            plan=order.plan,
            pairing=order.pairing,
            arms=tuple(arm._as_arm() for arm in self.arms),
            script=order.script,
            commands=self.passes.commands(),
            runtime=_describe_runtime(self.runtime),
            host=_describe_host(self.facts, cores),
            settings=describe_settings(machine, self.spool),
            environment={
                name: value
                for name, value in self.environment.items()
                if name.startswith(_ENVIRONMENT)
            },
            limits=asdict(self.limits),
            sandbox=self._sandbox_words(),
        )

    def _as_arm(self) -> ArmManifest:
        return ArmManifest(
            name=ARM_NAMES[self.arm],
            files=self._files(),
            inputs=self.inputs,
            options=self.options,
            runtime=_describe_runtime(self.runtime),
        )

    def _files(self) -> tuple[FileRecord, ...]:
        digests = {file.name: file.sha256 for file in self.received if file.arm == self.arm}
        return tuple(
            FileRecord(
                name=file.name,
                input=file.input,
                option=file.option,
                size_bytes=file.size_bytes,
                sha256=digests[file.name],
            )
            for file in (self.order.model, *self.order.data)
            if file.name in digests
        )

    def _sandbox_words(self) -> str:
        if not self.sandbox.bwrap:
            return f"none: {self.sandbox.problem}"
        is_closed = isinstance(self.sandbox, ClosedSandbox)
        return "bubblewrap, closed" if is_closed else "bubblewrap"


def _phase(name: str, started_at: float, span_s: float) -> Phase:
    return Phase(name=name, started_at=started_at, ended_at=started_at + span_s)


def _describe_runtime(runtime: LocalRuntime) -> dict[str, Any]:
    """Describe the runtime, with the SHA-256 of a compiled program, since builds may differ."""
    described: dict[str, Any] = runtime.info.model_dump(mode="json", exclude={"problem", "flags"})
    if runtime.info.kind == "binary" and runtime.path:
        # the program may have been removed in the meantime
        with contextlib.suppress(OSError):
            described["sha256"] = sha256_of(Path(runtime.path))
    return described


def _describe_host(facts: Facts, cores: Sequence[int]) -> dict[str, Any]:
    """Describe the device, without its host name and IP address.

    cores: the cores that runs are bound to; empty for all that this process may use
    """
    described: dict[str, Any] = facts.model_dump(mode="json", exclude={"hostname", "ip"})
    described["kernel"] = platform.release()
    described["cpu_flags"] = _cpu_flags()
    # this process may itself be bound, to the cores that runs do not use
    described["allowed_cores"] = sorted(cores or available_cores())
    return described


def describe_settings(machine: Machine, spool: Path) -> tuple[SettingRecord, ...]:
    """Return the kernel's settings and their values before `agent tune`."""
    former: dict[str, str] = {}
    try:
        settings = read_settings(machine)
        if (tuning := read_tuning(spool)) and tuning.boot == machine.boot():
            former = tuning.former
    except CoresUnavailable:
        return ()  # a core of the runs went offline
    except TuneError as exc:
        log.warning("tuning_unknown text=%r", str(exc))
    return tuple(
        SettingRecord(
            name=setting.name,
            value=setting.value,
            former=", ".join(sorted({former[path] for path in setting.files if path in former})),
        )
        for setting in settings
    )


def _cpu_flags() -> list[str]:
    """Return the CPU's instruction sets, which determine MegEngine's choice of kernels."""
    for line in read_text("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return value.split()
    return []
