"""Measure how long the threads of a process were ready to run and waited for a core.

Compiled binaries of load_and_run do not report this, so their threads are sampled. What a thread
waits after its last sample is lost; the interval is short enough to lose little of a run.
"""

import asyncio
import os
import time

from agent.device.process_table import read_tree
from agent.protocol.run_log import CoreWaits

#: interval of samples; each takes about 0.3 ms
EVERY_S = 0.1


class WaitSampler:
    """Samples a process and its descendants. Cancel `sample_repeatedly` when it has ended."""

    def __init__(self, pid: int) -> None:
        self._pid, self._begin_s = pid, time.monotonic()
        #: (pid, thread) -> ns
        self._waited_ns: dict[tuple[int, int], int] = {}

    async def sample_repeatedly(self) -> None:
        while True:
            self.sample()
            await asyncio.sleep(EVERY_S)

    def sample(self) -> None:
        for pid in read_tree(self._pid):
            for thread, waited_ns in read_waits(pid):
                self._waited_ns[pid, thread] = waited_ns

    def waits(self) -> CoreWaits | None:
        """Return the waiting of all threads so far; None if the kernel does not count it."""
        if not self._waited_ns:
            return None
        elapsed_ms = 1000 * (time.monotonic() - self._begin_s)
        return CoreWaits(sum(self._waited_ns.values()) / 1e6, elapsed_ms)


def read_waits(pid: int) -> list[tuple[int, int]]:
    """Return (thread, waiting time in ns) for the threads of a process.

    Empty if the process has ended, or if the kernel does not count (CONFIG_SCHED_INFO).
    """
    waits: list[tuple[int, int]] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return waits
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                waits.append((int(thread), int(file.read().split()[1])))
        except (OSError, IndexError, ValueError):
            continue  # the thread has ended
    return waits
