"""What the server hears of an attempt while it runs: its start, its passes, its log as it grows."""

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

    def begin(self, command: str, passes: int) -> None:
        """A process runs. The server is told of the first one only, and follows its loading.

        passes: how many there will be
        """
        if self._feed is not None:
            return
        started = AttemptStarted(
            attempt=self._order.attempt,
            at=time.time(),
            download_s=self._download_s,
            command=cut_to_bytes(command[:8000], COMMAND_BYTES),
            passes=passes,
        )
        self._feed = Feed(started, self._tail, self._outbox)
        self._following = asyncio.create_task(self._feed.follow())

    def pass_ended(self, done: int) -> None:
        """A process has ended, and another one follows.

        What is sent here leaves while the next process starts: nothing is sent while it is timed.
        done: how many passes have ended
        """
        if self._feed is not None:
            self._feed.pass_ended(done)

    def pause(self) -> None:
        """No process runs any more."""
        if self._following is not None:
            self._following.cancel()

    async def finish(self, done: int) -> None:
        """Send how many passes have ended and the rest of the log, and keep the log."""
        if self._feed is not None:
            await self._feed.finish(done)
        await asyncio.to_thread(keep_log, self._folder, self._tail)
