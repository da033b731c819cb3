"""What the server is told while an attempt runs: that it started, how far it is, and its log."""

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
        """Send the log until the model warms up: what follows is sent when its pass has ended."""
        while not self._tail.quiet:
            self._send()
            await asyncio.sleep(LOG_TICK_S)
            self._tail.read()

    def pass_ended(self, done: int) -> None:
        """No process runs, the next one is about to start: send how far it is, and the log."""
        self._note(done)
        self._tail.release()
        self._send(between_passes=True)

    async def finish(self, done: int) -> None:
        """The last process has ended: send the rest."""
        self._note(done)
        await asyncio.to_thread(self._tail.finish)
        self._send()

    def _note(self, done: int) -> None:
        """Tell how many passes have ended. Of a single one the end of the attempt tells it."""
        if self._started.passes > 1 and done != self._started.passes_done:
            self._started = self._started.model_copy(update={"passes_done": done})
            self._outbox.post(self._started)

    def _send(self, *, between_passes: bool = False) -> None:
        if self._outbox.generation != self._generation:
            self._generation, self._sent = self._outbox.generation, 0
            self._outbox.post(self._started)
        if self._tail.quiet and not between_passes:
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
