"""Measure the peak performance of a device with a runtime: FLOP/s by dtype, bytes/s of a copy.

load_and_run itself runs operators of known size, like a task: on the same cores, in one thread,
with fast_run and a profile. The fastest operator counts. So the figures are those of MegEngine's
own kernels, and use the same clock as the operator times in a profile.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent.device.cores import as_list
from agent.runtimes.command import arguments_for, command_for
from agent.runtimes.describe import RuntimeDescription
from agent.runtimes.peak_models import LARGE, MAKE
from agent.runtimes.trial import run_briefly

DeviceKind = Literal["cpu", "cuda"]

#: time limit of the whole measurement; an idle device takes 7 s
LIMIT_S = 30.0
_MODEL_LIMIT_S = 20.0
#: load average per core before the measurement; above it, the figures are too low
_QUIET_LOAD = 0.5
_MEMORY_LIMIT_KIB = 3 << 20
#: shorter operators are not counted: they reduce the models' results, and clocks have 1 us ticks
_LEAST_S = 50e-6
_COMPUTING = frozenset({"MatrixMul", "ConvolutionForward", "ConvBiasForward"})
#: below this, float16 has no native kernel, and the larger product would take minutes
_NATIVE_KERNEL_FLOPS = 5e9
#: name of the model -> dtype in profiles
_DTYPES = {"float32": "Float32", "float16": "Float16", "int8": "QuantizedS8"}

Record = dict[str, Any]


@dataclass
class PeakTrial:
    """Result for one device kind with one runtime.

    peak_flops: FLOP/s per dtype, named as in profiles; a multiply-add counts as 2
    copies: bytes/s (read plus written) per size of the tensor in bytes
    notes: reasons why a dtype has no figure
    """

    device: DeviceKind
    peak_flops: dict[str, float] = field(default_factory=dict)
    copies: dict[int, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def problem(self) -> str:
        """The reason why the measurement failed; empty if it succeeded."""
        if "Float32" in self.peak_flops and self.copy_bytes_s:
            return ""
        return "; ".join(self.notes) or "no operator was timed"

    @property
    def copy_bytes_s(self) -> float:
        """The speed for the largest tensor, which does not fit into any cache."""
        return self.copies.get(max(self.copies, default=0), 0.0)

    def record(self) -> Record:
        """Return the record for the check's result and for the server (`MeasuredRoofs`)."""
        return {
            "device": self.device,
            "peak_flops": self.peak_flops,
            "copy_bytes_s": self.copy_bytes_s,
            "copies": {str(size): speed for size, speed in sorted(self.copies.items())},
            "notes": self.notes,
            "measured_at": round(time.time(), 3),
        }


def measure_peaks(
    runtime: RuntimeDescription,
    makers: Iterable[str],
    device: DeviceKind = "cpu",
    cores: Sequence[int] = (),
) -> PeakTrial:
    """Measure the peak performance; takes seconds at full load. Never raises.

    makers: interpreters with MegEngine, one of which makes the models
    cores: the cores of the runs, empty for all
    """
    trial = PeakTrial(device)
    load = os.getloadavg()[0]
    if load > _QUIET_LOAD * (os.cpu_count() or 1):
        trial.notes.append(f"others used the device (load {load:.1f}): measure it again when idle")
    deadline = time.monotonic() + LIMIT_S
    with tempfile.TemporaryDirectory(prefix="mgw-roofs-") as folder:
        measurement = _PeakMeasurement(
            runtime, tuple(makers), trial, Path(folder), tuple(cores), deadline
        )
        measurement.make("float32", "float16_small", "int8")
        measurement.run("float32")
        if measurement.run("float16_small", "float16") >= _NATIVE_KERNEL_FLOPS:
            measurement.make("float16")
            measurement.run("float16")
        measurement.run("int8")
    return trial


@dataclass(frozen=True)
class _PeakMeasurement:
    runtime: RuntimeDescription
    makers: tuple[str, ...]
    trial: PeakTrial
    folder: Path
    cores: tuple[int, ...]
    deadline: float

    def make(self, *names: str) -> None:
        """Make the models; a model that this version cannot build has no file afterwards."""
        for maker in self.makers:
            command = [maker, "-c", MAKE, str(self.folder), self.trial.device, *names]
            _, ending, _ = run_briefly(self._bound(command), self.folder, self._left_s())
            if any((self.folder / f"{name}.mge").is_file() for name in names):
                return
            self.trial.notes.append(f"models were not made: {ending}")

    def run(self, model: str, name: str = "") -> float:
        """Run a model, record its fastest operator; return that one's FLOP/s, 0 on failure."""
        name = name or model
        file, profile = self.folder / f"{model}.mge", self.folder / f"{model}.json"
        if not file.is_file():
            return 0.0
        arguments = [file.name, "--input=data:data.npy", "--warmup_iter=1", "--iter=1"]
        arguments += [f"--profile={profile.name}", f"--{self.trial.device}"]
        if not self.runtime.flags or "fast_run" in self.runtime.flags:
            arguments.append("--fast_run")
        path = str(Path(self.runtime.path).absolute())
        command = self._bound(
            [*command_for(self.runtime.kind, path), *arguments_for(self.runtime.style, arguments)]
        )
        limit_s = min(_MODEL_LIMIT_S, self._left_s())
        code, ending, _ = run_briefly(command, self.folder, limit_s)
        if code != 0:
            self.trial.notes.append(f"{name}: {ending}")
            return 0.0
        return self._read(profile, name)

    def _read(self, profile: Path, name: str) -> float:
        try:
            operators = list(_operators(json.loads(profile.read_bytes())))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self.trial.notes.append(f"{name}: no profile can be read ({type(error).__name__})")
            return 0.0
        best = max(
            (operator.flops for operator in operators if operator.kind in _COMPUTING), default=0.0
        )
        if best:
            self.trial.peak_flops[_DTYPES[name]] = best
        if name == "float32":
            self._read_copies(operators)
        return best

    def _read_copies(self, operators: list["_TimedOperator"]) -> None:
        largest = LARGE[self.trial.device]
        for operator in operators:
            size = operator.memory // 2
            if operator.kind == "Elemwise" and size in (largest, largest // 4):
                speed = max(self.trial.copies.get(size, 0.0), operator.memory / operator.time_s)
                self.trial.copies[size] = speed

    def _bound(self, command: list[str]) -> list[str]:
        limited = ["/bin/sh", "-c", f'ulimit -v {_MEMORY_LIMIT_KIB}; exec "$0" "$@"', *command]
        # without a limit on a GPU, whose driver reserves much address space
        limited = limited if self.trial.device == "cpu" else command
        return ["taskset", "-c", as_list(self.cores), *limited] if self.cores else limited

    def _left_s(self) -> float:
        return max(self.deadline - time.monotonic(), 1.0)


@dataclass(frozen=True)
class _TimedOperator:
    kind: str
    time_s: float
    computation: float
    memory: int

    @property
    def flops(self) -> float:
        return self.computation / self.time_s


def _operators(profile: Record) -> Iterator[_TimedOperator]:
    """Yield the operators of a profile that took long enough for an accurate time."""
    timed, footprints = profile["profiler"]["device"], profile["profiler"]["opr_footprint"]
    for key, operator in profile["graph_exec"]["operator"].items():
        # from the first kernel on; before it, an operator waits
        times = [interval["end"] - interval["kern"] for interval in timed.get(key, {}).values()]
        footprint = footprints.get(key, {})
        if times and max(times) >= _LEAST_S:
            yield _TimedOperator(
                kind=str(operator["type"]),
                time_s=float(max(times)),
                computation=float(footprint.get("computation") or 0),
                memory=int(footprint.get("memory") or 0),
            )
