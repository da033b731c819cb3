"""What the server hears of an attempt while it runs: its start once, its log as it grows."""

import asyncio
import time

from agent.feed import Feed
from agent.frames import COMMAND_BYTES, cut_to_bytes
from agent.outbox import Outbox
from agent.protocol import AttemptStarted, Start
from agent.results import keep_log
from agent.spool import Folder
from agent.tail import LogTail


class Progress:
    """One log for all passes. `begin` for each of them; `finish` once, when the last has ended."""

    def __init__(
        self, order: Start, folder: Folder, outbox: Outbox, limit_bytes: int, download_s: float
    ) -> None:
        self._order, self._folder, self._outbox = order, folder, outbox
        self._tail = LogTail(folder.output, limit_bytes, is_script=order.script is not None)
        self._download_s = download_s
        self._feed: Feed | None = None
        self._following: asyncio.Task[None] | None = None

    def begin(self, command: str) -> None:
        """A process runs. The server is told of the first one only, and follows its loading."""
        if self._feed is not None:
            return
        started = AttemptStarted(
            attempt=self._order.attempt,
            at=time.time(),
            download_s=self._download_s,
            command=cut_to_bytes(command[:8000], COMMAND_BYTES),
        )
        self._feed = Feed(started, self._tail, self._outbox)
        self._following = asyncio.create_task(self._feed.follow())

    def pause(self) -> None:
        """No process runs any more."""
        if self._following is not None:
            self._following.cancel()

    async def finish(self) -> None:
        """Send the rest of the log and keep it."""
        if self._feed is not None:
            await self._feed.finish()
        await asyncio.to_thread(keep_log, self._folder, self._tail)
