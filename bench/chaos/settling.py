"""Measure how long the site takes to make progress again after a fault.

The site has settled when every task that was live at the end of the fault has a new event or has
ended. A waiting task also counts when another task of its device has a new event, because that
task runs before it.
"""

import asyncio
import time

from bench.chaos.rows import SiteDatabase, TaskSnapshot

POLL_S = 0.4
#: longest wait for a site to settle
PATIENCE_S = 300.0


class TaskMonitor:
    """Polls the live tasks and their events."""

    def __init__(self, rows: SiteDatabase) -> None:
        self._rows = rows
        self.live: dict[int, TaskSnapshot] = {}
        self._last_event = 0
        #: the last event of each task, and of each device
        self._of_task: dict[int, int] = {}
        self._of_device: dict[int, int] = {}
        self._polled = asyncio.Condition()

    async def poll(self) -> None:
        self.live = await asyncio.to_thread(self._rows.tasks, live=True)
        since = self._last_event
        for event, task, device in await asyncio.to_thread(self._rows.events_after, since):
            self._of_task[task] = self._of_device[device] = event
            self._last_event = max(self._last_event, event)
        async with self._polled:
            self._polled.notify_all()

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self.poll()
            await asyncio.sleep(POLL_S)

    async def ended(self, task: int) -> None:
        """Wait until a task has ended."""
        await self.poll()
        async with self._polled:
            await self._polled.wait_for(lambda: task not in self.live)

    async def settled_s(self) -> float:
        """Wait until all tasks that are live now have made progress; return the time in s."""
        begin = time.monotonic()
        await self.poll()
        since = self._last_event
        left = [row for row in self.live.values() if row.state != "initiated"]
        while left and time.monotonic() - begin < PATIENCE_S:
            async with self._polled:
                await self._polled.wait()
            left = [row for row in left if not self._has_moved(row, since)]
        return time.monotonic() - begin

    def _has_moved(self, row: TaskSnapshot, since: int) -> bool:
        if row.id not in self.live or self._of_task.get(row.id, 0) > since:
            return True
        return row.state == "waiting" and self._of_device.get(row.worker_id, 0) > since
