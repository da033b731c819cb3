"""Progress reports of a running attempt: its start, the finished passes and the growing log.

All of them are sent without acknowledgement, and again over a new connection; the server drops
repetitions.
"""

import asyncio
import time
from dataclasses import asdict

from agent.execution.artifacts import keep_log
from agent.execution.measure import PassResults
from agent.execution.spool import Folder
from agent.link.log_tail import LogTail
from agent.link.outbox import COMMAND_BYTES, Outbox, cut_to_bytes
from agent.protocol.messages import AttemptLog, AttemptStarted, Start, encode

LOG_TICK_S = 0.2
#: the pauses double after this many chunks, up to the longest: all chunks are sent again over a
#: new connection, and `Session` delays frames beyond those that the server accepts at once
_CHUNKS_UNTIL_SLOWER = 50
_LONGEST_TICK_S = 6.4
#: most bytes of all frames that are sent between two passes; over a slow link, more would be sent
#: while the next pass is timed
PAUSE_BYTES = 4_000
#: of a frame of the log around its text
_FRAME_BYTES = 200
#: less of the log is not worth a frame
_LEAST_LOG_BYTES = 200


class Progress:
    """Reports on an attempt. Call `begin` for each pass, and `finish` once after the last pass."""

    def __init__(
        self, order: Start, folder: Folder, outbox: Outbox, limit_bytes: int, download_s: float
    ) -> None:
        self._order, self._folder, self._outbox = order, folder, outbox
        self._tail = LogTail(folder.output, limit_bytes, is_script=order.script is not None)
        self._download_s = download_s
        self._started: AttemptStarted | None = None
        #: expected number of passes, each counted once
        self._passes = 0
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
        self._passes = passes
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

    def pass_ended(self, done: PassResults) -> None:
        """Report that a process has ended and another one follows.

        What is known so far and the log are sent here, while the next process starts, and not
        while iterations are timed. What exceeds PAUSE_BYTES of the log follows in the next pause or
        after the last pass.
        """
        if self._started is not None:
            left = PAUSE_BYTES - self._note(done)
            if left >= _FRAME_BYTES + _LEAST_LOG_BYTES:
                self._tail.release(left - _FRAME_BYTES)
                self._send(left)

    def pause(self) -> None:
        """Stop following the log because no process runs any more."""
        if self._following is not None:
            self._following.cancel()

    async def finish(self, done: PassResults) -> None:
        """Report the finished passes, send the rest of the log, and write `log.txt`."""
        if self._started is not None:
            self._note(done)
            await asyncio.to_thread(self._tail.finish)
            self._send()
        await asyncio.to_thread(keep_log, self._folder, self._tail)

    async def _follow(self) -> None:
        """Send the log until the model warms up; the rest is sent when its pass has ended."""
        while not self._tail.quiet:
            self._send()
            slower = len(self._tail.chunks) // _CHUNKS_UNTIL_SLOWER
            await asyncio.sleep(min(LOG_TICK_S * 2**slower, _LONGEST_TICK_S))
            self._tail.read()

    def _note(self, done: PassResults) -> int:
        """Report the number of finished passes, and what is known so far.

        Return the size of the frame, 0 if there is nothing new.
        Operators are sent once over each connection, since it is unknown what arrived over an
        earlier one. The command line was sent before, and would make the frame larger.
        """
        started, verdicts, slowest = self._started, tuple(done.verdicts), done.slowest
        count = done.discarded + done.succeeded
        if started is None or count == started.passes_done:
            return 0
        if verdicts and verdicts == started.verdicts:
            return 0  # pairs follow each other every second, looks at them become rare
        self._started = started.model_copy(
            update={
                "passes": self._passes + done.discarded,
                "passes_done": count,
                "latency": done.latency,
                "verdicts": verdicts,
            }
        )
        is_new = self._slowest_sent != self._outbox.generation
        changes = {"command": "", "slowest": slowest if is_new else None}
        if slowest is not None:
            self._slowest_sent = self._outbox.generation
        report = self._started.model_copy(update=changes)
        self._outbox.post(report)
        return _size(report)

    def _send(self, limit_bytes: int | None = None) -> None:
        """Send new chunks, also while the log is held back if there is a limit of their frames."""
        if self._outbox.generation != self._generation and self._started is not None:
            self._generation, self._sent = self._outbox.generation, 0
            self._outbox.post(self._started)
        if self._tail.quiet and limit_bytes is None:
            return
        for chunk in self._tail.chunks[self._sent :]:
            message = AttemptLog(attempt=self._order.attempt, **asdict(chunk))
            if limit_bytes is not None:
                limit_bytes -= _size(message)
                if limit_bytes < 0:
                    return
            self._outbox.post(message)
            self._sent += 1


def _size(message: AttemptStarted | AttemptLog) -> int:
    return len(encode(message).encode())
