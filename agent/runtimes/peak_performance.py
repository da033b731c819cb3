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

from agent.device.cores import format_cores
from agent.runtimes.describe import RuntimeDescription
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
#: size of the largest copied tensors in bytes; the others have a quarter of it
_LARGE = {"cpu": 64 << 20, "cuda": 256 << 20}

#: makes the models whose operators are measured: `python -c _MAKE folder device name...` writes
#: `<name>.mge` for each model that the version of MegEngine can build, and the common input
#: `data.npy`. For the operator sizes in these models, the FLOPs and bytes that MegEngine reports
#: are correct.
#:
#: - float32: matrix products; elementwise operators that read one tensor and write another, like a
#:   copy, for tensors of `_LARGE` bytes (more than any cache) and of a quarter of it
#: - float16_small, float16: matrix products; the small model runs first, because without native
#:   kernels float16 is a thousand times slower (0.2 GFLOP/s on x86)
#: - int8: 1x1 convolutions of QuantizedS8, which are matrix products; MegEngine multiplies such
#:   matrices in convolutions only
_MAKE = """\
import sys
import numpy as np
import megengine as mge
import megengine.functional as F
from megengine.core.tensor import dtype as dtypes
from megengine.jit import trace

folder, device, names = sys.argv[1], sys.argv[2], sys.argv[3:]
side, channels, copies = (512, 256, 64) if device == "cpu" else (2048, 512, 16)
random = np.random.RandomState(0)
data = random.rand(copies, side, side).astype("float32")
np.save(folder + "/data.npy", data)

def tensor(*shape):
    return mge.tensor((random.rand(*shape) / shape[-1]).astype("float32"))

weight, kernel = tensor(side, side), tensor(channels, channels, 1, 1)
picture = (1, channels, side, side // channels)

def float32(x):
    product = x[0]
    for _ in range(8):
        product = F.matmul(product, weight)
    total = product.sum()
    # MegEngine may compute in place, but not in the memory of an input
    for tensors in (x[: copies // 4], x):
        for copy in (F.relu(tensors), -tensors, F.abs(tensors), tensors + 1, tensors * 2):
            total = total + copy.sum()
    return total

def products_of_float16(size):
    half = tensor(size, size).astype("float16")
    def float16(x):
        x = x[0, :size, :size].astype("float16")
        for _ in range(4):
            x = F.matmul(x, half)
        return x.astype("float32").sum()
    return float16

def int8(x):
    narrow, wide = dtypes.qint8(0.1), dtypes.qint32(0.01)
    weights = (kernel * 100).astype(narrow)
    bias = mge.tensor(np.zeros((1, channels, 1, 1), "float32")).astype(wide)
    x = F.reshape(x[0], picture).astype(narrow)
    for _ in range(6):
        x = F.quantized.conv_bias_activation(x, weights, bias, dtype=narrow)
    return x.astype("float32").sum()

models = {
    "float32": float32,
    "float16_small": products_of_float16(64),
    "float16": products_of_float16(side),
    "int8": int8,
}
for name in names:
    try:
        traced = trace(symbolic=True, capture_as_const=True)(models[name])
        traced(mge.tensor(data))
        path = folder + "/" + name + ".mge"
        how = dict(arg_names=["data"], optimize_for_inference=False)
        try:
            traced.dump(path, dump_format="FBS", **how)
        except TypeError:
            traced.dump(path, **how)
    except Exception as error:
        print(name, type(error).__name__, str(error)[:200])
"""

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
        trial.notes.append(f"the device was in use (load {load:.1f}): measure it again when idle")
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
            command = [maker, "-c", _MAKE, str(self.folder), self.trial.device, *names]
            _, ending, _ = run_briefly(self._bound(command), self.folder, self._left_s())
            if any((self.folder / f"{name}.mge").is_file() for name in names):
                return
            self.trial.notes.append(f"models could not be created: {ending}")

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
        command = self._bound(self.runtime.command_line(arguments))
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
            self.trial.notes.append(f"{name}: cannot read the profile ({type(error).__name__})")
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
        largest = _LARGE[self.trial.device]
        for operator in operators:
            size = operator.memory // 2
            if operator.kind == "Elemwise" and size in (largest, largest // 4):
                speed = max(self.trial.copies.get(size, 0.0), operator.memory / operator.time_s)
                self.trial.copies[size] = speed

    def _bound(self, command: list[str]) -> list[str]:
        # the driver of a GPU reserves more address space, and MegEngine makes models on a GPU that
        # it sees
        limit = f'ulimit -v {_MEMORY_LIMIT_KIB}; export CUDA_VISIBLE_DEVICES=; exec "$0" "$@"'
        is_limited = self.trial.device == "cpu"
        limited = ["/bin/sh", "-c", limit, *command] if is_limited else command
        return ["taskset", "-c", format_cores(self.cores), *limited] if self.cores else limited

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
