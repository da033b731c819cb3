"""How long the site takes to work in full again once a part is back.

It does when every task that was with the site at that moment has moved on since, or has ended. A
task that waits has moved on when another one of its device has: it stands behind that one.
"""

import asyncio
import time

from bench.chaos.rows import Rows, TaskRow

LOOK_S = 0.4
#: what has not settled by then is told as such, and not waited for
PATIENCE_S = 300.0


class Watch:
    """The tasks that live and what happens to them, looked at again and again."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.live: dict[int, TaskRow] = {}
        self._last_event = 0
        #: the last event of each task, and of each device
        self._of_task: dict[int, int] = {}
        self._of_device: dict[int, int] = {}
        self._looked = asyncio.Condition()

    async def look(self) -> None:
        self.live = await asyncio.to_thread(self._rows.tasks, live=True)
        since = self._last_event
        for event, task, device in await asyncio.to_thread(self._rows.events_after, since):
            self._of_task[task] = self._of_device[device] = event
            self._last_event = max(self._last_event, event)
        async with self._looked:
            self._looked.notify_all()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def ended(self, task: int) -> None:
        """Wait for the end of a task that has begun."""
        await self.look()
        async with self._looked:
            await self._looked.wait_for(lambda: task not in self.live)

    async def settled_s(self) -> float:
        """Wait until all that is with the site now has moved on; how long that took."""
        begin = time.monotonic()
        await self.look()
        since = self._last_event
        left = [row for row in self.live.values() if row.state != "initiated"]
        while left and time.monotonic() - begin < PATIENCE_S:
            async with self._looked:
                await self._looked.wait()
            left = [row for row in left if not self._has_moved(row, since)]
        return time.monotonic() - begin

    def _has_moved(self, row: TaskRow, since: int) -> bool:
        if row.id not in self.live or self._of_task.get(row.id, 0) > since:
            return True
        return row.state == "waiting" and self._of_device.get(row.worker_id, 0) > since
