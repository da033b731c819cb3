"""What the server is told while a process runs: that it started, and its log as it grows."""

import asyncio

from agent.outbox import Outbox
from agent.protocol import AttemptLog, AttemptStarted
from agent.tail import LogTail

LOG_TICK_S = 0.2
#: while iterations are timed nothing is sent, so there is no hurry to look
QUIET_TICK_S = 1.0


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
        """Send the log until cancelled. Sleeps between looks: a benchmark runs beside us."""
        while True:
            await asyncio.sleep(QUIET_TICK_S if self._tail.quiet else LOG_TICK_S)
            self._tail.read()
            if not self._tail.quiet:
                self._send()

    async def finish(self) -> None:
        """The process has ended: send the rest."""
        await asyncio.to_thread(self._tail.finish)
        self._send()

    def _send(self) -> None:
        if self._outbox.generation != self._generation:
            self._generation, self._sent = self._outbox.generation, 0
            self._outbox.post(self._started)
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
