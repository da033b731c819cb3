"""Progress reports of a running attempt: its start, the finished passes and the growing log.

All of them are sent without acknowledgement, and again over a new connection; the server drops
repetitions.
"""

import asyncio
import time
from dataclasses import asdict

from agent.execution.artifacts import keep_log
from agent.execution.spool import Folder
from agent.link.log_tail import LogTail
from agent.link.outbox import COMMAND_BYTES, Outbox, cut_to_bytes
from agent.protocol.messages import AttemptLog, AttemptStarted, SlowestOperators, Start

LOG_TICK_S = 0.2
#: most chunks of the log that are sent between two passes; over a slow link, more would be sent
#: while the next pass is timed
_PAUSE_CHUNKS = 4


class Progress:
    """Reports on an attempt. Call `begin` for each pass, and `finish` once after the last pass."""

    def __init__(
        self, order: Start, folder: Folder, outbox: Outbox, limit_bytes: int, download_s: float
    ) -> None:
        self._order, self._folder, self._outbox = order, folder, outbox
        self._tail = LogTail(folder.output, limit_bytes, is_script=order.script is not None)
        self._download_s = download_s
        self._started: AttemptStarted | None = None
        self._generation, self._sent = outbox.generation, 0
        #: the connection over which the slowest operators were sent, 0 for none
        self._slowest_sent = 0
        self._following: asyncio.Task[None] | None = None

    def begin(self, command: str, passes: int) -> None:
        """Report that a process has started, and follow its log. Only the first call reports.

        `passes` is the expected number of passes.
        """
        if self._started is not None:
            return
        self._started = AttemptStarted(
            attempt=self._order.attempt,
            at=time.time(),
            download_s=self._download_s,
            command=cut_to_bytes(command[:8000], COMMAND_BYTES),
            passes=passes,
        )
        self._generation = self._outbox.generation
        self._outbox.post(self._started)
        # stays registered after the process has ended: the server looks for the cause of a failure
        # in the last lines
        self._outbox.echo(self._order.attempt, self._send)
        self._following = asyncio.create_task(self._follow())

    def pass_ended(self, done: int, slowest: SlowestOperators | None) -> None:
        """Report that a process has ended and another one follows; `done` passes have ended.

        The slowest operators and the log are sent here, while the next process starts, and not
        while iterations are timed. What exceeds _PAUSE_CHUNKS of the log follows later.
        """
        if self._started is not None:
            self._note(done, slowest)
            self._tail.release()
            self._send(between_passes=True)

    def pause(self) -> None:
        """Stop following the log because no process runs any more."""
        if self._following is not None:
            self._following.cancel()

    async def finish(self, done: int, slowest: SlowestOperators | None) -> None:
        """Report the finished passes, send the rest of the log, and write `log.txt`."""
        if self._started is not None:
            self._note(done, slowest)
            await asyncio.to_thread(self._tail.finish)
            self._send()
        await asyncio.to_thread(keep_log, self._folder, self._tail)

    async def _follow(self) -> None:
        """Send the log until the model warms up; the rest is sent when its pass has ended."""
        while not self._tail.quiet:
            self._send()
            await asyncio.sleep(LOG_TICK_S)
            self._tail.read()

    def _note(self, done: int, slowest: SlowestOperators | None) -> None:
        """Report the number of finished passes, and the slowest operators once they are known.

        Operators are sent once over each connection, since it is unknown what arrived over an
        earlier one. The command line was sent before, and would make the frame larger.
        """
        started = self._started
        if started is None or done == started.passes_done:
            return
        self._started = started.model_copy(update={"passes_done": done})
        is_new = self._slowest_sent != self._outbox.generation
        changes = {"command": "", "slowest": slowest if is_new else None}
        if slowest is not None:
            self._slowest_sent = self._outbox.generation
        self._outbox.post(self._started.model_copy(update=changes))

    def _send(self, *, between_passes: bool = False) -> None:
        if self._outbox.generation != self._generation and self._started is not None:
            self._generation, self._sent = self._outbox.generation, 0
            self._outbox.post(self._started)
        if self._tail.quiet and not between_passes:
            return
        end = self._sent + _PAUSE_CHUNKS if between_passes else len(self._tail.chunks)
        chunks = self._tail.chunks[self._sent : end]
        for chunk in chunks:
            self._outbox.post(AttemptLog(attempt=self._order.attempt, **asdict(chunk)))
        self._sent += len(chunks)
