"""Compare the device with itself before and after each attempt, by a short fixed piece of work.

The work is that of `agent.device.canary_process`. Its times are kept on disk: the newest of them
show how fast this device usually is, and how much that varies (`agent.statistics.canary`). They
start over when the kernel, its clock settings, the cores or the programs of the work change.
"""

import asyncio
import contextlib
import json
import logging
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from agent.device import canary_process
from agent.device.disturbance import DisturbanceCode
from agent.device.settings import Machine, clock_settings
from agent.halting import sleep_unless_halted
from agent.protocol.measurement import Canary, CanaryReading, Disturbance
from agent.protocol.notes import Note
from agent.protocol.numbers import LimitedMilliseconds
from agent.statistics.canary import OwnSpeed, own_speed

log = logging.getLogger(__name__)

#: how long an attempt waits for a device that is not as fast as usual
WAIT_S = 10.0
#: number of readings that show the usual speed, about two for each attempt
_KEPT = 200
#: longest time to start the process, and of one reading
_LONGEST_S = 10.0
_PROGRAM = str(Path(canary_process.__file__).resolve())
#: the work runs in one thread, whichever BLAS numpy has
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_KINDS = ("gemm_ms", "copy_ms", "small_ms")


class _History(BaseModel):
    """The file of readings, the oldest first. The times depend on the `environment`."""

    environment: dict[str, str] = Field(default_factory=dict)
    readings: list[tuple[LimitedMilliseconds, ...]] = Field(default_factory=list)


class DeviceCanary:
    """The process that does the work, and the history of its times in the file `path`.

    Errors are logged, and there is no reading then: they never end an attempt.
    """

    def __init__(
        self, path: Path, cores: Sequence[int] = (), machine: Machine | None = None
    ) -> None:
        self._path, self._cores, self._machine = path, list(cores), machine or Machine()
        self._process: asyncio.subprocess.Process | None = None
        #: versions that the process reports
        self._versions: dict[str, str] = {}
        self._history = _History()

    async def start(self) -> None:
        """Start the process, and read the history of the environment that it reports."""
        try:
            self._process = await self._launch()
            answer = await self._answer(self._process)
        except (OSError, ValueError, TimeoutError) as exc:
            log.warning("canary_not_started cause=%r", str(exc))
            await self.close()
            return
        self._versions = {name: str(value) for name, value in answer.items()}
        self._history = _read_history(self._path)
        self._forget_another_environment()

    async def read(self) -> CanaryReading | None:
        """Return a new reading, and add it to the history; None if there is none."""
        if self._process is None or self._process.returncode is not None:
            await self.start()
        process = self._process
        if process is None or process.stdin is None:
            return None
        try:
            process.stdin.write(b"\n")
            answer = CanaryReading.model_validate(await self._answer(process))
        except (OSError, ValueError, TimeoutError) as exc:
            log.warning("canary_not_read cause=%r", str(exc))
            await self.close()
            return None
        self._history.readings = [*self._history.readings, times_of(answer)][-_KEPT:]
        return answer

    def own_speed(self) -> OwnSpeed | None:
        """Return how fast the device usually is; None as long as it has too few readings."""
        self._forget_another_environment()  # `agent tune` may have changed it
        return own_speed(self._history.readings)

    def _forget_another_environment(self) -> None:
        environment = {
            **self._versions,
            **clock_settings(self._machine),
            "kernel": platform.release(),
            "cores": ",".join(map(str, self._cores)),
        }
        if self._history.environment != environment:
            self._history = _History(environment=environment)

    def keep(self) -> None:
        """Write the history to disk. Blocks: call it in a thread."""
        new = self._path.with_suffix(".new")
        try:
            new.write_text(self._history.model_dump_json(), encoding="utf-8")
            new.replace(self._path)
        except OSError as exc:
            log.warning("canary_not_kept cause=%r", exc.strerror)

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _launch(self) -> asyncio.subprocess.Process:
        # numpy is found where the agent found it; the folder of the program itself has modules
        # that nothing else should import (-P)
        paths = os.pathsep.join(filter(None, sys.path))
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            _PROGRAM,
            json.dumps(self._cores),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **_ONE_THREAD, "PYTHONPATH": paths},
        )

    async def _answer(self, process: asyncio.subprocess.Process) -> dict[str, object]:
        """Read one line of the process. Raises ValueError, TimeoutError."""
        if process.stdout is None:
            raise ValueError("no pipe")
        async with asyncio.timeout(_LONGEST_S):
            line = await process.stdout.readline()
        answer = json.loads(line)
        if not isinstance(answer, dict):
            raise ValueError(f"not an object: {line[:100]!r}")  # noqa: TRY004
        return answer


class CanaryChecks:
    """The readings of one attempt. `record` is for the result, None without readings."""

    def __init__(self, canary: DeviceCanary | None, halted: asyncio.Event) -> None:
        self._canary, self._halted = canary, halted
        self._usual: OwnSpeed | None = None
        self.record: Canary | None = None

    async def before(self) -> None:
        """Read before the passes; if the device is not as fast as usual, wait and read again."""
        if self._canary is None:
            return
        # the speed that is known now decides about the whole attempt
        self._usual = self._canary.own_speed()
        reading, waited_s = await self._read(self._canary), 0.0
        if reading is not None and not self._is_usual(reading):
            waited_s = await sleep_unless_halted(WAIT_S, self._halted)
            reading = await self._read(self._canary)
        if reading is not None:
            low, high = (self._usual.low, self._usual.high) if self._usual else (None, None)
            self.record = Canary(before=reading, low=low, high=high, waited_s=waited_s)

    async def after(self) -> bool:
        """Read after the passes; return whether the device is as fast as usual, as far as known."""
        if self._canary is None or self.record is None:
            return True
        reading = await self._read(self._canary)
        self.record = self.record.model_copy(update={"after": reading})
        return reading is None or self._is_usual(reading)

    def repeated(self) -> None:
        """Note that the passes are repeated."""
        if self.record is not None:
            self.record = self.record.model_copy(update={"repeated": True})

    async def end(self) -> None:
        """Keep the readings for later attempts."""
        if self._canary is not None and self.record is not None:
            await asyncio.to_thread(self._canary.keep)

    def disturbances(self) -> tuple[Disturbance, ...]:
        """Return a disturbance if the device is not as fast as usual after the passes."""
        reading = self.record.after if self.record else None
        if reading is None or reading.share is None or self._is_usual(reading):
            return ()
        detail = Note.of("at_share_of_itself", percent=round(100 * reading.share, 1))
        return (Disturbance(code=DisturbanceCode.NOT_ITSELF, details=(detail,)),)

    async def _read(self, canary: DeviceCanary) -> CanaryReading | None:
        reading = await canary.read()
        if reading is None or self._usual is None:
            return reading
        return reading.model_copy(update={"share": self._usual.share(times_of(reading))})

    def _is_usual(self, reading: CanaryReading) -> bool:
        return self._usual is None or self._usual.contains(times_of(reading))


def times_of(reading: CanaryReading) -> tuple[float, ...]:
    """Return the times of a reading in the order of the history."""
    return tuple(float(getattr(reading, kind)) for kind in _KINDS)


def _read_history(path: Path) -> _History:
    try:
        history = _History.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError, ValueError):
        return _History()
    history.readings = [times for times in history.readings if len(times) == len(_KINDS)]
    return history
