"""A process that a watchdog watches with chosen limits."""

import asyncio
import time
import uuid

from agent.execution.runner import Limits, start_run
from agent.execution.watchdog import Watchdog, WatchLimits

NO_LIMITS = {"silence_s": 0.0, "disk_bytes": 0, "print_bytes": 0, "processes": 0, "file_bytes": 0}


class WatchedRun:
    """One run in its own folder, watched with the given limits only."""

    def __init__(self, folder):
        self.work, self.output = folder / "work", folder / "output"
        self.work.mkdir()
        self.mark = uuid.uuid4()
        self.duration_s = 0.0

    async def start(self, command, limits=None):
        return await start_run(command, self.work, self.output, limits or Limits(), self.mark)

    def make_watchdog(self):
        return Watchdog(self.work, self.output, WatchLimits(silence_s=0))

    async def wait(self, run, stop=None):
        """Wait for the end of a run that `start` returned."""
        return await run.wait(60, lambda: 0.1, stop or asyncio.Event(), self.make_watchdog())

    async def run(
        self,
        command,
        limits=None,
        timeout_s=60.0,
        begin=None,
        wary=False,
        gpus=None,
        **watch_limits,
    ):
        limited = WatchLimits(**{**NO_LIMITS, **watch_limits})
        guard = Watchdog(self.work, self.output, limited, begin, wary=wary, gpus=gpus)
        run = await self.start(command, limits)
        started = time.monotonic()
        result = await run.wait(timeout_s, lambda: 0.1, asyncio.Event(), guard)
        self.duration_s = time.monotonic() - started
        return result
