"""What the server is told while a process runs: that it started, and its log as it grows."""

import asyncio

from agent.outbox import Outbox
from agent.protocol import AttemptLog, AttemptStarted
from agent.tail import LogTail

LOG_TICK_S = 0.2


class Feed:
    """Sends without acknowledgement, all again over a new connection: the server drops repeats."""

    def __init__(self, started: AttemptStarted, tail: LogTail, outbox: Outbox) -> None:
        """Says at once that the process started."""
        self._started, self._tail, self._outbox = started, tail, outbox
        self._generation, self._sent = outbox.generation, 0
        outbox.post(started)
        # also after the process has ended: the server looks for the cause in the last lines
        outbox.echo(started.attempt, self._send)

    async def follow(self) -> None:
        """Send the log until the model warms up: what follows is sent when all has ended."""
        while not self._tail.quiet:
            self._send()
            await asyncio.sleep(LOG_TICK_S)
            self._tail.read()

    async def finish(self) -> None:
        """The last process has ended: send the rest."""
        await asyncio.to_thread(self._tail.finish)
        self._send()

    def _send(self) -> None:
        if self._outbox.generation != self._generation:
            self._generation, self._sent = self._outbox.generation, 0
            self._outbox.post(self._started)
        if self._tail.quiet:
            return
        for chunk in self._tail.chunks[self._sent :]:
            self._outbox.post(
                AttemptLog(
                    attempt=self._started.attempt,
                    seq=chunk.seq,
                    offset=chunk.offset,
                    size=chunk.size,
                    text=chunk.text,
                )
            )
        self._sent = len(self._tail.chunks)
