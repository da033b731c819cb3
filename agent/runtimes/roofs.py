"""What a device reaches at best with a runtime: FLOP/s by dtype, and bytes/s of a copy.

Operators of known size are run by load_and_run itself, on the same cores, in one thread, with
fast_run and a profile, as tasks run theirs; the best operator counts. So the figures are those of
MegEngine's own kernels, and by the same clock as an operator's time in a profile.
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
from agent.runtimes.roof_models import LARGE, MAKE
from agent.runtimes.trial import run_briefly

Device = Literal["cpu", "cuda"]

#: for all of it; on a device with nothing else to do it takes 7 s
LIMIT_S = 30.0
_MODEL_LIMIT_S = 20.0
#: load average for each core, before; above it, the figures are lower than they could be
_QUIET_LOAD = 0.5
_MEMORY_LIMIT_KIB = 3 << 20
#: shorter operators are those of the models' ends; the clock of a processor ticks in 1 us
_LEAST_S = 50e-6
_COMPUTING = frozenset({"MatrixMul", "ConvolutionForward", "ConvBiasForward"})
#: a roof of float16 below this is no kernel of its own: a larger product would take minutes
_REAL_KERNEL_FLOPS = 5e9
#: name of the model -> dtype as profiles name it
_DTYPES = {"float32": "Float32", "float16": "Float16", "int8": "QuantizedS8"}

Record = dict[str, Any]


@dataclass
class RoofsTrial:
    """One device with one runtime.

    peak_flops: FLOP/s by dtype as profiles name it; a multiply-add counts as 2
    copies: bytes/s by the tensor's size in bytes; each byte read and each byte written counts
    notes: why a dtype has no figure
    """

    device: Device
    peak_flops: dict[str, float] = field(default_factory=dict)
    copies: dict[int, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def problem(self) -> str:
        """Why there are no roofs; empty if there are."""
        if "Float32" in self.peak_flops and self.copy_bytes_s:
            return ""
        return "; ".join(self.notes) or "no operator was timed"

    @property
    def copy_bytes_s(self) -> float:
        """Of the largest tensor, which no cache holds."""
        return self.copies.get(max(self.copies, default=0), 0.0)

    def record(self) -> Record:
        """As it is kept and sent."""
        return {
            "device": self.device,
            "peak_flops": self.peak_flops,
            "copy_bytes_s": self.copy_bytes_s,
            "copies": {str(size): speed for size, speed in sorted(self.copies.items())},
            "notes": self.notes,
            "measured_at": round(time.time(), 3),
        }


def measure_roofs(
    runtime: RuntimeDescription,
    makers: Iterable[str],
    device: Device = "cpu",
    cores: Sequence[int] = (),
) -> RoofsTrial:
    """Measure; takes seconds and uses the device fully. Never raises.

    makers: interpreters with MegEngine, one of which makes the models
    cores: those that tasks are measured on, all if empty
    """
    trial = RoofsTrial(device)
    load = os.getloadavg()[0]
    if load > _QUIET_LOAD * (os.cpu_count() or 1):
        trial.notes.append(f"others used the device (load {load:.1f}): measure it again when idle")
    deadline = time.monotonic() + LIMIT_S
    with tempfile.TemporaryDirectory(prefix="mgw-roofs-") as folder:
        bench = _Bench(runtime, tuple(makers), trial, Path(folder), tuple(cores), deadline)
        bench.make("float32", "float16_small", "int8")
        bench.run("float32")
        if bench.run("float16_small", "float16") >= _REAL_KERNEL_FLOPS:
            bench.make("float16")
            bench.run("float16")
        bench.run("int8")
    return trial


@dataclass(frozen=True)
class _Bench:
    runtime: RuntimeDescription
    makers: tuple[str, ...]
    trial: RoofsTrial
    folder: Path
    cores: tuple[int, ...]
    deadline: float

    def make(self, *names: str) -> None:
        """Have the models made; those that cannot be are missing."""
        for maker in self.makers:
            command = [maker, "-c", MAKE, str(self.folder), self.trial.device, *names]
            _, ending, _ = run_briefly(self._bound(command), self.folder, self._left_s())
            if any((self.folder / f"{name}.mge").is_file() for name in names):
                return
            self.trial.notes.append(f"models were not made: {ending}")

    def run(self, model: str, name: str = "") -> float:
        """Run a model and note the best of its operators; return its FLOP/s, 0 if it fails."""
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

    def _read_copies(self, operators: list["_Operator"]) -> None:
        largest = LARGE[self.trial.device]
        for operator in operators:
            size = operator.memory // 2
            if operator.kind == "Elemwise" and size in (largest, largest // 4):
                speed = max(self.trial.copies.get(size, 0.0), operator.memory / operator.time_s)
                self.trial.copies[size] = speed

    def _bound(self, command: list[str]) -> list[str]:
        limited = ["/bin/sh", "-c", f'ulimit -v {_MEMORY_LIMIT_KIB}; exec "$0" "$@"', *command]
        # a GPU's driver reserves addresses without end
        limited = limited if self.trial.device == "cpu" else command
        return ["taskset", "-c", as_list(self.cores), *limited] if self.cores else limited

    def _left_s(self) -> float:
        return max(self.deadline - time.monotonic(), 1.0)


@dataclass(frozen=True)
class _Operator:
    kind: str
    time_s: float
    computation: float
    memory: int

    @property
    def flops(self) -> float:
        return self.computation / self.time_s


def _operators(profile: Record) -> Iterator[_Operator]:
    """The operators of a profile that took long enough to be timed."""
    timed, footprints = profile["profiler"]["device"], profile["profiler"]["opr_footprint"]
    for key, operator in profile["graph_exec"]["operator"].items():
        # before its first kernel, an operator waits
        times = [interval["end"] - interval["kern"] for interval in timed.get(key, {}).values()]
        footprint = footprints.get(key, {})
        if times and max(times) >= _LEAST_S:
            yield _Operator(
                kind=str(operator["type"]),
                time_s=float(max(times)),
                computation=float(footprint.get("computation") or 0),
                memory=int(footprint.get("memory") or 0),
            )
