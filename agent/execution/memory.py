"""Peak memory of a run: the resident memory of its processes, and their memory on GPUs.

The kernel keeps the largest resident set of each process, so no moment between two reads is missed.
While a process lives it is VmHWM, which the samples of the watchdog read. When it has ended, it is
the resource usage that the agent gets by waiting for it or for its parent.

The peak is the larger of two numbers: the sum of VmHWM over the processes that live at a sample,
and the largest process at its end. The sum is an upper bound, because the processes need not have
their peaks at the same time. Of a process that starts and ends between two samples, only its own
peak is known, not that of its siblings at that time.

The control group of the agent is not used: it contains all runs and the agent, and counts the page
cache of files, such as that of the model.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.device.gpu import GpuReader
from agent.device.process_table import ProcessStat, read_peak_bytes
from agent.execution.processes import ChildProcess, EndedProcess

#: processes of the sandbox, which do not count
_SANDBOX = "bwrap"


@dataclass(frozen=True)
class PeakMemory:
    """Peak memory of a run; the fields are those of `PassRecord`, None if unknown."""

    host_memory_bytes: int | None = None
    memory_method: str = ""
    gpu_memory_bytes: int | None = None


class MemoryMeter:
    """The largest memory of one run in all samples; with `gpus`, also the memory on these."""

    def __init__(self, gpus: GpuReader | None = None) -> None:
        self._gpus = gpus
        self._host_bytes = 0
        self._gpu_bytes: int | None = None
        self._pids: set[int] = set()

    def sample(self, rows: Iterable[ProcessStat]) -> None:
        """Read the memory of the processes of the run."""
        pids = {row.pid: row.name for row in rows}
        self._pids |= pids.keys()
        peaks = (read_peak_bytes(pid) for pid, name in pids.items() if name != _SANDBOX)
        self._host_bytes = max(self._host_bytes, sum(filter(None, peaks)))
        if self._gpus and (used_bytes := self._gpus.used_bytes(pids)) is not None:
            self._gpu_bytes = max(self._gpu_bytes or 0, used_bytes)

    def peak(self, process: ChildProcess, ended: Iterable[EndedProcess]) -> PeakMemory:
        """Return the peak of a run that has ended.

        process: its first process
        ended: processes that the agent has waited for, also of other runs
        """
        known = [
            item.peak_bytes
            for item in ended
            if item.session == process.pid or item.pid in self._pids
        ]
        if process.peak_bytes is not None:
            known.append(process.peak_bytes)
        host_bytes = max([self._host_bytes, *known])
        if not host_bytes:
            return PeakMemory(gpu_memory_bytes=self._gpu_bytes)
        return PeakMemory(host_bytes, "exit" if known else "samples", self._gpu_bytes)
